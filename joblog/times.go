package joblog

import (
	"encoding/binary"
	"errors"
	"time"
)

const (
	// maxStamps is the maximum number of records of an index that are read for one piece of output. Output beyond them gets the last time.
	maxStamps = 1024
	// maxDamaged is the number of damaged records in a row after which an index counts as missing.
	maxDamaged = 64
	// maxLineBack is how far before the first matching output Since searches for the beginning of a line.
	maxLineBack = MaxLine
)

// Stamp says when some output was written: the bytes from Offset to the next record's Offset between Time and Time plus Span.
type Stamp struct {
	Offset int64
	Time   int64 // nanoseconds since the Unix epoch
	Span   time.Duration
}

// End returns the time at which the bytes of the record were complete.
func (s Stamp) End() int64 {
	const most = 1<<63 - 1
	if s.Time > most-int64(s.Span) {
		return most
	}
	return s.Time + int64(s.Span)
}

// Times is the index of a file: records in the order of offsets. A record may be damaged, and may say anything, because the job may be able
// to write to the index.
type Times interface {
	// Len returns the number of records, including damaged ones.
	Len() int64
	// At returns a record; false if it is damaged.
	At(i int64) (Stamp, bool)
	// Each calls a function for each good record from one position to another, until the function returns false.
	Each(from, to int64, each func(Stamp) bool) error
	Close() error
}

// The method `stamps` returns the records of the index for the bytes from one offset to another in the log file that was read last. The
// first record covers the first byte, if its time is known. Offsets increase. No time is in the future, even if the index says so.
func (l *Log) stamps(from, to int64) []Stamp {
	t := l.source.Times(l.file)
	if t == nil {
		return nil
	}
	defer func() { _ = t.Close() }()
	first, count := int64(0), t.Len()
	for low, high := int64(0), count; low < high; { // the last record at or before the first byte
		middle := low + (high-low)/2
		at, s, ok := recordAt(t, middle, low)
		switch {
		case !ok:
			low = middle + 1 // all records between are damaged
		case s.Offset <= from:
			first, low = at, middle+1
		default:
			high = at
		}
	}
	var out []Stamp
	now := time.Now().UnixNano()
	_ = t.Each(first, count, func(s Stamp) bool {
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
func recordAt(t Times, at, low int64) (int64, Stamp, bool) {
	for tries := 0; at >= low && tries < maxDamaged; at, tries = at-1, tries+1 {
		if s, ok := t.At(at); ok {
			return at, s, true
		}
	}
	return 0, Stamp{}, false
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
	if times := l.source.Times(start); times != nil {
		defer func() { _ = times.Close() }()
		_ = times.Each(0, times.Len(), func(s Stamp) bool {
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
	size, changed, err := l.source.Stat(start)
	if err != nil {
		return 0, false
	}
	return start, !changed.Before(t) && size > 0
}

// Stamps are the records of an index in memory.
type Stamps []Stamp

// Len implements Times.
func (s Stamps) Len() int64 { return int64(len(s)) }

// At implements Times.
func (s Stamps) At(i int64) (Stamp, bool) { return s[i], true }

// Each implements Times.
func (s Stamps) Each(from, to int64, each func(Stamp) bool) error {
	for _, stamp := range s[from:to] {
		if !each(stamp) {
			break
		}
	}
	return nil
}

// Close implements Times.
func (s Stamps) Close() error { return nil }

// Encode returns the records in a short form: for each number, its difference to that of the record before.
func (s Stamps) Encode() []byte {
	var out []byte
	var last Stamp
	for _, stamp := range s {
		out = binary.AppendVarint(out, stamp.Offset-last.Offset)
		out = binary.AppendVarint(out, stamp.Time-last.Time)
		out = binary.AppendVarint(out, stamp.Span.Milliseconds())
		last = stamp
	}
	return out
}

var errStamps = errors.New("the times of the output are damaged")

// DecodeStamps reverses Encode. With an error, it returns the records that precede it.
func DecodeStamps(b []byte) (Stamps, error) {
	var out Stamps
	var last Stamp
	for len(b) > 0 {
		var n [3]int64
		for i := range n {
			v, size := binary.Varint(b)
			if size <= 0 {
				return out, errStamps
			}
			n[i], b = v, b[size:]
		}
		last = Stamp{last.Offset + n[0], last.Time + n[1], time.Duration(n[2]) * time.Millisecond}
		out = append(out, last)
	}
	return out, nil
}
