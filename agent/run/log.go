//go:build linux

package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const (
	// followPause is the interval at which a follower checks for more output.
	followPause = 100 * time.Millisecond
	// tailWindow is the number of bytes at the end of the output in which Tail searches for line ends.
	tailWindow = 1 << 20
)

// Log reads the output of one seat, both while the seat runs and after it was forgotten. An offset counts from the job's first byte, so it
// stays valid after a rotation. Log skips output that a rotation has deleted, so Offset can jump. A Log is not safe for concurrent use.
type Log struct {
	root   *os.Root // the seat's directory; stays valid when Forget moves it
	offset int64
}

// OpenLog opens a seat's output at the oldest byte that still exists. The error is fs.ErrNotExist if the seat is unknown, if it is still
// being created, or if its log was deleted.
func (r *Runner) OpenLog(key Key) (*Log, error) {
	if err := key.Check(); err != nil {
		return nil, err
	}
	var err error
	// Forget may be moving the seat's directory at this moment. OpenLog therefore looks in seatsDir again after it has looked in logsDir.
	for _, dir := range []string{seatsDir, logsDir, seatsDir} {
		var root *os.Root
		if root, err = r.root.OpenRoot(dir + "/" + key.String()); err == nil {
			if dir == seatsDir { // without a lock, a new seat would look like one that has ended
				_, err = root.Lstat(seat.LockFile)
			}
			if err == nil {
				return &Log{root: root}, nil
			}
			_ = root.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("open log of %s: %w", key, err)
}

// Close closes the log.
func (l *Log) Close() error { return l.root.Close() }

// Offset is the position of the next byte to read.
func (l *Log) Offset() int64 { return l.offset }

// SeekTo moves to an offset, which may be before the oldest existing byte or after the newest one.
func (l *Log) SeekTo(offset int64) { l.offset = max(offset, 0) }

// The method `files` returns the start offsets of the existing log files, in order.
func (l *Log) files() ([]int64, error) {
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

// Bounds returns the offsets of the oldest existing byte and of the end.
func (l *Log) Bounds() (first, end int64, err error) {
	starts, err := l.files()
	if err != nil || len(starts) == 0 {
		return 0, 0, err
	}
	last := starts[len(starts)-1]
	st, err := l.root.Lstat(seat.LogName(last))
	if err != nil {
		return 0, 0, err
	}
	return starts[0], last + st.Size(), nil
}

// Tail moves to the start of the last n lines. An unfinished line counts as a line.
func (l *Log) Tail(n int) error {
	first, end, err := l.Bounds()
	if err != nil {
		return err
	}
	if n <= 0 {
		l.offset = end
		return nil
	}
	l.offset = max(first, end-tailWindow)
	buf := make([]byte, 0, min(end-l.offset, tailWindow))
	for at := l.offset; len(buf) < cap(buf); {
		m, err := l.read(buf[len(buf):cap(buf)])
		if err != nil {
			return err
		}
		if m == 0 {
			break
		}
		chunk := buf[len(buf) : len(buf)+m]
		if l.offset != at+int64(m) { // the log was rotated meanwhile, so the bytes that were read no longer exist
			buf = buf[:0]
		}
		buf, at = append(buf, chunk...), l.offset
	}
	start := l.offset - int64(len(buf))
	i := len(bytes.TrimSuffix(buf, []byte("\n")))
	for ; n > 0 && i >= 0; n-- {
		i = bytes.LastIndexByte(buf[:i], '\n')
	}
	l.offset = start + int64(i+1)
	return nil
}

// Next reads some bytes at Offset and advances Offset. At the end of the output, Next returns io.EOF. If the argument `follow` is true,
// Next waits for more bytes. It then returns io.EOF only when the seat has ended.
func (l *Log) Next(ctx context.Context, b []byte, follow bool) (int, error) {
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	for {
		// Before the read, check whether the seat has ended, so that output written just before the end is not
		// missed.
		ended := !follow || l.ended()
		n, err := l.read(b)
		if n > 0 || err != nil {
			return n, err
		}
		if ended {
			return 0, io.EOF
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

// The method `ended` reports whether the supervisor is gone. Without a supervisor, no more output can follow.
func (l *Log) ended() bool {
	f, err := l.root.Open(seat.LockFile)
	if err != nil {
		return true // forgotten
	}
	defer f.Close()
	locked, err := seat.Locked(f)
	return err != nil || !locked
}

// The method `read` reads the available bytes at the offset. If no bytes are available, the method returns 0 and no error. A
// rotation may happen at any moment, so the method tries again when a file has vanished.
func (l *Log) read(b []byte) (int, error) {
	const tries = 10
	for range tries {
		starts, err := l.files()
		if err != nil || len(starts) == 0 {
			return 0, err
		}
		l.offset = max(l.offset, starts[0])
		i, exact := slices.BinarySearch(starts, l.offset)
		if !exact {
			i-- // the file that begins before the offset, which always exists
		}
		n, err := l.readAt(b, starts[i])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if n > 0 || err != nil || i == len(starts)-1 {
			l.offset += int64(n)
			return n, err
		}
		// This log file has a successor, so it was complete when it was listed, and all of its bytes have been read.
		l.offset = max(l.offset, starts[i+1])
	}
	return 0, nil
}

func (l *Log) readAt(b []byte, start int64) (int, error) {
	f, err := l.root.OpenFile(seat.LogName(start), os.O_RDONLY|openSafe, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(b, l.offset-start)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
