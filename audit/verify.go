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

// Check holds the values that Verify compares the log with.
type Check struct {
	// Heads are signed heads that were exported earlier. The log must contain the entry of each of these heads.
	Heads []Head
	// Key is the signing key in base64, if the caller knows it from another source. The default is the key of Heads. Without Heads,
	// the default is the key of the heads that are stored with the log.
	Key string
	// Marks are positions that this log is known to have reached. They come from outside the log's files, but without a signature. The log
	// must contain the entry of each mark.
	Marks []Mark
	// Known are faults that the server knows from elsewhere, such as that the mark of this log was removed from the store.
	Known []string
	// Copy returns entries of another copy of this log, such as history, in the order of their sequence numbers and beginning with the given one.
	// The result is empty after the last entry. CopySince is the time from which on the copy must have all entries. Copy may be nil.
	Copy      func(from uint64) ([]Entry, error)
	CopySince time.Time
	// NotCompared names what the log should also be compared with, but cannot be, with the reason. Verify only copies it to the report.
	NotCompared []string
	// If EndOnly is set, Verify leaves out the segments before the first mark or given head. This is fast for a long log, and still finds that
	// the log's end was cut off or that an older copy of the log was put back.
	EndOnly bool
	// End is the position at which Verify stops reading, for a log that is still being written. End consists of the last entry and
	// the size of the last file. By default Verify reads the whole log.
	End Position
}

// Position is a position in the log. A Position consists of an entry and the end of its line.
type Position struct {
	Sequence uint64
	Hash     string
	Offset   int64
}

// Fault is a part of the log that differs from what was written.
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

// Report is the result of Verify.
type Report struct {
	Segments int    `json:"segments"`
	Entries  uint64 `json:"entries"`
	// First and Last are sequence numbers, and Hash is the hash of the last entry.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Hash  string `json:"hash"`
	// Heads is the number of signed heads that the log was compared with. Signed is the last entry for which there
	// is a signed head. Entries after Signed are chained by hashes, but their removal would not be noticed.
	Heads  int    `json:"heads"`
	Signed uint64 `json:"signed"`
	// Key is the key that signed the heads.
	Key    string  `json:"key"`
	Faults []Fault `json:"faults"`
	// More is the number of faults that are not listed in Faults.
	More int `json:"more,omitempty"`
	// Compared names what the log's end was compared with, beside the heads in its own files. NotCompared names what it was not compared
	// with, and why.
	Compared    []string `json:"compared"`
	NotCompared []string `json:"not_compared"`
}

// OK reports whether no fault was found.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// maxFaults is the maximum number of faults that a Report lists.
const maxFaults = 100

func (r *Report) fault(file string, line int, format string, args ...any) {
	if len(r.Faults) >= maxFaults {
		r.More++
		return
	}
	r.Faults = append(r.Faults, Fault{File: filepath.Base(file), Line: line, Text: fmt.Sprintf(format, args...)})
}

// Verify reads a whole log and reports every part that differs from what was written. Verify returns an error only if
// it cannot read the log.
func Verify(dir string, check Check) (*Report, error) {
	if _, err := os.Stat(dir); err != nil && (!errors.Is(err, fs.ErrNotExist) || check.End.Sequence == 0) {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	v := &verifier{Report: &Report{Key: check.Key, Faults: []Fault{}}, dir: dir, check: &check, heads: map[uint64][]headClaim{}}
	if v.Key == "" && len(check.Heads) > 0 {
		v.Key = check.Heads[0].Key
	}
	v.listComparisons()
	for _, text := range check.Known {
		v.fault(dir, 0, "%s", text)
	}
	for i := range check.Heads {
		v.claim(givenHead, i+1, &check.Heads[i], check.Heads[i].Check())
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
	if len(all) == 0 {
		v.fault(dir, 0, "the directory has no entries: the log was removed, or this is not the directory of an audit log")
	}
	v.ends(all)
	v.removedEntries()
	v.endAgainstMarks()
	v.compareWithHeads()
	v.endOfCopy()
	return v.Report, nil
}

// givenHead is used instead of a file name for the heads in Check.Heads.
const givenHead = "the given head"

// headClaim is a head and the location it was read from.
type headClaim struct {
	Head

	from  string
	given bool // it is one of Check.Heads
}

// The type `verifier` checks the hash chain of a log.
type verifier struct {
	*Report

	dir   string
	heads map[uint64][]headClaim // by the entry they are of
	low   Head                   // the last entry that was removed because of its age
	check *Check
	begun bool
	// The following fields are about the entries that the log removed: the entry that records the removal (0 if there is none), the time before
	// which entries were old enough (zero if the entry does not say it), and the time of the last entry.
	expired  uint64
	expiry   time.Time
	lastTime time.Time
	server   string     // of the last entry
	copy     copyReader // what Check.Copy returns
	// If the field partial is true, segments at the beginning of the log are left out because of Check.EndOnly.
	partial bool
}

// The method `claim` adds a head that was read from a file.
func (v *verifier) claim(path string, n int, h *Head, bad error) {
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
	v.heads[h.Sequence] = append(v.heads[h.Sequence], headClaim{*h, fmt.Sprintf("%s, line %d", filepath.Base(path), n), path == givenHead})
}

// The method `floor` reads the signed statement that says which entries were removed because of their age.
func (v *verifier) floor() {
	h, err := readFloor(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if v.claim(filepath.Join(v.dir, floorFile), 1, &h, err); err == nil && h.Key == v.Key {
		v.low = h
	}
}

// The method `present` leaves out segments that the server began after Verify was called. It also leaves out segments
// that the server was about to remove because of their age.
func (v *verifier) present(all []segment) []segment {
	for n := len(all); n > 1 && v.check.End.Sequence > 0 && all[n-1].first > v.check.End.Sequence; n-- {
		all = all[:n-1]
	}
	for len(all) > 1 && all[1].first-1 <= v.low.Sequence {
		all = all[1:]
	}
	for low := v.lowest(); v.check.EndOnly && len(all) > 1 && all[1].first <= low; {
		all, v.partial = all[1:], true
	}
	return all
}

// The method `signed` reads the heads of a segment. The heads of a segment must be numbered without gaps.
func (v *verifier) signed(s segment, lastSegment bool) (last uint64, err error) {
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
			v.incomplete(path, n, len(line), lastSegment)
			break
		}
		h, bad := readHead(line)
		if bad == nil && (h.Number != uint64(n) || h.Kind != Top || h.Sequence < s.first || h.Sequence <= last) {
			bad = fmt.Errorf("audit-log head %d (for entry %d) is on the wrong line of the file: lines are missing or were moved", h.Number, h.Sequence)
		}
		if v.claim(path, n, &h, bad); bad == nil {
			last = h.Sequence
		}
	}
	return last, nil
}

// The method `incomplete` judges a line without a newline. A crash or a running server can leave one at the end of the log, where no signature
// covers it. If a signed entry was cut in this way, the end of the log is before the signed entry, which is a fault of its own.
func (v *verifier) incomplete(path string, n, size int, last bool) {
	if !last || v.check.End.Sequence > 0 {
		v.fault(path, n, "the last line is incomplete")
		return
	}
	v.NotCompared = append(v.NotCompared, fmt.Sprintf("the incomplete last line of %s (%d bytes), which a crash or a running server leaves", filepath.Base(path), size))
}

func (v *verifier) segment(s segment, last bool) error {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	signed, err := v.signed(s, last)
	if err != nil {
		return err
	}
	if last && v.check.End.Sequence > 0 && int64(len(data)) > v.check.End.Offset {
		data = data[:v.check.End.Offset]
	}
	v.Segments++
	if len(data) == 0 && !last {
		v.fault(s.path, 0, "the segment file is empty")
	}
	if v.begun && s.first != v.Last+1 {
		v.fault(s.path, 0, "the file name says that the segment begins with entry %d, but the next entry is %d", s.first, v.Last+1)
	}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		if !whole {
			v.incomplete(s.path, n, len(line), last)
			break
		}
		v.line(s, n, line)
	}
	if !last && signed != v.Last {
		v.fault(s.path, 0, "the segment ends with entry %d, but the last signature in %s is for entry %d", v.Last, headsName(s.first), signed)
	}
	return nil
}

// The method `line` checks one line of the log against the previous line.
func (v *verifier) line(s segment, n int, line []byte) {
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
	if v.server != "" && v.server != e.Server {
		v.fault(s.path, n, "entry %d is an entry of server %s, but the entries before it are of server %s: two logs were mixed", e.Sequence, e.Server, v.server)
	}
	v.Entries++
	v.begun, v.Last, v.Hash, v.server = true, e.Sequence, e.Hash, e.Server
	v.noteExpiry(&e)
	v.lineAgainstCopy(s, n, &e)
	for _, h := range v.heads[e.Sequence] {
		if h.Hash != e.Hash {
			v.fault(s.path, n, "entry %d differs from the entry that was signed: %s says so", e.Sequence, h.from)
		}
	}
	v.lineAgainstMarks(s, n, &e)
}

// The method `begin` checks whether the first entry may be the beginning of the log. The first entry must be entry 1.
// Otherwise a signed statement must say that all entries before it were removed because of their age.
func (v *verifier) begin(s segment, n int, e *Entry) {
	v.First = e.Sequence
	if s.first != e.Sequence {
		v.fault(s.path, n, "the file name says that the segment begins with entry %d, but its first entry is %d", s.first, e.Sequence)
	}
	if v.partial {
		return // the entries before it were not read
	}
	if e.Sequence == 1 {
		if e.Previous != genesis {
			v.fault(s.path, n, "entry 1 contains the hash of an earlier entry, but no entry can precede it")
		}
		return
	}
	if v.low.Sequence == e.Sequence-1 && v.low.Hash == e.Previous {
		return
	}
	v.fault(s.path, n, "the log begins with entry %d, and no signed head records that the earlier entries were removed because of their age", e.Sequence)
}

// The method `ends` checks the end of the log against the signed heads.
func (v *verifier) ends(all []segment) {
	for _, seq := range slices.Sorted(maps.Keys(v.heads)) {
		for _, h := range v.heads[seq] {
			// A running server may have signed entries after the position at which Verify stops. A given head is older than that position.
			if seq > v.Last && (h.given || v.check.End.Sequence == 0 || seq <= v.check.End.Sequence) {
				v.fault(v.dir, 0, "the log ends with entry %d, but %s, signed on %s, says that it reached entry %d: its end was cut off",
					v.Last, h.from, h.Time.Format(time.RFC3339), seq)
			}
		}
	}
	if end := v.check.End; end.Sequence > 0 && (v.Last != end.Sequence || v.Hash != end.Hash) {
		v.fault(v.dir, 0, "the files end with entry %d, but the server wrote entry %d last: the files were changed while the server was running", v.Last, end.Sequence)
	}
	v.orphans(all)
}

// The method `orphans` finds heads whose segments are missing.
func (v *verifier) orphans(all []segment) {
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

// Verify verifies the log of a running server, up to the last entry that is on disk now.
func (l *Log) Verify(check Check) (*Report, error) {
	l.mu.Lock()
	check.End = Position{Sequence: l.seq, Hash: l.hash, Offset: l.size}
	l.mu.Unlock()
	return Verify(l.cfg.Dir, check)
}
