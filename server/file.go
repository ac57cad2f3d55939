package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	ares "github.com/ares-scheduler/ares"
)

// WriteWhole makes a file that is there whole, durable, or not at all. A file
// that is there already is kept unless force is set.
func WriteWhole(path string, force bool, write func(io.Writer) error) (err error) {
	if _, err = os.Lstat(path); err == nil && !force {
		return ares.Errorf(ares.Conflict, "%s exists: name another file, or replace it with --force", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // readable for its owner alone
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	err = write(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if !force {
		// Unlike a rename, a link does not replace a file that came meanwhile.
		if err = os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
			return ares.Errorf(ares.Conflict, "%s exists by now: name another file, or replace it with --force", path)
		} else if err == nil {
			return errors.Join(os.Remove(tmp.Name()), syncDir(dir))
		}
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
