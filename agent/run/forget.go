//go:build linux

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// Forget deletes a seat's state after its release and keeps only its log, within KeepLogs and KeepLogBytes. Forget returns ErrAlive
// while a process of the seat may be alive. Forget returns no error for an unknown seat.
func (r *Runner) Forget(key Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	from, to := seatsDir+"/"+key.String(), logsDir+"/"+key.String()
	if _, err := r.root.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	alive, err := r.alive(key)
	if err == nil && !alive {
		order, _ := r.whereabouts(key)
		if group := seat.Cgroup(order.Cgroup); order.Contained() {
			alive, err = group.Populated()
			if err == nil && !alive {
				err = group.Remove()
			}
		}
		for _, g := range order.Groups {
			if err == nil && !alive {
				err = g.Remove()
			}
		}
	}
	if err == nil && alive {
		err = ErrAlive
	}
	if err != nil {
		return fmt.Errorf("forget %s: %w", key, err)
	}
	order, unread := r.readOrder(key)
	r.removeSecrets(key)
	// The seat counts as forgotten once its directory is renamed. If a crash interrupts Forget, tidyLogs completes the deletion
	// later.
	if err := errors.Join(r.discardSeat(to), r.root.Rename(from, to)); err != nil {
		return fmt.Errorf("forget %s: %w", key, err)
	}
	r.unmountShm()
	if unread == nil {
		r.removeIPC(&order)
	}
	return r.tidyLogs()
}

// The type `kept` describes the stored log of one forgotten seat.
type kept struct {
	path  string
	since int64
	size  int64
	files int
}

// tidyLogs deletes all files of forgotten seats except their logs, because the spec file contains the job's environment. It then
// deletes the oldest logs beyond the limits.
func (r *Runner) tidyLogs() error {
	entries, err := fs.ReadDir(r.root.FS(), logsDir)
	if err != nil {
		return fmt.Errorf("tidy logs: %w", err)
	}
	var all []kept
	var errs []error
	for _, e := range entries {
		k, err := r.strip(logsDir + "/" + e.Name())
		errs = append(errs, err)
		if k.files > 0 {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return int(min(max(b.since-a.since, -1), 1)) })
	var bytes int64
	for i, k := range all { // the newest first
		bytes += k.size
		if i >= r.KeepLogs || bytes > r.KeepLogBytes {
			errs = append(errs, r.discard(k.path))
		}
	}
	return errors.Join(errs...)
}

// The method `strip` removes everything except logs from a directory. If no logs are left, the method removes
// the directory too. An entry that cannot be removed does not keep the others.
func (r *Runner) strip(path string) (kept, error) {
	k := kept{path: path}
	entries, err := fs.ReadDir(r.root.FS(), path)
	if errors.Is(err, fs.ErrNotExist) { // another Forget removed it
		return k, nil
	}
	if err != nil {
		return k, err
	}
	var errs []error
	for _, e := range entries {
		_, isLog := seat.ParseLogName(e.Name())
		st, err := e.Info()
		if isLog && err == nil && st.Mode().IsRegular() {
			k.files++
			k.size += st.Size()
			k.since = max(k.since, st.ModTime().UnixNano())
			continue
		}
		errs = append(errs, r.drop(path+"/"+e.Name(), e.IsDir()))
	}
	if k.files == 0 {
		errs = append(errs, r.discard(path))
	}
	return k, errors.Join(errs...)
}

// The method `drop` removes one entry of a seat's directory. A file is removed at once, because the spec file holds the job's environment
// with its secrets. A directory was filled by the job, so it is only moved to the trash.
func (r *Runner) drop(path string, isDir bool) error {
	if !isDir {
		err := r.root.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return r.discard(path)
}

// discardSeat removes a seat's directory: its spec file at once, everything else in the background.
func (r *Runner) discardSeat(path string) error {
	return errors.Join(r.drop(path+"/"+seat.SpecFile, false), r.discard(path))
}

// The method `discard` moves a file or a directory to the trash.
func (r *Runner) discard(path string) error {
	dir, err := r.root.Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return r.bin.DiscardFrom(dir, filepath.Base(path))
}
