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
	// followPause is how often a follower looks for more.
	followPause = 100 * time.Millisecond
	// tailWindow bounds how far back Tail looks for line ends.
	tailWindow = 1 << 20
)

// Log reads the output of one seat, while it runs and after it was forgotten. An offset
// counts from the first byte that the job ever wrote, so it survives rotation; what was
// rotated away is skipped, which shows as a jump of Offset. Not for concurrent use.
type Log struct {
	root   *os.Root // the seat's directory; stays valid when Forget moves it
	offset int64
}

// OpenLog opens a seat's output at its oldest byte kept. The error is fs.ErrNotExist if the
// seat is unknown or its log was dropped.
func (r *Runner) OpenLog(key Key) (*Log, error) {
	if err := key.Check(); err != nil {
		return nil, err
	}
	var err error
	// Forget may move the seat just now: look once more where it was not.
	for _, dir := range []string{seatsDir, logsDir, seatsDir} {
		var root *os.Root
		if root, err = r.root.OpenRoot(dir + "/" + key.String()); err == nil {
			return &Log{root: root}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("open log of %s: %w", key, err)
}

// Close closes the log.
func (l *Log) Close() error { return l.root.Close() }

// Offset is where the next byte will be read.
func (l *Log) Offset() int64 { return l.offset }

// SeekTo goes to an offset, which may lie before the oldest byte kept or after the newest.
func (l *Log) SeekTo(offset int64) { l.offset = max(offset, 0) }

// files lists the start offsets of the files there are, in order.
func (l *Log) files() ([]int64, error) {
	entries, err := fs.ReadDir(l.root.FS(), ".")
	if errors.Is(err, fs.ErrNotExist) { // dropped while we held it
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

// Bounds are the offsets of the oldest byte kept and of the end.
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

// Tail goes to where the last n lines begin. An unfinished line counts.
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
		if l.offset != at+int64(m) { // rotated under us: what we have is gone
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

// Next reads some bytes at Offset and moves on. At the end it returns io.EOF; with follow
// it waits there for more, and returns io.EOF when the seat has ended.
func (l *Log) Next(ctx context.Context, b []byte, follow bool) (int, error) {
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	for {
		// Before the read: what was written before the end must not be missed.
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

// ended reports whether no more output can come: the supervisor is gone.
func (l *Log) ended() bool {
	f, err := l.root.Open(seat.LockFile)
	if err != nil {
		return true // forgotten
	}
	defer f.Close()
	locked, err := seat.Locked(f)
	return err != nil || !locked
}

// read reads what is there at the offset; 0 and no error if nothing is. A rotation may
// happen between any two steps, so it looks again when a file has vanished.
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
			i-- // the file that begins before the offset; there is one
		}
		n, err := l.readAt(b, starts[i])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if n > 0 || err != nil || i == len(starts)-1 {
			l.offset += int64(n)
			return n, err
		}
		// Nothing left in a file that has a successor, so it was complete when listed.
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
