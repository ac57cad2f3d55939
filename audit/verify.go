package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Check says what Verify holds the log against, beside itself.
type Check struct {
	// Heads that were exported before: the log must hold each of them.
	Heads []Head
	// Key that signs, base64, when it is known from elsewhere. Default that of
	// Heads, else that of the heads beside the log.
	Key string
	// End is how far the log is read, when it is being written: the last entry and
	// the size of the last file. Default all of it.
	End Position
}

// Position is a place in the log: an entry, and the end of its line.
type Position struct {
	Sequence uint64
	Hash     string
	Offset   int64
}

// Fault is something that is not as it was written.
type Fault struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

func (f Fault) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s, line %d: %s", f.File, f.Line, f.Text)
}

// Report is what Verify found.
type Report struct {
	Segments int    `json:"segments"`
	Entries  uint64 `json:"entries"`
	// First and Last are sequences, Hash is that of the last entry.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Hash  string `json:"hash"`
	// Heads is how many signed heads the log was held against, Signed up to which
	// entry they reach. What follows is chained, but its absence would not show.
	Heads  int    `json:"heads"`
	Signed uint64 `json:"signed"`
	// Key that signed.
	Key    string  `json:"key"`
	Faults []Fault `json:"faults"`
	// More faults than are listed.
	More int `json:"more,omitempty"`
}

// OK says whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// maxFaults is how many faults are listed.
const maxFaults = 100

func (r *Report) fault(file string, line int, format string, args ...any) {
	if len(r.Faults) >= maxFaults {
		r.More++
		return
	}
	r.Faults = append(r.Faults, Fault{File: filepath.Base(file), Line: line, Text: fmt.Sprintf(format, args...)})
}

// Verify reads a whole log and reports everything that is not as it was written.
// It fails only when it cannot read.
func Verify(dir string, check Check) (*Report, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	r := &Report{}
	heads := r.heads(filepath.Join(dir, headsFile), &check)
	for i := range check.Heads {
		h := check.Heads[i]
		if err := h.Check(); err != nil {
			r.fault("the given head", 0, "%s", err)
			continue
		}
		heads[h.Sequence] = append(heads[h.Sequence], claim{h, "a head that was kept elsewhere"})
	}
	all, err := segments(dir)
	if err != nil {
		r.fault(dir, 0, "%s", err)
		return r, nil
	}
	v := &verifying{Report: r, heads: heads, check: &check}
	for i, s := range all {
		if err = v.segment(s, i+1 == len(all)); err != nil {
			return nil, err
		}
	}
	v.ends(dir)
	return r, nil
}

// claim is a head and where it comes from.
type claim struct {
	Head

	from string
}

// heads reads the signed heads by the entry they are of, and finds the key.
func (r *Report) heads(path string, check *Check) map[uint64][]claim {
	out := map[uint64][]claim{}
	r.Key = check.Key
	if r.Key == "" && len(check.Heads) > 0 {
		r.Key = check.Heads[0].Key
	}
	data, err := os.ReadFile(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.fault(path, 0, "%s", err)
		}
		return out
	}
	number := uint64(0)
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		if !whole {
			r.fault(path, n, "the last line is not whole")
			break
		}
		h, err := readHead(line)
		if err != nil {
			r.fault(path, n, "%s", err)
			number++
			continue
		}
		if r.Key == "" {
			r.Key = h.Key
		}
		if number++; n == 1 {
			number = h.Number // those before went with the entries they were of
		} else if h.Number != number {
			r.fault(path, n, "head %d follows head %d", h.Number, number-1)
			number = h.Number
		}
		out[h.Sequence] = append(out[h.Sequence], claim{h, "the head in line " + fmt.Sprint(n) + " of " + headsFile})
	}
	return out
}

// verifying follows the chain.
type verifying struct {
	*Report

	heads map[uint64][]claim
	check *Check
	begun bool
}

func (v *verifying) segment(s segment, last bool) error {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	if last && v.check.End.Sequence > 0 && int64(len(data)) > v.check.End.Offset {
		data = data[:v.check.End.Offset]
	}
	v.Segments++
	if len(data) == 0 && !last {
		v.fault(s.path, 0, "it is empty")
	}
	if v.begun && s.first != v.Last+1 {
		v.fault(s.path, 0, "it is named for entry %d, but entry %d comes next", s.first, v.Last+1)
	}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		if !whole {
			v.fault(s.path, n, "the last line is not whole")
			break
		}
		v.line(s, n, line)
	}
	return nil
}

// line holds one line against the one before it.
func (v *verifying) line(s segment, n int, line []byte) {
	e, err := ReadLine(line)
	if err != nil {
		v.fault(s.path, n, "%s", err)
		v.Entries++
		v.Last++
		v.Hash = ""
		return
	}
	switch {
	case !v.begun:
		v.begin(s, n, &e)
	case e.Sequence != v.Last+1:
		v.fault(s.path, n, "entry %d follows entry %d: entries are missing or were moved", e.Sequence, v.Last)
	case e.Previous != v.Hash && v.Hash != "":
		v.fault(s.path, n, "entry %d does not carry the hash of the entry before it: one of them was changed", e.Sequence)
	}
	v.Entries++
	v.begun, v.Last, v.Hash = true, e.Sequence, e.Hash
	for _, h := range v.heads[e.Sequence] {
		if h.Hash != e.Hash {
			v.fault(s.path, n, "entry %d is not the one that was signed: %s says so", e.Sequence, h.from)
		}
	}
}

// begin holds the first entry against the log's beginning: the very first one,
// or what was signed when those before were removed by age.
func (v *verifying) begin(s segment, n int, e *Entry) {
	v.First = e.Sequence
	if s.first != e.Sequence {
		v.fault(s.path, n, "the segment is named for entry %d, but begins with %d", s.first, e.Sequence)
	}
	if e.Sequence == 1 {
		if e.Previous != genesis {
			v.fault(s.path, n, "the first entry says that there was one before it")
		}
		return
	}
	for _, h := range v.heads[e.Sequence-1] {
		if h.Kind == Floor && h.Hash == e.Previous {
			return
		}
	}
	v.fault(s.path, n, "the log begins with entry %d, and no signed head says that those before were removed by age", e.Sequence)
}

// ends holds the log's end against what was signed.
func (v *verifying) ends(dir string) {
	v.Heads = 0
	for _, seq := range slices.Sorted(maps.Keys(v.heads)) {
		list := v.heads[seq]
		v.Heads += len(list)
		v.Signed = max(v.Signed, seq)
		for _, h := range list {
			if h.Key != v.Key {
				v.fault(dir, 0, "%s is signed with the key %s, not with %s", h.from, h.Key, v.Key)
			}
			if h.Kind == Top && seq > v.Last && (v.check.End.Sequence == 0 || seq <= v.check.End.Sequence) {
				v.fault(dir, 0, "the log ends with entry %d, but %s signed on %s says that it reached entry %d: its end was cut off",
					v.Last, h.from, h.Time.Format(time.RFC3339), seq)
			}
		}
	}
	if end := v.check.End; end.Sequence > 0 && (v.Last != end.Sequence || v.Hash != end.Hash) {
		v.fault(dir, 0, "the files end with entry %d, but the server wrote entry %d last: they were changed under it", v.Last, end.Sequence)
	}
	if key, err := base64.StdEncoding.DecodeString(v.Key); v.check.Key != "" && (err != nil || len(key) != 32) {
		v.fault(dir, 0, "the given key is not one")
	}
}

// Verify reads the log of a running server, up to what is safe now.
func (l *Log) Verify(check Check) (*Report, error) {
	l.mu.Lock()
	check.End = Position{Sequence: l.seq, Hash: l.hash, Offset: l.size}
	l.mu.Unlock()
	return Verify(l.cfg.Dir, check)
}
