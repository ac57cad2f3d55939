package preempt

import (
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// withinHourlyLimit reports whether the tenant may now preempt the given number of lower-class jobs. If the
// tenant may not, withinHourlyLimit also returns the time at which the tenant may preempt one more job.
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
		if preemption := plan.Stop[i].Stop.Preemption; preemption != nil && preemption.Why == ares.PreemptByClass && preemption.Tenant == e.Job.Tenant {
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

// explainRateLimit records that the tenant has reached its limit of preemptions per hour. The plan's wake-up time
// is set to the time when the tenant may preempt again.
func (s *victimSearch) explainRateLimit(sel *victimSelection, until time.Time, plan *ares.Plan) {
	s.round.notePreemption("preempting %s for it would exceed max_preemptions_per_hour (%d) of %s, at least until %s",
		CountJobs(len(sel.victims)), s.round.Cfg.Preemption.PerTenant, ares.ScopeRef(s.shape.Tenant.ID, ""), until.UTC().Format(time.RFC3339))
	job.WakeBy(plan, until)
}
