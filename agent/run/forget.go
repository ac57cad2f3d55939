//go:build linux

package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// Forget deletes a seat's state after its release and keeps only its log, within KeepLogs and KeepLogBytes. Forget returns ErrAlive
// while a process of the seat may be alive. Forget returns no error for an unknown seat.
func (r *Runner) Forget(key Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	from, to := seatsDir+"/"+key.String(), logsDir+"/"+key.String()
	order, known := r.ended.take(key)
	isVerified := known
	if !known {
		if _, err := r.root.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		var err error
		if order, known, err = r.cleanUp(key); err != nil {
			return fmt.Errorf("forget %s: %w", key, err)
		}
	}
	// The seat counts as forgotten once its directory is renamed. If a crash interrupts Forget, tidyLogs completes the deletion
	// later.
	err := r.root.Rename(from, to)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		err = errors.Join(r.discardSeat(to), r.root.Rename(from, to))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forget %s: %w", key, err)
	}
	if !known || order.Sandbox.Shm != "" {
		r.unmountShm()
	}
	if known {
		r.removeIPC(&order)
	}
	return r.keepLog(to, isVerified && order.Contained())
}

// endedSeats are the orders of the seats whose end Wait has verified, until they are forgotten. Forget need not verify it again.
type endedSeats struct {
	mu  sync.Mutex
	all map[Key]seat.Order
}

func (e *endedSeats) add(order *seat.Order) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[Key]seat.Order{}
	}
	e.all[order.Key] = *order
}

func (e *endedSeats) take(key Key) (order seat.Order, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	order, ok = e.all[key]
	delete(e.all, key)
	return order, ok
}

// cleanUp removes the cgroups and the secrets of a seat that has ended. It returns ErrAlive while a process of the seat may be alive.
func (r *Runner) cleanUp(key Key) (order seat.Order, known bool, err error) {
	alive, err := r.alive(key)
	order, known = r.whereabouts(key)
	if err == nil && !alive && !r.owners.hasLeft(&order) {
		if group := seat.Cgroup(order.Cgroup); order.Contained() && !group.RemoveEmpty() {
			alive, err = group.Populated()
			if err == nil && !alive {
				err = group.Remove()
			}
		}
		for _, g := range order.Groups {
			if err == nil && !alive && !seat.Cgroup(g.Dir).RemoveEmpty() {
				err = g.Remove()
			}
		}
	}
	if err == nil && alive {
		err = ErrAlive
	}
	if err == nil {
		r.removeSecrets(key, known && order.SecretCount == 0)
	}
	return order, known, err
}

// The type `kept` describes the stored log of one forgotten seat.
type kept struct {
	path  string
	since int64
	size  int64
	files int
}

// rescanAfter is how many seats are forgotten between two readings of all stored logs. In between, the Runner knows what it stored. A
// reading costs time for each stored log, so reading all of them for each seat would cost more than running a short job.
const rescanAfter = 1000

// keptLogs is the Runner's list of the stored logs of forgotten seats.
type keptLogs struct {
	mu     sync.Mutex
	all    []kept // the oldest first
	bytes  int64  // sum of their sizes
	rescan int    // number of seats to forget before all logs are read again; 0 means now
}

// The method `add` adds a log in the order of time. It replaces a log of the same seat. The caller holds the lock.
func (l *keptLogs) add(k kept) {
	if i := slices.IndexFunc(l.all, func(o kept) bool { return o.path == k.path }); i >= 0 {
		l.bytes -= l.all[i].size
		l.all = slices.Delete(l.all, i, i+1)
	}
	i := len(l.all)
	for i > 0 && l.all[i-1].since > k.since {
		i--
	}
	l.all = slices.Insert(l.all, i, k)
	l.bytes += k.size
}

// keepLog strips the directory of a seat that was just forgotten, adds its log to the stored ones, and deletes the oldest logs beyond the
// limits. If anything cannot be removed, the next call tries again. With `recycle`, no process of the seat is left that could have its files
// open.
func (r *Runner) keepLog(path string, recycle bool) error {
	r.kept.mu.Lock()
	scan := r.kept.rescan <= 0
	r.kept.rescan--
	r.kept.mu.Unlock()
	if scan {
		return r.tidyLogs()
	}
	k, err := r.strip(path, recycle)
	r.kept.mu.Lock()
	defer r.kept.mu.Unlock()
	if k.files > 0 {
		r.kept.add(k)
	}
	if err = errors.Join(err, r.dropOldLogs()); err != nil {
		r.kept.rescan = 0
	}
	return err
}

// tidyLogs deletes all files of forgotten seats except their logs, because the spec file contains the job's environment. It then
// deletes the oldest logs beyond the limits.
func (r *Runner) tidyLogs() error {
	r.kept.mu.Lock()
	defer r.kept.mu.Unlock()
	r.kept.all, r.kept.bytes, r.kept.rescan = nil, 0, rescanAfter
	var errs []error
	for _, dir := range []string{logsDir, storedDir} {
		entries, err := fs.ReadDir(r.root.FS(), dir)
		if err != nil {
			r.kept.rescan = 0
			return fmt.Errorf("tidy logs: %w", err)
		}
		for _, e := range entries {
			k, err := r.strip(dir+"/"+e.Name(), false)
			errs = append(errs, err)
			if k.files > 0 {
				r.kept.all = append(r.kept.all, k)
				r.kept.bytes += k.size
			}
		}
	}
	slices.SortFunc(r.kept.all, func(a, b kept) int { return cmp.Compare(a.since, b.since) })
	err := errors.Join(append(errs, r.dropOldLogs())...)
	if err != nil {
		r.kept.rescan = 0
	}
	return err
}

// dropOldLogs deletes the oldest logs beyond the limits. The caller holds the lock of the stored logs.
func (r *Runner) dropOldLogs() error {
	l, n := &r.kept, 0
	var errs []error
	for ; n < len(l.all) && (len(l.all)-n > r.KeepLogs || l.bytes > r.KeepLogBytes); n++ {
		errs = append(errs, r.discard(l.all[n].path))
		l.bytes -= l.all[n].size
	}
	l.all = slices.Delete(l.all, 0, n)
	return errors.Join(errs...)
}

// The method `strip` removes everything except logs and their indexes from a directory. If no logs are left, the method removes
// the directory too. An entry that cannot be removed does not keep the others.
func (r *Runner) strip(path string, recycle bool) (kept, error) {
	k := kept{path: path}
	dir, err := r.root.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) { // another Forget removed it
		return k, nil
	}
	if err != nil {
		return k, err
	}
	defer func() { _ = dir.Close() }()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return k, err
	}
	var errs []error
	for _, e := range entries {
		if isKept(e.Name(), entries) {
			if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
				k.files++
				k.size += st.Size()
				k.since = max(k.since, st.ModTime().UnixNano())
				continue
			}
		}
		if recycle && slices.Contains(recycled, e.Name()) && r.recycler.put(dir, filepath.Join(r.dir, path), e.Name()) {
			continue
		}
		if e.Name() == seat.JobDir { // only the agent writes there
			_ = dir.Remove(seat.JobDir + "/" + seat.JobSocket)
		}
		// A file is removed at once, because the spec file holds the job's environment with its secrets, and so is an empty directory. What
		// the job put into a directory is only moved to the trash.
		if err := dir.Remove(e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, r.discard(path+"/"+e.Name()))
		}
	}
	if k.files == 0 {
		errs = append(errs, r.discard(path))
	}
	return k, errors.Join(errs...)
}

// isKept reports whether a file of a forgotten seat is kept: a log file, or the index of a log file that is there too.
func isKept(name string, entries []fs.DirEntry) bool {
	if _, isLog := seat.ParseLogName(name); isLog {
		return true
	}
	start, isIndex := seat.ParseIndexName(name)
	return isIndex && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == seat.LogName(start) })
}

// discardSeat removes a seat's directory: its spec file at once, everything else in the background.
func (r *Runner) discardSeat(path string) error {
	if _, err := r.root.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	spec := path + "/" + seat.SpecFile
	var kept error
	if err := r.root.Remove(spec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		kept = r.discard(spec)
	}
	return errors.Join(kept, r.discard(path))
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
