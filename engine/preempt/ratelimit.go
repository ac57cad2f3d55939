package preempt

import (
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// withinHourlyLimit reports whether the tenant may preempt that many jobs by class now,
// and if not, when the limit has space for one more.
func (r *Round) withinHourlyLimit(e *job.Entry, sel *victimSelection, plan *ares.Plan) (until time.Time, ok bool) {
	most := r.Cfg.Preemption.PerTenant
	if most == 0 {
		return until, true
	}
	stops, until := e.Shape.Tenant.RecentStops(plan.Now)
	if until.IsZero() {
		until = plan.Now.Add(job.StopRateWindow)
	}
	for i := range plan.Stop {
		if preemption := plan.Stop[i].Stop.Yield; preemption != nil && preemption.Why == ares.YieldClass && preemption.Tenant == e.Job.Tenant {
			stops++
		}
	}
	for _, v := range sel.victims {
		if v.reason == ares.YieldClass {
			stops++
		}
	}
	return until, stops <= most
}

// explainRateLimit notes that the tenant's limit of preemptions per hour is reached, and
// wakes the plan when that may have changed.
func (s *victimSearch) explainRateLimit(sel *victimSelection, until time.Time, plan *ares.Plan) {
	most := s.round.Cfg.Preemption.PerTenant
	if until.IsZero() {
		s.round.notePreemption("%d jobs would have to be stopped for it, and those of tenant %s may have %d stopped within an hour", len(sel.victims), s.shape.Tenant.ID, most)
		return
	}
	s.round.notePreemption("jobs of tenant %s have had %d stopped within an hour, which is the most (until %s)", s.shape.Tenant.ID, most, until.UTC().Format(time.RFC3339))
	job.WakeBy(plan, until)
}
