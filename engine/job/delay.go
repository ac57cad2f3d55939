package job

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// ReadyDelayed makes jobs pending again if their retry delay is over and none of their seats can still have a live
// process. ReadyDelayed sets the plan's wake-up time to the end of the next delay.
func (j *Table) ReadyDelayed(plan *ares.Plan, now time.Time) {
	for _, e := range j.Delayed {
		if now.Before(e.DelayUntil) {
			plan.Wake = e.DelayUntil
			return
		}
		if !e.IsSettled() || j.ArrayIsStopping(e) {
			continue // only an event changes that
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

// EnqueueDelayed adds an entry to the delayed jobs until the time `due`.
func (j *Table) EnqueueDelayed(e *Entry, due time.Time) {
	e.Queue, e.DelayUntil = InDelayed, due
	at, _ := slices.BinarySearchFunc(j.Delayed, e, ByDue)
	j.Delayed = slices.Insert(j.Delayed, at, e)
}

// maxClockSkew is the maximum time by which the recorded end of an attempt may be later than the batch that
// contains it. If the recorded end is later than this limit allows, the clock of another server was ahead. In
// that case the retry delay starts at the time of the batch.
const maxClockSkew = time.Second

// delayEnd returns the time at which a retry delay ends, by the clock of this server. The delay was written with
// the clock of another server. If the other server's clock was ahead, the attempt seems to have ended in the
// future. In that case the delay starts at the time of the batch that contained the delay. If the other server's
// clock was behind, the delay only becomes shorter. A recording contains the time of each batch, and a snapshot
// contains the batch time for each such delay, so a replay gets the same result.
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

// DelayLearnedAt returns the time of the batch from which a retry delay is counted. The result is zero if the delay
// ends at the time in its record.
func (e *Entry) DelayLearnedAt() time.Time {
	if e.Queue != InDelayed || e.DelayUntil.Equal(e.Run.NotBefore) {
		return time.Time{}
	}
	return e.DelayUntil.Add(e.Run.Last().EndedAt.Sub(e.Run.NotBefore))
}
