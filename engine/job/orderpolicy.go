package job

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/queue"
)

// OrderRank returns the job's rank within its class, by the configured order of its queue. A job with a smaller
// rank comes earlier. The rank depends on the job's records, so it changes when an event changes these records.
// The rank of a running job also changes with time.
func (j *Table) OrderRank(e *Entry, now time.Time) uint64 {
	p50, _ := e.RuntimeEstimate()
	switch j.cfg.Queue.Order {
	case config.OrderExpectedWork:
		return e.expectedWork(now)
	case config.OrderShortest:
		return durationKey(p50)
	case config.OrderRemaining:
		if p50 != Forever {
			p50 = max(p50-e.Done(now), 0)
		}
		return durationKey(p50)
	case config.OrderLeastService:
		if p50 == Forever {
			return queue.MaxSortKey
		}
		return uint64(min(int64(p50/time.Millisecond), 1<<38)*min(e.gpuMilli(), 1<<24)) / cluster.WholeMilli
	case config.OrderAttained:
		if e.Run != nil && j.attainedService(e, now) >= int64(j.cfg.Queue.AttainedLevel())*cluster.WholeMilli {
			return 1
		}
	case config.OrderDeadline:
		if e.Job.Deadline.IsZero() {
			return queue.MaxSortKey
		}
		return uint64(max(e.Job.Deadline.UnixMilli(), 0))
	case config.OrderAged, config.OrderFIFO:
	}
	return 0
}

// durationKey converts a runtime to a sort key, in milliseconds. An unknown runtime gets the highest sort key,
// so jobs with an unknown runtime come last.
func durationKey(d time.Duration) uint64 {
	if d == Forever {
		return queue.MaxSortKey
	}
	return uint64(max(d, 0) / time.Millisecond)
}

// attainedService returns the GPU time that the job has used so far, in thousandths of
// GPU-seconds.
func (j *Table) attainedService(e *Entry, now time.Time) int64 {
	return int64(e.Run.RanFor(now)/time.Millisecond) * e.gpuMilli() / 1000
}

// sortKey returns the sort key of a waiting job. For OrderFIFO and OrderAttained, the key includes
// the job's revision, so that most comparisons need only the key.
func (j *Table) sortKey(e *Entry) uint64 {
	rank := j.OrderRank(e, time.Time{}) // no attempt is running, so the time does not matter
	switch j.cfg.Queue.Order {
	case config.OrderFIFO, config.OrderAttained:
		return rank<<56 | uint64(min(max(e.Job.Revision, 0), 1<<56-1))
	case config.OrderExpectedWork, config.OrderAged, config.OrderShortest, config.OrderRemaining, config.OrderLeastService, config.OrderDeadline:
	}
	return min(rank, queue.MaxSortKey)
}

// PeerPreemptionTime returns a time. From this time on, a waiting job may preempt jobs with the same rank
// that were submitted later. The second result is false if the job may never preempt jobs with the same
// rank.
func (j *Table) PeerPreemptionTime(e *Entry) (time.Time, bool) {
	wait := j.cfg.Queue.PeersAfter
	if wait == 0 {
		return time.Time{}, false
	}
	since := e.Job.AcceptedAt
	if e.Run != nil && e.Run.Last() != nil {
		since = LaterOf(since, e.Run.Last().EndedAt)
	}
	return since.Add(wait), true
}

// longerPause is the time between two cycles that search for much longer jobs and are caused by no event.
const longerPause = 10 * time.Minute

// WakeForOrderChange sets the plan's wake-up time to the next order change that occurs without an event. The order
// changes without an event when a running job falls behind a waiting job of its queue, or when a waiting job may
// preempt jobs with the same rank.
//
// By default, time alone makes running jobs much longer than waiting ones. Then the next cycle is due when a blocked job
// has waited long enough, or else after longerPause: to compare all pairs of jobs would take longer than the cycle.
func (j *Table) WakeForOrderChange(blocked []*Entry, plan *ares.Plan) {
	for _, e := range blocked {
		if from, ok := j.PreemptsLongerFrom(e); ok {
			WakeBy(plan, LaterOf(from, plan.Now.Truncate(longerPause).Add(longerPause)))
		}
	}
	if j.cfg.Queue.Order != config.OrderAttained {
		return
	}
	level := int64(j.cfg.Queue.AttainedLevel()) * cluster.WholeMilli
	for _, e := range blocked {
		if until, ok := j.PeerPreemptionTime(e); ok && plan.Now.Before(until) {
			WakeBy(plan, until)
		}
		if j.OrderRank(e, plan.Now) > 0 {
			continue
		}
		for _, v := range e.Shape.Tenant.Active { // order-free: finds the earliest time
			if v.Shape.Leaf != e.Shape.Leaf || v.Run.Current() == nil || v.Run.Stop != nil || v.Run.Current().StartedAt.IsZero() || !v.MayBePreempted() {
				continue
			}
			missing, rate := level-j.attainedService(v, plan.Now), v.gpuMilli()
			if missing <= 0 || rate == 0 {
				continue
			}
			WakeBy(plan, plan.Now.Add(time.Duration((missing*1000+rate-1)/rate)*time.Millisecond))
		}
	}
}

// A position is the place of a pending job in the order of its queue. A position is valid until a given time.
type position struct {
	priority     int       // decides the class
	sortKey      uint64    // orders jobs of one class, except with OrderAged
	due          time.Time // with OrderAged, for a job with a deadline; see queue.Item
	classCeiling int       // as due
	overdue      bool      // the job has waited for OverdueAfter
	until        time.Time // zero for always
}

// positionOf returns the position of a pending job at the time `now`.
func (j *Table) positionOf(e *Entry, now time.Time) position {
	switch j.cfg.Queue.Order {
	case config.OrderExpectedWork:
		return j.expectedWorkPosition(e, now)
	case config.OrderAged:
		out := position{priority: e.Job.PriorityValue()}
		if !e.Job.Deadline.IsZero() {
			u := j.urgencyOf(e, now)
			out.due, out.classCeiling, out.until = u.due, u.classCeiling, u.until
		}
		return out
	case config.OrderFIFO, config.OrderShortest, config.OrderRemaining, config.OrderLeastService, config.OrderAttained, config.OrderDeadline:
	}
	return position{priority: e.Job.PriorityValue(), sortKey: j.sortKey(e)}
}

// positionChangesWithTime reports whether the position of a pending job can change without an event.
func (j *Table) positionChangesWithTime(e *Entry) bool {
	return j.cfg.Queue.Order == config.OrderExpectedWork || j.cfg.Queue.Order == config.OrderAged && !e.Job.Deadline.IsZero()
}

// hasPosition reports whether the item of a pending job has the given position.
func (e *Entry) hasPosition(p *position) bool {
	it := &e.Item
	return it.Priority == p.priority && it.SortKey == p.sortKey && it.ClassCeiling == p.classCeiling && it.Due.Equal(p.due) && e.overdue.is == p.overdue
}

// setPosition gives a pending job its position. The job must not be in its queue at that time.
func (j *Table) setPosition(e *Entry, p *position) {
	it := &e.Item
	it.Priority, it.SortKey, it.Due, it.ClassCeiling = p.priority, p.sortKey, p.due, p.classCeiling
	if j.positionChangesWithTime(e) {
		e.positionTimer.entry = e
		j.positionTimers.schedule(&e.positionTimer, p.until)
	}
	j.setOverdue(e, p.overdue)
}

// positionChanged reports whether a pending job needs a new position in its queue.
func (j *Table) positionChanged(e *Entry) bool {
	if e.Queue != InPending || j.cfg.Queue.Order == config.OrderAged && e.Job.Deadline.IsZero() {
		return false
	}
	p := j.positionOf(e, j.clock)
	return !e.hasPosition(&p) || j.positionChangesWithTime(e) && !e.positionTimer.at.Equal(p.until)
}

// updatePosition moves a pending job to the position that it has now, and sets its timer.
func (j *Table) updatePosition(e *Entry) {
	p := j.positionOf(e, j.clock)
	if e.hasPosition(&p) {
		j.positionTimers.schedule(&e.positionTimer, p.until)
		return
	}
	j.Queues.Remove(&e.Item)
	j.setPosition(e, &p)
	e.Shape.Leaf.Push(&e.Item)
}

// NextOrderChange returns the next time at which the order changes without an event. The result is zero if there is
// no such time, or if the order does not matter because blocked jobs are skipped.
func (j *Table) NextOrderChange() time.Time {
	if j.cfg.Queue.Blocked == config.BlockedSkip || len(j.positionTimers) == 0 {
		return time.Time{}
	}
	return j.positionTimers[0].at
}
