package joblog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// The constant `chunk` is the maximum number of bytes of output in one part. A part with lines has at most one line beyond it.
const chunk = 32 << 10

// mergeChunk is the same for a reader of all ranks, for whom the server keeps parts of many ranks at once.
const mergeChunk = 8 << 10

// lineCost is about the memory that a line needs beside its text. It counts as text, so that a part with many empty lines is not large.
const lineCost = 100

// Query selects output.
type Query struct {
	Offset    *int64                 // continue here; nil for a new reader
	TailBytes int64                  // only the last bytes; 0 for all
	TailLines *int64                 // only the last lines; nil for all
	Since     time.Time              // only lines that were completed at this time or later; zero for all
	Match     func(line []byte) bool // only lines that match; nil for all
	Follow    bool                   // continue until the rank has ended
	Lines     bool                   // send lines instead of bytes
	Merge     bool                   // the lines are merged with those of other ranks
	// Ready reports, for Merge, whether the reader can take a part that only says how far the output is complete. Ready may be nil.
	Ready func() bool
}

// Part is a part of the output: bytes, or lines.
type Part struct {
	Data          []byte
	Lines         []Line
	Offset        *int64    // of the byte after the part; nil if it did not change
	CompleteUntil time.Time // every line that was completed before has been sent; zero if unknown
}

// Send sends the output that a query selects. The first part has no output: it says where the output begins, so that a reader whose stream
// breaks can continue there.
func (l *Log) Send(ctx context.Context, q *Query, send func(Part) error) error {
	if err := l.seek(ctx, q); err != nil {
		return err
	}
	if err := send(Part{Offset: new(l.offset)}); err != nil {
		return err
	}
	if q.Lines {
		return l.sendLines(ctx, q, send)
	}
	return l.sendBytes(ctx, q.Follow, send)
}

// The method `seek` moves to the first byte that the query selects.
func (l *Log) seek(ctx context.Context, q *Query) error {
	first, end, err := l.Bounds()
	if err != nil {
		return err
	}
	l.SeekTo(first)
	if q.Offset != nil {
		l.SeekTo(max(first, *q.Offset))
		return nil
	}
	if q.TailBytes > 0 {
		l.SeekTo(max(first, end-q.TailBytes))
	}
	if !q.Since.IsZero() {
		if err := l.Since(q.Since); err != nil {
			return err
		}
	}
	if q.TailLines == nil {
		return nil
	}
	if q.Match != nil {
		return l.TailMatching(ctx, int(*q.TailLines), q.Match)
	}
	since := l.offset
	if err := l.Tail(int(*q.TailLines)); err != nil {
		return err
	}
	l.SeekTo(max(since, l.offset))
	return nil
}

// sendBytes sends the output as it is.
func (l *Log) sendBytes(ctx context.Context, follow bool, send func(Part) error) error {
	buf := make([]byte, chunk)
	for {
		n, err := l.Next(ctx, buf, follow)
		if n > 0 {
			if err := send(Part{Data: bytes.Clone(buf[:n]), Offset: new(l.offset)}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sendLines sends the output line by line, with times.
func (l *Log) sendLines(ctx context.Context, q *Query, send func(Part) error) error {
	o := LineOptions{Follow: q.Follow, Match: q.Match}
	most := chunk
	if q.Merge {
		most = mergeChunk
		o.Idle = func(until time.Time) error {
			if q.Ready != nil && !q.Ready() {
				return nil // the reader has not processed earlier parts yet
			}
			return send(Part{CompleteUntil: until})
		}
	}
	return l.ReadLines(ctx, o, func(lines []Line) error {
		part, size := Part{}, 0
		for i, line := range lines {
			line.Data = bytes.Clone(line.Data)
			part.Lines, size = append(part.Lines, line), size+len(line.Data)+lineCost
			if size < most && i < len(lines)-1 {
				continue
			}
			part.Offset = new(line.End)
			if err := send(part); err != nil {
				return err
			}
			part, size = Part{}, 0
		}
		return nil
	})
}
