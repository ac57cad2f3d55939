package joblog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// MaxLine is the maximum length of a Line. A longer line is read in several parts.
const MaxLine = 64 << 10

// Line is one line of output.
type Line struct {
	Data []byte // without the newline; valid until the next call
	// Time is when the line was completed; zero if unknown. Within one Log, times do not decrease.
	Time      time.Time
	End       int64 // offset of the byte after the line
	Continued bool  // the next line is the rest of this one
}

// LineOptions select lines of a log.
type LineOptions struct {
	Follow bool
	Match  func(line []byte) bool // nil for all lines
	// Idle is called while there is no output, at most once in 100 ms. Every line that was completed before the given time has been
	// passed on. Idle may be nil.
	Idle func(completeUntil time.Time) error
}

// ReadLines reads lines from Offset to the end, and passes on those that match. An unfinished line is passed on at the end of the output,
// or when it has the length MaxLine. ReadLines ends at the first error of the function `emit`.
func (l *Log) ReadLines(ctx context.Context, o LineOptions, emit func([]Line) error) error {
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	s := splitter{match: o.Match, end: l.offset}
	buf := make([]byte, 32<<10)
	for {
		polled := time.Now()
		n, err := l.poll(buf, o.Follow)
		if n > 0 {
			at := l.offset - int64(n)
			s.add(buf[:n], at, l.stamps(at, l.offset))
		}
		if errors.Is(err, io.EOF) {
			s.flush()
		}
		if len(s.lines) > 0 {
			if err := emit(s.lines); err != nil {
				return err
			}
		}
		s.reset()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case n > 0:
			continue
		}
		if o.Idle != nil {
			if err := o.Idle(polled); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// The type `splitter` cuts output into lines.
type splitter struct {
	match   func([]byte) bool
	pending []byte // the unfinished line
	end     int64  // offset of the byte after it
	stamp   int64  // the latest time so far
	lines   []Line
	used    int // bytes of pending that belong to lines
}

// The method `add` adds output at an offset with the records of its times.
func (s *splitter) add(b []byte, at int64, stamps []Stamp) {
	if at != s.end && len(s.pending) > s.used { // a rotation has deleted the rest of the line
		s.cut(len(s.pending), false)
	}
	s.end = at
	if s.used == 0 && len(s.pending) == 0 {
		s.pending = s.pending[:0]
	}
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		room := MaxLine - (len(s.pending) - s.used)
		n := min(len(b), room)
		if i >= 0 && i < n {
			n = i + 1
		}
		s.pending = append(s.pending, b[:n]...)
		b, s.end = b[n:], s.end+int64(n)
		for len(stamps) > 0 && stamps[0].Offset < s.end { // the record of the line's last byte
			s.stamp, stamps = max(s.stamp, stamps[0].Time), stamps[1:]
		}
		switch {
		case s.pending[len(s.pending)-1] == '\n':
			s.cut(len(s.pending), false)
		case len(s.pending)-s.used >= MaxLine:
			s.cut(len(s.pending), true)
		}
	}
}

// The method `cut` ends a line.
func (s *splitter) cut(end int, continued bool) {
	line := Line{Data: bytes.TrimSuffix(s.pending[s.used:end:end], []byte("\n")), End: s.end, Continued: continued}
	s.used = end
	if s.stamp > 0 {
		line.Time = time.Unix(0, s.stamp)
	}
	if s.match == nil || s.match(line.Data) {
		s.lines = append(s.lines, line)
	}
}

// The method `flush` ends an unfinished line at the end of the output.
func (s *splitter) flush() {
	if len(s.pending) > s.used {
		s.cut(len(s.pending), false)
	}
}

// The method `reset` forgets the lines that were passed on.
func (s *splitter) reset() {
	s.pending = append(s.pending[:0], s.pending[s.used:]...)
	s.used, s.lines = 0, s.lines[:0]
}

// TailMatching moves to the n-th last line that matches, between Offset and the current end of the output. It needs memory for n
// offsets.
func (l *Log) TailMatching(ctx context.Context, n int, match func([]byte) bool) error {
	start := l.offset
	_, end, err := l.Bounds()
	if err != nil {
		return err
	}
	var ends []int64 // of the last n matching lines, as a ring
	next := 0
	s := splitter{end: start}
	previous := start
	s.match = func(line []byte) bool {
		if match(line) {
			if len(ends) < n {
				ends = append(ends, previous)
			} else if n > 0 {
				ends[next] = previous
				next = (next + 1) % n
			}
		}
		previous = s.end
		return false
	}
	buf := make([]byte, 32<<10)
	for l.offset < end && ctx.Err() == nil {
		m, err := l.poll(buf[:min(int64(len(buf)), end-l.offset)], false)
		if m > 0 {
			s.add(buf[:m], l.offset-int64(m), nil)
			s.reset()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	unfinished := s.end - int64(len(s.pending))
	s.flush()
	switch {
	case len(ends) == 0:
		l.offset = unfinished // a line that is finished later may match
	default:
		l.offset = ends[next%len(ends)]
	}
	return ctx.Err()
}
