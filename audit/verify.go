package audit

import (
	"bytes"
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
	v := &verifying{Report: &Report{Key: check.Key, Faults: []Fault{}}, dir: dir, check: &check, heads: map[uint64][]claim{}}
	if v.Key == "" && len(check.Heads) > 0 {
		v.Key = check.Heads[0].Key
	}
	for i := range check.Heads {
		v.claim("the given head", i+1, &check.Heads[i], check.Heads[i].Check())
	}
	all, err := segments(dir)
	if err != nil {
		v.fault(dir, 0, "%s", err)
		return v.Report, nil
	}
	v.floor()
	present := v.present(all)
	for i, s := range present {
		if err = v.segment(s, i+1 == len(present)); err != nil {
			return nil, err
		}
	}
	v.ends(all)
	return v.Report, nil
}

// claim is a head and where it comes from.
type claim struct {
	Head

	from string
}

// verifying follows the chain.
type verifying struct {
	*Report

	dir   string
	heads map[uint64][]claim // by the entry they are of
	low   Head               // up to where the log was removed by age
	check *Check
	begun bool
}

// claim takes a head that a file holds.
func (v *verifying) claim(path string, n int, h *Head, bad error) {
	if v.Key == "" && bad == nil {
		v.Key = h.Key
	}
	switch {
	case bad != nil:
		v.fault(path, n, "%s", bad)
		return
	case h.Key != v.Key:
		v.fault(path, n, "it is signed with the key %s, not with %s", h.Key, v.Key)
		return
	}
	v.Heads++
	v.Signed = max(v.Signed, h.Sequence)
	v.heads[h.Sequence] = append(v.heads[h.Sequence], claim{*h, fmt.Sprintf("%s, line %d", filepath.Base(path), n)})
}

// floor reads up to where the log was removed by age.
func (v *verifying) floor() {
	h, err := readFloor(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if v.claim(filepath.Join(v.dir, floorFile), 1, &h, err); err == nil && h.Key == v.Key {
		v.low = h
	}
}

// present leaves out the segments that the server begins after it was asked, and
// those that it was about to remove by age.
func (v *verifying) present(all []segment) []segment {
	for n := len(all); n > 1 && v.check.End.Sequence > 0 && all[n-1].first > v.check.End.Sequence; n-- {
		all = all[:n-1]
	}
	for len(all) > 1 && all[1].first-1 <= v.low.Sequence {
		all = all[1:]
	}
	return all
}

// signed reads the heads of a segment: they are numbered without a gap.
func (v *verifying) signed(s segment) (last uint64, err error) {
	path := filepath.Join(v.dir, headsName(s.first))
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the heads of the audit log: %w", err)
	}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		if !whole {
			v.fault(path, n, "the last line is not whole")
			break
		}
		h, bad := readHead(line)
		if bad == nil && (h.Number != uint64(n) || h.Kind != Top || h.Sequence < s.first || h.Sequence <= last) {
			bad = fmt.Errorf("head %d of entry %d does not belong here: heads are missing or were moved", h.Number, h.Sequence)
		}
		if v.claim(path, n, &h, bad); bad == nil {
			last = h.Sequence
		}
	}
	return last, nil
}

func (v *verifying) segment(s segment, last bool) error {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	signed, err := v.signed(s)
	if err != nil {
		return err
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
	if !last && signed != v.Last {
		v.fault(s.path, 0, "it ends with entry %d, which should be signed: %s reaches entry %d", v.Last, headsName(s.first), signed)
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
	if v.low.Sequence == e.Sequence-1 && v.low.Hash == e.Previous {
		return
	}
	v.fault(s.path, n, "the log begins with entry %d, and no signed head says that those before were removed by age", e.Sequence)
}

// ends holds the log's end against what was signed.
func (v *verifying) ends(all []segment) {
	for _, seq := range slices.Sorted(maps.Keys(v.heads)) {
		for _, h := range v.heads[seq] {
			if seq > v.Last && (v.check.End.Sequence == 0 || seq <= v.check.End.Sequence) {
				v.fault(v.dir, 0, "the log ends with entry %d, but %s, signed on %s, says that it reached entry %d: its end was cut off",
					v.Last, h.from, h.Time.Format(time.RFC3339), seq)
			}
		}
	}
	if end := v.check.End; end.Sequence > 0 && (v.Last != end.Sequence || v.Hash != end.Hash) {
		v.fault(v.dir, 0, "the files end with entry %d, but the server wrote entry %d last: they were changed under it", v.Last, end.Sequence)
	}
	v.orphans(all)
}

// orphans finds heads of segments that are not there.
func (v *verifying) orphans(all []segment) {
	files, err := filepath.Glob(filepath.Join(v.dir, headsPrefix+"*"))
	if err != nil {
		panic("audit: the pattern is good: " + err.Error())
	}
	for _, f := range files {
		known := slices.ContainsFunc(all, func(s segment) bool { return headsName(s.first) == filepath.Base(f) })
		if first, named := headsFirst(f); !known && (!named || first > v.low.Sequence) {
			v.fault(f, 0, "the segment that it signs is missing")
		}
	}
}

// Verify reads the log of a running server, up to what is safe now.
func (l *Log) Verify(check Check) (*Report, error) {
	l.mu.Lock()
	check.End = Position{Sequence: l.seq, Hash: l.hash, Offset: l.size}
	l.mu.Unlock()
	return Verify(l.cfg.Dir, check)
}
