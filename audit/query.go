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

// Query selects entries. An empty field of a Query selects all entries.
type Query struct {
	User, Action, Object string
	// Tenants are the tenants whose entries may be seen. If Tenants is nil, the entries of all tenants may be seen.
	Tenants []string
	// The field Unnamed is set for a reader who may not see the names of outsiders. If Unnamed is set, a search by user does not find
	// outsiders.
	Unnamed      bool
	Status       Status
	Code         string
	Since, Until time.Time // Since is inclusive
	// If OldestFirst is set, the oldest entries come first.
	OldestFirst bool
	// The field From is the sequence number of the first entry in the answer. If From is 0, the answer starts with the first entry in
	// the chosen order.
	From uint64
	// Limit is the maximum number of entries in the answer. The default is 100.
	Limit int
}

// Matches reports whether the query selects an entry. An object is selected by its whole name, or by its kind, such as "queue/".
func (q *Query) Matches(e *Entry) bool {
	return (q.User == "" || q.User == e.User && !(q.Unnamed && e.Outside)) && (q.Action == "" || strings.EqualFold(q.Action, e.Action)) &&
		(q.Object == "" || q.Object == e.Object || strings.HasSuffix(q.Object, "/") && strings.HasPrefix(e.Object, q.Object)) &&
		(q.Tenants == nil || slices.Contains(q.Tenants, e.Tenant)) &&
		(q.Status == "" || q.Status == e.Status) && (q.Code == "" || q.Code == e.Code) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until))
}

// maxScan is the maximum number of bytes of the log that one query reads. When a query reaches this limit, its page
// ends, and the next page continues at that point.
const maxScan = 64 << 20

// Page is one part of the answer to a query. Next is the sequence number of the entry at which the next page begins, or
// 0 if this is the last page.
type Page struct {
	Entries []Entry
	Next    uint64
}

// List returns the entries that a query selects. The latest entry comes first unless OldestFirst is set. List does not check hashes, so
// it shows the entries as they are in the files. Use Verify to find out whether entries were changed.
func (l *Log) List(ctx context.Context, q Query) (Page, error) {
	l.mu.Lock()
	end, path, stepped := l.size, l.path, l.stepped
	l.mu.Unlock()
	all, err := segments(l.cfg.Dir)
	if err != nil {
		return Page{}, err
	}
	if !q.Since.IsZero() || !q.Until.IsZero() {
		earlier, err := l.earlierSteps(all)
		if err != nil {
			return Page{}, err
		}
		stepped = later(stepped, earlier)
	}
	f := queryScan{Query: q, left: maxScan, stepped: stepped}
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

// queryScan is the state of a running query.
type queryScan struct {
	Query

	page Page
	left int64
	// The clock was last set back from this time. Entries up to it need not be in the order of their times.
	stepped time.Time
}

// isOrdered reports whether the entries around a time are in the order of their times. Otherwise somebody who sets the clock back could hide the
// entries before that from a query with a time.
func (f *queryScan) isOrdered(at time.Time) bool {
	return f.stepped.IsZero() || at.After(f.stepped.Add(maxStep))
}

// The method `segment` scans one file up to the offset `end`. It reports whether to continue with the next file.
func (f *queryScan) segment(s segment, end int64, read func(segment, io.ReaderAt, int64) (bool, error)) (more bool, err error) {
	file, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // it has just been removed
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

// The method `backward` reads the lines of a segment from the end to the beginning, in chunks.
func (f *queryScan) backward(s segment, r io.ReaderAt, end int64) (more bool, err error) {
	var part []byte // the end of a line whose beginning is not read yet
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

// The method `forward` reads the lines of a segment from the first one that the query can select to the end.
func (f *queryScan) forward(s segment, r io.ReaderAt, end int64) (more bool, err error) {
	begin := int64(0)
	if f.From > s.first {
		begin = seek(r, end, f.From)
	}
	lines := bufio.NewScanner(io.NewSectionReader(r, begin, end-begin))
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

// The method `line` adds a line to the page if the query selects it, and reports whether to continue.
func (f *queryScan) line(line []byte) (more bool) {
	seq, known := sequenceOf(line)
	if known && f.From > 0 && (!f.OldestFirst && seq > f.From || f.OldestFirst && seq < f.From) {
		return true // no need to parse it
	}
	e, err := ReadLine(line)
	if err != nil {
		return true // Verify reports damaged lines
	}
	if len(f.page.Entries) >= f.Limit || f.left <= 0 {
		f.page.Next = e.Sequence
		return false
	}
	if f.Matches(&e) {
		f.page.Entries = append(f.page.Entries, e)
	}
	switch {
	case !f.OldestFirst && !f.Since.IsZero() && f.isOrdered(f.Since) && e.Time.Before(f.Since.Add(-maxStep)):
		return false // all earlier entries are even older
	case f.OldestFirst && !f.Until.IsZero() && f.isOrdered(f.Until) && e.Time.After(f.Until.Add(maxStep)):
		return false
	}
	return true
}

// sequenceOf parses only the sequence number at the beginning of a line.
func sequenceOf(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return 0, false
	}
	number, _, whole := bytes.Cut(rest[:min(len(rest), 24)], []byte{','})
	seq, err := strconv.ParseUint(string(number), 10, 64)
	return seq, whole && err == nil
}

// An adjusted clock can put the times of entries out of order. maxStep is the largest difference that a query
// tolerates.
const maxStep = time.Hour
