//go:build linux

package run

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
	"github.com/ares-scheduler/ares/joblog"
)

// Log reads the output of one seat, both while the seat runs and after it was forgotten.
type Log = joblog.Log

// OpenLog opens a seat's output at the oldest byte that still exists. The error is fs.ErrNotExist if the seat is unknown, if it is still
// being created, or if its log was deleted.
func (r *Runner) OpenLog(key Key) (*Log, error) {
	if err := key.Check(); err != nil {
		return nil, err
	}
	var err error
	// Forget may be moving the seat's directory at this moment. OpenLog therefore looks in seatsDir again after it has looked in logsDir.
	// MarkStored moves it from logsDir to storedDir.
	for _, dir := range []string{seatsDir, logsDir, storedDir, seatsDir} {
		var root *os.Root
		if root, err = r.root.OpenRoot(dir + "/" + key.String()); err == nil {
			if dir == seatsDir { // without a lock, a new seat would look like one that has ended
				_, err = root.Lstat(seat.LockFile)
			}
			if err == nil {
				return newLog(root, follower{watches: &r.watches}), nil
			}
			_ = root.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("open log of %s: %w", key, err)
}

func newLog(root *os.Root, f follower) *Log { return joblog.New(&logFiles{root, f}) }

// logFiles are the files of a seat's output.
type logFiles struct {
	root   *os.Root // the seat's directory; stays valid when Forget moves it
	follow follower
}

// Close implements joblog.Source.
func (l *logFiles) Close() error { return errors.Join(l.root.Close(), l.follow.close()) }

// Files implements joblog.Source.
func (l *logFiles) Files() ([]int64, error) {
	entries, err := fs.ReadDir(l.root.FS(), ".")
	if errors.Is(err, fs.ErrNotExist) { // deleted while it was open
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var starts []int64
	for _, e := range entries {
		if at, ok := seat.ParseLogName(e.Name()); ok {
			starts = append(starts, at)
		}
	}
	slices.Sort(starts)
	return starts, nil
}

// Stat implements joblog.Source.
func (l *logFiles) Stat(start int64) (int64, time.Time, error) {
	st, err := l.root.Lstat(seat.LogName(start))
	if err != nil {
		return 0, time.Time{}, err
	}
	return st.Size(), st.ModTime(), nil
}

// ReadAt implements joblog.Source.
func (l *logFiles) ReadAt(start int64, b []byte, offset int64) (int, error) {
	f, err := l.root.OpenFile(seat.LogName(start), os.O_RDONLY|openSafe, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(b, offset-start)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Ended implements joblog.Source. Without a supervisor, no more output can follow.
func (l *logFiles) Ended() bool {
	f, err := l.root.Open(seat.LockFile)
	if err != nil {
		return true // forgotten
	}
	defer f.Close()
	locked, err := seat.Locked(f)
	return err != nil || !locked
}
