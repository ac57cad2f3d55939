package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Mark is a position that a log has reached, as a place outside the log's files remembers it. Heads are stored with the log, so an older
// copy of the whole directory has matching heads. A mark reveals such a copy, because it is not in the directory.
type Mark struct {
	Server   string
	Sequence uint64
	Hash     string
	// Key is the public key that signs the log, in base64. Key is "" if the place does not know it.
	Key  string
	Time time.Time
	// Origin names the place in messages, such as "the mark in the store".
	Origin string
}

// OutsideHead is the name of a head that was stored elsewhere. Without one, the report lists it among what the log was not compared with.
const OutsideHead = "an outside head"

func (m *Mark) fork(e *Entry) bool { return m.Hash != e.Hash }

// listComparisons writes into the report what the log is compared with. A mark names the signing key, unless the caller has named one.
func (v *verifier) listComparisons() {
	v.Compared, v.NotCompared = []string{}, append([]string{}, v.check.NotCompared...)
	for i := range v.check.Marks {
		m := &v.check.Marks[i]
		v.Key = cmp.Or(v.Key, m.Key)
		if m.Key != "" && m.Key != v.Key {
			v.fault(v.dir, 0, "%s names the key %s, not %s: this is another log", m.Origin, m.Key, v.Key)
		}
	}
}

// The method `lowest` returns the first entry that a mark or a given head is about. Without any, it is the last entry of the log.
func (v *verifier) lowest() uint64 {
	low := ^uint64(0)
	for i := range v.check.Marks {
		low = min(low, v.check.Marks[i].Sequence)
	}
	for i := range v.check.Heads {
		low = min(low, v.check.Heads[i].Sequence)
	}
	return low
}

// lineAgainstMarks compares an entry with the marks that are about it.
func (v *verifier) lineAgainstMarks(s segment, n int, e *Entry) {
	for i := range v.check.Marks {
		if m := &v.check.Marks[i]; m.Sequence == e.Sequence && m.fork(e) {
			v.fault(s.path, n, "entry %d differs from the entry that %s remembers: the log was replaced or forged", e.Sequence, m.Origin)
		}
	}
}

// endAgainstMarks checks that the log reaches every mark. The marks must have been read before the position at which Verify
// stops, so that an entry that a mark remembers was on disk before that position.
func (v *verifier) endAgainstMarks() {
	for i := range v.check.Marks {
		m := &v.check.Marks[i]
		if v.isCompared(m.Origin, m.Sequence, m.Hash, m.Time) {
			v.Compared = append(v.Compared, fmt.Sprintf("%s (entry %d)", m.Origin, m.Sequence))
		}
		if m.Sequence > v.Last {
			v.fault(v.dir, 0, "the log ends with entry %d, but %s says that it had reached entry %d on %s: its end was cut off, or an older copy of the log was put back",
				v.Last, m.Origin, m.Sequence, m.Time.UTC().Format(time.RFC3339))
		}
	}
}

// Contains reports whether the log still has the entry that a mark remembers, or has removed it because of its age. The statement in the
// files that entries were removed does not suffice for a young mark, because whoever has the server's key can sign such a statement.
func (l *Log) Contains(ctx context.Context, m Mark) (bool, error) {
	l.mu.Lock()
	floor, last := l.signer.floor, l.seq
	l.mu.Unlock()
	switch {
	case m.Sequence == 0:
		return true, nil
	case m.Sequence == floor.Sequence:
		return m.Hash == floor.Hash, nil
	case m.Sequence < floor.Sequence:
		return l.cfg.Keep > 0 && l.cfg.Now().Sub(m.Time) >= l.cfg.Keep, nil
	case m.Sequence > last:
		return false, nil
	}
	page, err := l.List(ctx, Query{OldestFirst: true, From: m.Sequence, Limit: 1})
	if err != nil {
		return false, err
	}
	return len(page.Entries) == 1 && page.Entries[0].Sequence == m.Sequence && !m.fork(&page.Entries[0]), nil
}
