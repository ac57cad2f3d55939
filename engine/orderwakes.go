package engine

import (
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// peerPreemptionTime is when a waiting job begins to stop those of its own level that were
// submitted after it, false for never.
func (j *jobTable) peerPreemptionTime(e *entry) (time.Time, bool) {
	wait := j.cfg.Queue.PeersAfter
	if wait == 0 {
		return time.Time{}, false
	}
	since := e.job.AcceptedAt
	if e.run != nil && e.run.Last() != nil {
		since = laterOf(since, e.run.Last().EndedAt)
	}
	return since.Add(wait), true
}

// wakeForOrderChange wakes the plan when the next running job comes behind one that waits
// in its queue, or when one may stop its peers, which no event tells.
func (j *jobTable) wakeForOrderChange(blocked []*entry, plan *ares.Plan) {
	if j.cfg.Queue.Order != config.OrderAttained {
		return
	}
	level := int64(j.cfg.Queue.AttainedLevel()) * cluster.WholeMilli
	for _, e := range blocked {
		if until, ok := j.peerPreemptionTime(e); ok && plan.Now.Before(until) {
			wakeBy(plan, until)
		}
		if j.orderRank(e, plan.Now) > 0 {
			continue
		}
		for _, v := range e.shape.tenant.active { // in no order: the earliest of all
			if v.shape.leaf != e.shape.leaf || v.run.Current() == nil || v.run.Stop != nil || v.run.Current().StartedAt.IsZero() || !v.mayBePreempted() {
				continue
			}
			lacks, rate := level-j.attainedService(v, plan.Now), v.gpuMilli()
			if lacks <= 0 || rate == 0 {
				continue
			}
			wakeBy(plan, plan.Now.Add(time.Duration((lacks*1000+rate-1)/rate)*time.Millisecond))
		}
	}
}
