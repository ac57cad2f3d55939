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
	case config.OrderAged, config.OrderShortest, config.OrderRemaining, config.OrderLeastService, config.OrderDeadline:
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

// WakeForOrderChange sets the plan's wake-up time to the next order change that occurs without an event. The order
// changes without an event when a running job falls behind a waiting job of its queue, or when a waiting job may
// preempt jobs with the same rank.
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
