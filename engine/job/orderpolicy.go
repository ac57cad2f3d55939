package job

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/queue"
)

// OrderRank is where the job stands in the configured order of its queue, inside
// its class: smaller is earlier. Only what is known decides: it changes by
// events, and for a running job with time.
func (j *Table) OrderRank(e *Entry, now time.Time) uint64 {
	half, _ := e.RuntimeEstimate()
	switch j.cfg.Queue.Order {
	case config.OrderShortest:
		return durationKey(half)
	case config.OrderRemaining:
		if half != Forever {
			half = max(half-e.Done(now), 0)
		}
		return durationKey(half)
	case config.OrderLeastService:
		if half == Forever {
			return queue.MaxSortKey
		}
		return uint64(min(int64(half/time.Millisecond), 1<<38)*min(e.gpuMilli(), 1<<24)) / cluster.WholeMilli
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

func durationKey(d time.Duration) uint64 {
	if d == Forever {
		return queue.MaxSortKey
	}
	return uint64(max(d, 0) / time.Millisecond)
}

// attainedService is the device-time that the job has had by now, in thousandths of
// GPU-seconds.
func (j *Table) attainedService(e *Entry, now time.Time) int64 {
	return int64(e.Run.RanFor(now)/time.Millisecond) * e.gpuMilli() / 1000
}

// sortKey is the place of a waiting job in its class as the order wants it. Where
// submission decides it is written out, so that most comparisons need no more.
func (j *Table) sortKey(e *Entry) uint64 {
	rank := j.OrderRank(e, time.Time{}) // no attempt of it is under way
	switch j.cfg.Queue.Order {
	case config.OrderFIFO, config.OrderAttained:
		return rank<<56 | uint64(min(max(e.Job.Revision, 0), 1<<56-1))
	case config.OrderAged, config.OrderShortest, config.OrderRemaining, config.OrderLeastService, config.OrderDeadline:
	}
	return min(rank, queue.MaxSortKey)
}

// PeerPreemptionTime is when a waiting job begins to stop those of its own level that were
// submitted after it, false for never.
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

// WakeForOrderChange wakes the plan when the next running job comes behind one that waits
// in its queue, or when one may stop its peers, which no event tells.
func (j *Table) WakeForOrderChange(blocked []*Entry, plan *ares.Plan) {
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
		for _, v := range e.Shape.Tenant.Active { // in no order: the earliest of all
			if v.Shape.Leaf != e.Shape.Leaf || v.Run.Current() == nil || v.Run.Stop != nil || v.Run.Current().StartedAt.IsZero() || !v.MayBePreempted() {
				continue
			}
			lacks, rate := level-j.attainedService(v, plan.Now), v.gpuMilli()
			if lacks <= 0 || rate == 0 {
				continue
			}
			WakeBy(plan, plan.Now.Add(time.Duration((lacks*1000+rate-1)/rate)*time.Millisecond))
		}
	}
}
