//go:build linux

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// The logs of forgotten seats are in two directories. Those in logsDir are only on this node. MarkStored moves a log to storedDir, so that
// neither a restart nor a crash of the agent makes it store the log again.

// UnstoredLogs returns the forgotten seats whose logs were not stored elsewhere, the oldest first. A seat that Forget is still moving is not
// among them, so that MarkStored never moves a directory whose other files are not deleted yet.
func (r *Runner) UnstoredLogs() []Key {
	r.kept.mu.Lock()
	defer r.kept.mu.Unlock()
	var keys []Key
	for _, k := range r.kept.all {
		if name, ok := strings.CutPrefix(k.path, logsDir+"/"); ok {
			if key, ok := ParseKey(name); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// MarkStored records that the log of a forgotten seat is stored elsewhere, or need not be. It returns no error if the log was deleted.
func (r *Runner) MarkStored(key Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	r.kept.mu.Lock()
	defer r.kept.mu.Unlock()
	from, to := logsDir+"/"+key.String(), storedDir+"/"+key.String()
	i := slices.IndexFunc(r.kept.all, func(k kept) bool { return k.path == from })
	if i < 0 {
		return nil
	}
	err := r.root.Rename(from, to)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		err = errors.Join(r.discard(to), r.root.Rename(from, to))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark the log of %s as stored: %w", key, err)
	}
	r.kept.all[i].path = to
	return nil
}
