package explain

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/cycle"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/preempt"

	ares "github.com/ares-scheduler/ares"
)

// WhatIf simulates the submission of a job: it returns the placing that the next
// plan would make, or the explanation that Explain would give, with the preemption
// that the next plan would begin for it. p is the predicted runtime of the job, nil
// if there is none. For a job that the state knows WhatIf answers as Place does.
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

// whatIf returns the placing of a waiting job by the next plan, or its explanation.
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
	why.Blockers = append(why.Blockers, ares.Blocker{Kind: ares.BlockerPreemption, Detail: preempt.PreemptionText(n)})
	why.ETA = nominationETA(n, now)
	return ares.Placing{Job: e.ID}, &why
}

// planUntil returns the next plan up to the turn of the job.
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

// nominationETA returns the ETA of a nominated job: at the latest when its nomination
// ends.
func nominationETA(n *ares.Nomination, now time.Time) ares.ETA {
	return ares.ETA{
		Earliest: now, Latest: job.LaterOf(now, n.Until), Reserved: true,
		Basis: "its nodes are held for it while the jobs on them stop",
	}
}
