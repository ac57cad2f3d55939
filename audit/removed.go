package audit

import (
	"fmt"
	"time"
)

// These are the tolerances for the statement that entries were removed because of their age.
const (
	// ageSlack is how much later than its entry a head or a mark may be dated.
	ageSlack = time.Hour
	// floorSlack is how old a statement may be whose entry AUDIT_EXPIRED was written after Verify had read the end of the log.
	floorSlack = time.Minute
)

// noteExpiry remembers the entry that records the removal of the entries up to the floor. Somebody with the server's key can sign a
// floor, but can put no entry into a part of the log that a mark or an outside head covers.
func (v *verifier) noteExpiry(e *Entry) {
	if e.Action == ActionExpire && v.low.Sequence > 0 && e.After == v.low.Hash {
		v.expiry = e.Since
		v.expired = e.Sequence
	}
	v.lastTime = e.Time
}

// removedEntries reports the entries that the log has removed because of their age, and checks that the log has an entry about it.
func (v *verifier) removedEntries() {
	if v.partial || v.First <= 1 || v.low.Sequence == 0 {
		return
	}
	if v.expired > 0 {
		v.NotCompared = append(v.NotCompared, fmt.Sprintf("entries up to %d: they were removed because of their age, as entry %d says", v.low.Sequence, v.expired))
		return
	}
	if age := time.Since(v.low.Time); v.low.Time.After(v.lastTime) && age < floorSlack && age > -floorSlack {
		return // a running server is just removing them
	}
	v.fault(floorFile, 0, "entries up to %d are missing, and no entry %s in the log says that they were removed because of their age: somebody removed them", v.low.Sequence, ActionExpire)
}

// isCompared reports whether the log has the entry that a head or a mark is about. An entry that was removed because of its age cannot be
// compared, which the report says. It is a fault if the entry was too young for that.
func (v *verifier) isCompared(what string, seq uint64, hash string, at time.Time) bool {
	if v.partial || seq >= v.First || seq > v.low.Sequence {
		return true // later entries are missing at the end, which other checks report
	}
	if seq == v.low.Sequence {
		if v.low.Hash != hash {
			v.fault(floorFile, 0, "entry %d differs from the entry that %s remembers: the log was replaced or forged", seq, what)
		}
		return true
	}
	if !v.expiry.IsZero() && at.After(v.expiry.Add(ageSlack)) {
		v.fault(floorFile, 0, "entry %d is missing: %s is from %s, but only entries before %s were old enough to be removed", seq, what,
			at.UTC().Format(time.RFC3339), v.expiry.UTC().Format(time.RFC3339))
		return true
	}
	v.NotCompared = append(v.NotCompared, fmt.Sprintf("%s of entry %d: that entry was removed because of its age", what, seq))
	return false
}

// compareWithHeads writes into the report how many outside heads the log was compared with.
func (v *verifier) compareWithHeads() {
	n := 0
	for i := range v.check.Heads {
		if h := &v.check.Heads[i]; v.isCompared("the outside head", h.Sequence, h.Hash, h.Time) {
			n++
		}
	}
	switch n {
	case 0:
		v.NotCompared = append(v.NotCompared, OutsideHead)
	case 1:
		v.Compared = append(v.Compared, OutsideHead)
	default:
		v.Compared = append(v.Compared, fmt.Sprintf("%d outside heads", n))
	}
}
