package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/agent/trash"
)

// workDir is the directory of the seats' working directories, below the agent's own directory. Its subdirectory trashDir holds the
// working directories of ended seats until they are deleted. It is inside workDir, because an administrator may mount a file system there,
// and a directory cannot be renamed into another file system.
const (
	workDir  = "work"
	trashDir = "trash"
)

// openRunner opens the directory of the seats and the bin for their working directories.
func (a *Agent) openRunner(supervisor string) (err error) {
	if a.runner, err = run.Open(filepath.Join(a.cfg.Dir, "seats"), supervisor); err != nil {
		return err
	}
	if err = a.openTrash(); err != nil {
		return errors.Join(err, a.runner.Close())
	}
	return nil
}

// openTrash opens the bin for working directories. No part of a clean-up may keep the agent from starting, because jobs decide what has to
// be cleaned up.
func (a *Agent) openTrash() error {
	dir := filepath.Join(a.cfg.Dir, workDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the directory for the jobs' working directories: %w", err)
	}
	var err error
	if a.bin, err = trash.Open(filepath.Join(dir, trashDir)); err != nil {
		return err
	}
	a.bin.Log, a.runner.Trash().Log = a.log, a.log
	if err := a.runner.Untidy(); err != nil {
		a.log.Warn("files of ended seats could not be removed, the next start tries again", "error", err)
	}
	return nil
}

// emptyTrash discards the working directories that no seat has, and deletes everything that was discarded, in the background. The
// agent's seats must be known.
func (a *Agent) emptyTrash(ctx context.Context) {
	dir := filepath.Join(a.cfg.Dir, workDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		a.log.Warn("look for working directories that no seat has", "error", err)
	}
	for _, e := range entries {
		key, ok := run.ParseKey(e.Name())
		if !ok || a.isHeld(key) {
			continue // other names do not belong to Ares
		}
		if err := a.bin.Discard(filepath.Join(dir, e.Name())); err != nil {
			a.log.Warn("remove the working directory of an ended seat", "seat", key, "error", err)
		}
	}
	for _, bin := range []*trash.Bin{a.bin, a.runner.Trash()} {
		a.wg.Go(func() { _ = bin.Run(ctx) })
	}
}
