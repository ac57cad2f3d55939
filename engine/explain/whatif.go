package explain

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/cycle"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/preempt"
)

// WhatIf simulates the submission of a job. WhatIf returns the placement that the next plan would make. If the next
// plan would not place the job, WhatIf returns the explanation that Explain would give. The explanation includes
// any preemption that the plan would begin for the job. The parameter `p` is the predicted runtime of the job, or
// nil if there is no prediction. For a job that is already in the state, WhatIf returns the same result as Place.
func (ex *Explainer) WhatIf(job *ares.Job, p *ares.RuntimePredicted, now time.Time) (ares.Placing, *ares.Explanation) {
	if ex.jobs.EntryByID[job.ID] != nil || ex.jobs.Tenants[job.Tenant] == nil {
		placing, refusal := ex.Place(job, now)
		if refusal == nil {
			return placing, nil
		}
		return ares.Placing{Job: job.ID}, &ares.Explanation{Refusal: *refusal, Queue: job.Queue}
	}
	ex.core.Refresh()
	submitted := *job
	submitted.AcceptedAt, submitted.Revision = now, ex.core.Revision+1
	events := []ares.Event{{Job: &submitted}}
	if p != nil {
		said := *p
		said.Job = job.ID
		events = append(events, ares.Event{Forecast: &said})
	}
	ex.core.ApplyEvents(events)
	ex.core.Refresh()
	e := ex.jobs.EntryByID[job.ID]
	placing, why := ex.whatIf(e, now)
	ex.core.ApplyEvents([]ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: string(job.ID)}}})
	ex.scorer.Demand.ForgetPending(&e.Ask)
	ex.core.Refresh()
	return placing, why
}

// whatIf returns the placement that the next plan would make for a waiting job, or an explanation if the plan would
// not place it.
func (ex *Explainer) whatIf(e *job.Entry, now time.Time) (ares.Placing, *ares.Explanation) {
	plan := ex.planUntil(e, now)
	if at := slices.IndexFunc(plan.Place, func(p ares.Placing) bool { return p.Job == e.ID || p.ArrayOf == e.ID }); at >= 0 {
		return plan.Place[at], nil
	}
	why := ex.Explain(e.ID, now)
	at := slices.IndexFunc(plan.Nominate, func(n ares.Nominating) bool { return n.Job == e.ID })
	if at < 0 {
		return ares.Placing{Job: e.ID}, &why
	}
	n := &plan.Nominate[at].Nomination
	why.Blockers = slices.DeleteFunc(why.Blockers, func(b ares.Blocker) bool { return b.Kind == ares.BlockerPreemption })
	why.Blockers = append(why.Blockers, ares.Blocker{Kind: ares.BlockerPreemption, Detail: ares.PlainText(preempt.PreemptionText(n))})
	why.ETA = nominationETA(n, now)
	return ares.Placing{Job: e.ID}, &why
}

// planUntil simulates the next cycle until it reaches the job, and returns the plan so far.
func (ex *Explainer) planUntil(e *job.Entry, now time.Time) ares.Plan {
	plan := ares.Plan{Now: now}
	if ex.jobs.Queues.HasQuotas() && ex.cfg.Preemption.Enabled { // the cycle may need a second pass
		ex.round.RunCycle(&plan, ex.cfg.Preemption.Moving)
		return plan
	}
	ex.round.RunRound(&plan, func(o *job.Entry, placing *ares.Placing, _ bool) bool {
		if placing != nil {
			if placing.ArrayOf != "" {
				cycle.AdvanceArray(&plan, placing)
			}
			plan.Place = append(plan.Place, *placing)
		}
		return o != e && len(plan.Place) < config.MaxPlacings
	})
	return plan
}

// nominationETA returns the ETA of a nominated job. The latest start in this ETA is the time at which the
// nomination ends.
func nominationETA(n *ares.Nomination, now time.Time) ares.ETA {
	return ares.ETA{
		Earliest: now, Latest: job.LaterOf(now, n.Until), Reserved: true,
		Basis: ares.PlainText("its nodes are held for it while the jobs on them stop"),
	}
}
