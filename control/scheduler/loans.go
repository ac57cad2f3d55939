package scheduler

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// withinLoans returns a batch in which no tenant has a higher GPU limit than its loan. The engine knows no loans of GPUs. Other
// readers of the batch see the tenants as they are stored.
func withinLoans(b ares.Batch) ares.Batch {
	copied := false
	for i := range b.Events {
		t := b.Events[i].Tenant
		if t == nil {
			continue
		}
		if limited := t.WithinLoan(); limited != t {
			if !copied {
				b.Events, copied = slices.Clone(b.Events), true
			}
			b.Events[i].Tenant = limited
		}
	}
	return b
}

// explainLoan completes the explanation of a job that waits for the loan of its tenant (F10). To the engine the loan is the
// tenant's limit, and raising that limit here would not help.
func explainLoan(s *engine.State, e *ares.Explanation, job *ares.Job) {
	t, use, ok := s.Tenant(job.Tenant)
	asks := job.Asks()
	if !ok || t.Loan == nil || t.Loan.GPUs > t.Limits.GPUs || use.Add(asks).GPUs+(use.GPUMilli+asks.GPUMilli+999)/1000 <= t.Loan.GPUs {
		return
	}
	scope := ares.ScopeRef(t.ID, "")
	e.Remedies = slices.DeleteFunc(e.Remedies, func(r ares.Remedy) bool {
		return slices.ContainsFunc(r, func(step ares.Step) bool {
			return step.Kind == ares.StepLimit && step.Field == ares.LimitGPUs && step.Target == scope
		})
	})
	text := ares.Textf("%s is a tenant of the hub, which lets its jobs use %d of its %d GPUs in this cluster", scope, t.Loan.GPUs, t.Loan.Quota)
	if t.Loan.GPUs >= t.Loan.Quota {
		text = ares.Textf("%s is a tenant of the hub, where its limit is %d GPUs", scope, t.Loan.Quota)
	}
	e.Blockers = append(e.Blockers, ares.Blocker{Kind: ares.BlockerQuota, Detail: text})
}
