package audit

import "fmt"

// copyReader reads the copy of a log beside the log itself.
type copyReader struct {
	page  []Entry
	begun bool
	done  bool // nothing is left to compare
	last  uint64
}

// lineAgainstCopy compares an entry with the copy of the log. `ares audit list` shows the copy, so somebody who changes only the copy could
// hide an entry there.
func (v *verifier) lineAgainstCopy(s segment, n int, e *Entry) {
	c := &v.copy
	if v.check.Copy == nil || v.check.EndOnly || c.done {
		return
	}
	for len(c.page) > 0 && c.page[0].Sequence < e.Sequence {
		c.page = c.page[1:]
	}
	if len(c.page) == 0 {
		var err error
		if c.page, err = v.check.Copy(e.Sequence); err != nil {
			v.NotCompared = append(v.NotCompared, fmt.Sprintf("the entries in history from %d on: %s", e.Sequence, err))
			c.done = true
			return
		}
		if len(c.page) == 0 {
			c.done = true // the latest entries are not in the copy yet
			return
		}
	}
	if next := &c.page[0]; next.Sequence != e.Sequence {
		if c.begun || e.Time.After(v.check.CopySince) {
			v.fault(s.path, n, "history lacks entry %d: it was removed there, so `ares audit list` does not show it", e.Sequence)
		}
		return
	}
	got := &c.page[0]
	c.begun, c.last = true, e.Sequence
	hash := got.Hash
	if _, err := got.Line(); err != nil || hash != e.Hash || got.Hash != e.Hash {
		v.fault(s.path, n, "entry %d differs from the entry in history, which `ares audit list` shows", e.Sequence)
	}
	c.page = c.page[1:]
}

// endOfCopy writes into the report how far the copy was compared.
func (v *verifier) endOfCopy() {
	if v.copy.last > 0 {
		v.Compared = append(v.Compared, fmt.Sprintf("the copies of its entries up to %d in history", v.copy.last))
	}
}
