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
		if preemption := plan.Stop[i].Stop.Yield; preemption != nil && preemption.Why == ares.PreemptByClass && preemption.Tenant == e.Job.Tenant {
			stops++
		}
	}
	for _, v := range sel.victims {
		if v.reason == ares.PreemptByClass {
			stops++
		}
	}
	return until, stops <= most
}

// explainRateLimit notes that the tenant's limit of preemptions per hour is reached, and
// wakes the plan when that may have changed.
func (s *victimSearch) explainRateLimit(sel *victimSelection, until time.Time, plan *ares.Plan) {
	s.round.notePreemption("preempting %s for it would exceed max_preemptions_per_hour (%d) of tenant %s, at least until %s",
		CountJobs(len(sel.victims)), s.round.Cfg.Preemption.PerTenant, s.shape.Tenant.ID, until.UTC().Format(time.RFC3339))
	job.WakeBy(plan, until)
}
