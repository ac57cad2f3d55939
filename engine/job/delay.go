package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// ReadyDelayed readies the jobs whose delay is over, once none of their seats can
// still hold a live process, and notes when the next delay ends.
func (j *Table) ReadyDelayed(plan *ares.Plan, now time.Time) {
	for _, e := range j.Delayed {
		if now.Before(e.DelayUntil) {
			plan.Wake = e.DelayUntil
			return
		}
		if !e.IsSettled() || j.ArrayIsStopping(e) {
			continue // an event will say when
		}
		if len(plan.Ready) == config.MaxPlacings {
			plan.Wake = now
			return
		}
		plan.Ready = append(plan.Ready, e.ID)
	}
}

// ByDue is the order of the delayed jobs: end of the delay, then ID.
func ByDue(a, b *Entry) int {
	return cmp.Or(a.DelayUntil.Compare(b.DelayUntil), cmp.Compare(a.ID, b.ID))
}

// EnqueueDelayed puts an entry among the delayed ones.
func (j *Table) EnqueueDelayed(e *Entry, due time.Time) {
	e.Queue, e.DelayUntil = InDelayed, due
	at, _ := slices.BinarySearchFunc(j.Delayed, e, ByDue)
	j.Delayed = slices.Insert(j.Delayed, at, e)
}

// maxClockSkew is how far another server's clock may be ahead before its delays are
// no longer taken as it wrote them.
const maxClockSkew = time.Second

// delayEnd is the end of a delay by the clock of whoever decides. The server that
// wrote it had a clock of its own; when that was ahead, the attempt seems to
// have ended in the future, and the delay is counted from when we learned of it
// instead. (A clock that was behind only shortens a delay.) That is a time of
// the batch, which recordings keep with each, and snapshots with each such delay:
// so who replays either, counts alike.
func (j *Table) delayEnd(e *Entry) time.Time {
	last, at := e.Run.Last(), j.At
	if seen, ok := j.DelaysLearned[e]; ok {
		at = seen
	}
	if last == nil || at.IsZero() || !last.EndedAt.After(at.Add(maxClockSkew)) {
		return e.Run.NotBefore
	}
	return at.Add(e.Run.NotBefore.Sub(last.EndedAt))
}

// DelayLearnedAt is when the state learned of an entry's delay, zero where the record
// says all that matters.
func (e *Entry) DelayLearnedAt() time.Time {
	if e.Queue != InDelayed || e.DelayUntil.Equal(e.Run.NotBefore) {
		return time.Time{}
	}
	return e.DelayUntil.Add(e.Run.Last().EndedAt.Sub(e.Run.NotBefore))
}
