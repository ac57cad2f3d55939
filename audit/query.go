package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query says which entries are asked for. What is empty asks for all.
type Query struct {
	User, Action, Object string
	// Tenants are those whose entries may be seen; nil for all.
	Tenants []string
	// Unnamed is for who may not know outsiders by name: they are not found by it.
	Unnamed      bool
	Status       Status
	Code         string
	Since, Until time.Time // Since is included
	// OldestFirst turns the order.
	OldestFirst bool
	// From is an entry: only it and those behind it, in that order. 0 for the first.
	From uint64
	// Limit of the entries. Default 100.
	Limit int
}

// Matches says whether an entry is asked for. An object is found by its whole
// name, or by its kind (queue/).
func (q *Query) Matches(e *Entry) bool {
	return (q.User == "" || q.User == e.User && !(q.Unnamed && e.Outside)) && (q.Action == "" || strings.EqualFold(q.Action, e.Action)) &&
		(q.Object == "" || q.Object == e.Object || strings.HasSuffix(q.Object, "/") && strings.HasPrefix(e.Object, q.Object)) &&
		(q.Tenants == nil || slices.Contains(q.Tenants, e.Tenant)) &&
		(q.Status == "" || q.Status == e.Status) && (q.Code == "" || q.Code == e.Code) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until))
}

// maxScan is how much of the log one query reads; the next page goes on there.
const maxScan = 64 << 20

// Page is part of an answer. Next is where the one after it begins, 0 when there
// is none.
type Page struct {
	Entries []Entry
	Next    uint64
}

// List finds entries, the latest first unless asked otherwise. It reads the
// files, so what somebody changed in them is shown as it is; Verify tells.
func (l *Log) List(ctx context.Context, q Query) (Page, error) {
	l.mu.Lock()
	end, path := l.size, l.path
	l.mu.Unlock()
	all, err := segments(l.cfg.Dir)
	if err != nil {
		return Page{}, err
	}
	f := finding{Query: q, left: maxScan}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	read := f.backward
	if q.OldestFirst {
		read = f.forward
	} else {
		slices.Reverse(all)
	}
	for i, s := range all {
		if ctx.Err() != nil {
			return Page{}, ctx.Err()
		}
		if !q.OldestFirst && q.From > 0 && s.first > q.From || q.OldestFirst && i+1 < len(all) && all[i+1].first <= q.From {
			continue
		}
		limit := int64(-1)
		if s.path == path {
			limit = end
		}
		if more, err := f.segment(s, limit, read); err != nil || !more {
			return f.page, err
		}
	}
	return f.page, nil
}

// finding is a query under way.
type finding struct {
	Query

	page Page
	left int64
}

// segment looks through one file up to end, and says whether to go on.
func (f *finding) segment(s segment, end int64, read func(segment, io.ReaderAt, int64) (bool, error)) (more bool, err error) {
	file, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // it has just expired
	}
	if err != nil {
		return false, fmt.Errorf("read the audit log: %w", err)
	}
	defer file.Close()
	if end < 0 {
		info, statErr := file.Stat()
		if statErr != nil {
			return false, fmt.Errorf("read the audit log: %w", statErr)
		}
		end = info.Size()
	}
	return read(s, file, end)
}

// backward reads lines from the end, in chunks.
func (f *finding) backward(s segment, r io.ReaderAt, end int64) (more bool, err error) {
	var part []byte // of a line whose beginning is not read yet
	chunk := make([]byte, 256<<10)
	for end > 0 {
		begin := max(end-int64(len(chunk)), 0)
		data := chunk[:end-begin]
		if _, err = r.ReadAt(data, begin); err != nil {
			return false, fmt.Errorf("read %s: %w", filepath.Base(s.path), err)
		}
		end = begin
		f.left -= int64(len(data))
		data = append(bytes.Clone(data), part...)
		for {
			i := bytes.LastIndexByte(bytes.TrimSuffix(data, []byte{'\n'}), '\n')
			if i < 0 && begin > 0 {
				part = data
				break
			}
			if more = f.line(bytes.TrimSuffix(data[i+1:], []byte{'\n'})); !more {
				return false, nil
			}
			if data = data[:i+1]; i < 0 {
				return true, nil
			}
		}
	}
	return true, nil
}

// forward reads lines from the beginning.
func (f *finding) forward(s segment, r io.ReaderAt, end int64) (more bool, err error) {
	lines := bufio.NewScanner(io.NewSectionReader(r, 0, end))
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	for lines.Scan() {
		f.left -= int64(len(lines.Bytes()) + 1)
		if !f.line(lines.Bytes()) {
			return false, nil
		}
	}
	if err = lines.Err(); err != nil {
		return false, fmt.Errorf("read %s: %w", filepath.Base(s.path), err)
	}
	return true, nil
}

// line takes a line that is asked for, and says whether to go on.
func (f *finding) line(line []byte) (more bool) {
	seq, known := sequenceOf(line)
	if known && f.From > 0 && (!f.OldestFirst && seq > f.From || f.OldestFirst && seq < f.From) {
		return true // it need not be read whole
	}
	e, err := ReadLine(line)
	if err != nil {
		return true // what is damaged is Verify's to tell
	}
	if len(f.page.Entries) >= f.Limit || f.left <= 0 {
		f.page.Next = e.Sequence
		return false
	}
	if f.Matches(&e) {
		f.page.Entries = append(f.page.Entries, e)
	}
	switch {
	case !f.OldestFirst && !f.Since.IsZero() && e.Time.Before(f.Since.Add(-maxStep)):
		return false // everything before is older still
	case f.OldestFirst && !f.Until.IsZero() && e.Time.After(f.Until.Add(maxStep)):
		return false
	}
	return true
}

// sequenceOf reads the sequence that a line begins with, without the rest.
func sequenceOf(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return 0, false
	}
	number, _, _ := bytes.Cut(rest[:min(len(rest), 24)], []byte{','})
	seq, err := strconv.ParseUint(string(number), 10, 64)
	return seq, err == nil
}

// maxStep is how far a clock that was set may have made entries look out of order.
const maxStep = time.Hour
