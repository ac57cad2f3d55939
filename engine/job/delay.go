package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// ReadyDelayed readies the jobs whose delay is over and none of whose seats can still
// hold a live process. It makes the plan wake at the end of the next delay.
func (j *Table) ReadyDelayed(plan *ares.Plan, now time.Time) {
	for _, e := range j.Delayed {
		if now.Before(e.DelayUntil) {
			plan.Wake = e.DelayUntil
			return
		}
		if !e.IsSettled() || j.ArrayIsStopping(e) {
			continue // an event changes that
		}
		if len(plan.Ready) == config.MaxPlacings {
			plan.Wake = now
			return
		}
		plan.Ready = append(plan.Ready, e.ID)
	}
}

// ByDue orders delayed jobs by the end of their delay, then by ID.
func ByDue(a, b *Entry) int {
	return cmp.Or(a.DelayUntil.Compare(b.DelayUntil), cmp.Compare(a.ID, b.ID))
}

// EnqueueDelayed adds an entry to the delayed jobs, until due.
func (j *Table) EnqueueDelayed(e *Entry, due time.Time) {
	e.Queue, e.DelayUntil = InDelayed, due
	at, _ := slices.BinarySearchFunc(j.Delayed, e, ByDue)
	j.Delayed = slices.Insert(j.Delayed, at, e)
}

// maxClockSkew is how far the clock of the server that wrote a delay may be ahead before
// the delay is counted from the batch that brought it.
const maxClockSkew = time.Second

// delayEnd returns the end of a delay by the clock of the deciding server. The delay was
// written with the clock of another server. When that clock was ahead, the attempt seems
// to have ended in the future, and the delay counts from the batch that brought it. (A
// clock that was behind only shortens the delay.) Recordings keep the time of each
// batch, and snapshots keep it for each such delay, so a replay gets the same result.
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

// DelayLearnedAt returns the time of the batch that a delay counts from. It is zero when
// the delay ends as its record says.
func (e *Entry) DelayLearnedAt() time.Time {
	if e.Queue != InDelayed || e.DelayUntil.Equal(e.Run.NotBefore) {
		return time.Time{}
	}
	return e.DelayUntil.Add(e.Run.Last().EndedAt.Sub(e.Run.NotBefore))
}
