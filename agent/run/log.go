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
	// followPause is the longest time after which a follower checks for more output.
	followPause = 100 * time.Millisecond
	// backStep is the number of bytes that Tail reads at once, from the end backwards.
	backStep = 64 << 10
)

// Log reads the output of one seat, both while the seat runs and after it was forgotten. An offset counts from the job's first byte, so it
// stays valid after a rotation. Log skips output that a rotation has deleted, so Offset can jump. A Log is not safe for concurrent use.
type Log struct {
	root   *os.Root // the seat's directory; stays valid when Forget moves it
	offset int64
	file   int64 // start offset of the file from which the last bytes were read
	follow follower
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
				return &Log{root: root, follow: follower{watches: &r.watches}}, nil
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
func (l *Log) Close() error { return errors.Join(l.root.Close(), l.follow.close()) }

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
	if line, err := l.back(end, max(first, end-1), 1); err != nil {
		return err
	} else if line == end { // the last line is finished
		n++
	}
	l.offset, err = l.back(end, first, n)
	return err
}

// The method `back` returns the offset after the n-th last newline before an offset, or `first` if there are fewer newlines after it.
func (l *Log) back(from, first int64, n int) (int64, error) {
	was, file := l.offset, l.file
	defer func() { l.offset, l.file = was, file }()
	buf := make([]byte, backStep)
	for end := from; end > first; {
		begin := max(first, end-backStep)
		block, err := l.block(buf[:end-begin], begin)
		if err != nil {
			return from, err
		}
		if block == nil { // a rotation has deleted it meanwhile
			return end, nil
		}
		for i := len(block); i > 0; {
			if i = bytes.LastIndexByte(block[:i], '\n'); i < 0 {
				break
			}
			if n--; n == 0 {
				return begin + int64(i) + 1, nil
			}
		}
		end = begin
	}
	return first, nil
}

// The method `block` fills b with the bytes at an offset. The result is nil if they no longer exist.
func (l *Log) block(b []byte, at int64) ([]byte, error) {
	for n := 0; n < len(b); {
		l.offset = at + int64(n)
		m, err := l.read(b[n:])
		if err != nil {
			return nil, err
		}
		if m == 0 || l.offset != at+int64(n+m) {
			return nil, nil
		}
		n += m
	}
	return b, nil
}

// Next reads some bytes at Offset and advances Offset. At the end of the output, Next returns io.EOF. If the argument `follow` is true,
// Next waits for more bytes. It then returns io.EOF only when the seat has ended.
func (l *Log) Next(ctx context.Context, b []byte, follow bool) (int, error) {
	for {
		// The watch begins before the output is read, so it reports all that is written later.
		if follow {
			l.watch()
		}
		n, err := l.poll(b, follow)
		if n > 0 || err != nil {
			return n, err
		}
		if err = l.rest(ctx); err != nil {
			return 0, err
		}
	}
}

// The method `poll` is Next without the wait: it returns 0 bytes and no error if more output may follow.
func (l *Log) poll(b []byte, follow bool) (int, error) {
	// Before the read, check whether the seat has ended, so that output written just before the end is not missed.
	ended := !follow || l.ended()
	n, err := l.read(b)
	if n == 0 && err == nil && ended {
		err = io.EOF
	}
	return n, err
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
			l.offset, l.file = l.offset+int64(n), starts[i]
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
