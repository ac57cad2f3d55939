package job

import (
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

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
