//go:build linux

package run

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const (
	// maxStamps is the maximum number of records of an index that are read for one piece of output. Output beyond them gets the last time.
	maxStamps = 1024
	// maxDamaged is the number of damaged records in a row after which an index counts as missing.
	maxDamaged = 64
	// maxLineBack is how far before the first matching output Since searches for the beginning of a line.
	maxLineBack = MaxLine
)

// openIndex opens the index of the log file that begins at an offset. The index may be anything: the job may be able to write to the
// seat's directory. The result is nil if there is no usable index.
func (l *Log) openIndex(start int64) (*os.File, int64) {
	f, err := l.root.OpenFile(seat.IndexName(start), os.O_RDONLY|openSafe, 0)
	if err != nil {
		return nil, 0
	}
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
		return f, min(st.Size(), seat.MaxIndex) / seat.StampSize
	}
	_ = f.Close()
	return nil, 0
}

// The method `stamps` returns the records of the index for the bytes from one offset to another in the log file that was read last. The
// first record covers the first byte, if its time is known. Offsets increase. No time is in the future, even if the index says so.
func (l *Log) stamps(from, to int64) []seat.Stamp {
	f, count := l.openIndex(l.file)
	if f == nil {
		return nil
	}
	defer f.Close()
	first := int64(0)
	for low, high := int64(0), count; low < high; { // the last record at or before the first byte
		middle := low + (high-low)/2
		at, s, ok := recordAt(f, middle, low)
		switch {
		case !ok:
			low = middle + 1 // all records between are damaged
		case s.Offset <= from:
			first, low = at, middle+1
		default:
			high = at
		}
	}
	var out []seat.Stamp
	now := time.Now().UnixNano()
	_ = eachStamp(f, first, count, func(s seat.Stamp) bool {
		if s.Offset >= to || len(out) >= maxStamps {
			return false
		}
		s.Time = min(s.Time, now)
		switch n := len(out); {
		case n > 0 && s.Offset <= out[n-1].Offset: // a lie
		case s.Offset <= from:
			out = append(out[:0], s)
		default:
			out = append(out, s)
		}
		return true
	})
	return out
}

// recordAt returns the record at a position, or the last good one before it, down to a lower bound.
func recordAt(f *os.File, at, low int64) (int64, seat.Stamp, bool) {
	var b [seat.StampSize]byte
	for tries := 0; at >= low && tries < maxDamaged; at, tries = at-1, tries+1 {
		if n, _ := f.ReadAt(b[:], at*seat.StampSize); n == len(b) {
			if s, ok := seat.ParseStamp(b[:]); ok {
				return at, s, true
			}
		}
	}
	return 0, seat.Stamp{}, false
}

// eachStamp calls a function for each good record of an index, until the function returns false.
func eachStamp(f *os.File, from, to int64, each func(seat.Stamp) bool) error {
	var b [170 * seat.StampSize]byte
	for at := from; at < to; {
		n, err := f.ReadAt(b[:min(int64(len(b)), (to-at)*seat.StampSize)], at*seat.StampSize)
		n -= n % seat.StampSize
		for i := 0; i < n; i += seat.StampSize {
			if s, ok := seat.ParseStamp(b[i:n]); ok && !each(s) {
				return nil
			}
		}
		if n == 0 || err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at += int64(n / seat.StampSize)
	}
	return nil
}

// Since moves to the beginning of the first line that was completed at a time or later. If there is none, Since moves to the end. A log
// file without an index counts as written when it was last changed, so that no line is missed.
func (l *Log) Since(t time.Time) error {
	starts, err := l.files()
	if err != nil {
		return err
	}
	for i, start := range starts {
		at, ok := l.sinceIn(start, t)
		if !ok {
			continue
		}
		if i+1 < len(starts) && at >= starts[i+1] {
			continue // a lie: the file has no such offset
		}
		l.offset, err = l.back(at, max(starts[0], at-maxLineBack), 1) // the line that was completed there may have begun earlier
		return err
	}
	return l.Tail(0)
}

// sinceIn returns the offset of the first output of a log file that was written at a time or later.
func (l *Log) sinceIn(start int64, t time.Time) (at int64, found bool) {
	since, latest, any := t.UnixNano(), int64(0), false
	if f, count := l.openIndex(start); f != nil {
		defer f.Close()
		_ = eachStamp(f, 0, count, func(s seat.Stamp) bool {
			any = true
			latest = max(latest, s.End()) // the clock may have been set back
			if latest > since && s.Offset >= start {
				at, found = s.Offset, true
			}
			return !found
		})
	}
	if any {
		return at, found
	}
	st, err := l.root.Lstat(seat.LogName(start))
	if err != nil {
		return 0, false
	}
	return start, !st.ModTime().Before(t) && st.Size() > 0
}
