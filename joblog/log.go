// Package joblog reads the output of jobs, and selects parts of it: the last lines, the lines since a time, the lines that match. A node
// reads the files of its seats, and a server reads what the nodes have stored. Both use this package, so that a user gets the same output
// from either of them.
package joblog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"
)

const (
	// followPause is the interval at which a follower checks for more output.
	followPause = 100 * time.Millisecond
	// backStep is the number of bytes that Tail reads at once, from the end backwards.
	backStep = 64 << 10
)

// Source is where the output of one rank is. The output is one stream of bytes, in one or more files. A file is named by the offset of its
// first byte in the stream.
type Source interface {
	// Files returns the start offsets of the existing files, in order.
	Files() ([]int64, error)
	// Stat returns the size of a file, and when it was last changed.
	Stat(start int64) (size int64, changed time.Time, err error)
	// ReadAt reads from a file, at an offset of the stream. At the end of the file it returns fewer bytes and no error. The error is
	// fs.ErrNotExist if a rotation has deleted the file.
	ReadAt(start int64, b []byte, offset int64) (int, error)
	// Times returns the times of a file, or nil if they are unknown. The caller closes them.
	Times(start int64) Times
	// Ended reports whether no more output can follow.
	Ended() bool
	Close() error
}

// A Waiter is a Source that knows when there may be more output.
type Waiter interface {
	// Watch lets Wait notice everything that is written from now on. It may be called again.
	Watch()
	// Wait waits until there may be more output, or for a short time. It returns the error of the context.
	Wait(ctx context.Context) error
}

// Log reads the output of one rank. An offset counts from the job's first byte, so it stays valid after a rotation. Log skips output that a
// rotation has deleted, so Offset can jump. A Log is not safe for concurrent use.
type Log struct {
	source Source
	offset int64
	file   int64 // start offset of the file from which the last bytes were read
	seen   bool  // files were there
}

// errDeleted means that all files were deleted after the log was opened. The reader must not take this for the end of the output.
var errDeleted = errors.New("the output was deleted while it was read")

// The method `files` returns the start offsets of the existing files, in order.
func (l *Log) files() ([]int64, error) {
	starts, err := l.source.Files()
	if err == nil && len(starts) == 0 && l.seen {
		return nil, errDeleted
	}
	l.seen = l.seen || len(starts) > 0
	return starts, err
}

// New returns a Log at offset 0. Closing it closes the source.
func New(source Source) *Log { return &Log{source: source} }

// Source returns where the output is.
func (l *Log) Source() Source { return l.source }

// Close closes the log.
func (l *Log) Close() error { return l.source.Close() }

// Offset is the position of the next byte to read.
func (l *Log) Offset() int64 { return l.offset }

// SeekTo moves to an offset, which may be before the oldest existing byte or after the newest one.
func (l *Log) SeekTo(offset int64) { l.offset = max(offset, 0) }

// Bounds returns the offsets of the oldest existing byte and of the end.
func (l *Log) Bounds() (first, end int64, err error) {
	starts, err := l.files()
	if err != nil || len(starts) == 0 {
		return 0, 0, err
	}
	last := starts[len(starts)-1]
	size, _, err := l.source.Stat(last)
	if err != nil {
		return 0, 0, err
	}
	return starts[0], last + size, nil
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
	wait := waitShortly
	if w, ok := l.source.(Waiter); ok && follow {
		w.Watch() // before the output is read, so that nothing which is written later is missed
		wait = w.Wait
	}
	for {
		n, err := l.poll(b, follow)
		if n > 0 || err != nil {
			return n, err
		}
		if err = wait(ctx); err != nil {
			return 0, err
		}
	}
}

func waitShortly(ctx context.Context) error {
	timer := time.NewTimer(followPause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// The method `poll` is Next without the wait: it returns 0 bytes and no error if more output may follow.
func (l *Log) poll(b []byte, follow bool) (int, error) {
	// Before the read, check whether the seat has ended, so that output written just before the end is not missed.
	ended := !follow || l.source.Ended()
	n, err := l.read(b)
	if n == 0 && err == nil && ended {
		err = io.EOF
	}
	return n, err
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
		n, err := l.source.ReadAt(starts[i], b, l.offset)
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
