package cycle

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// Settle plans what has to be, whoever's turn it is.
func (r *Round) Settle(plan *ares.Plan) {
	// 1. Settle: arrays that are over, delays that are over, and the next one
	// that will be. Who is where others have a reservation leaves: nobody need
	// give way to have what he has.
	r.jobs.ReadyDelayed(plan, plan.Now)
	r.jobs.EndFinishedArrays(plan)
	r.windows.EvictFromWindows(plan)
}

// RunCycle runs the cycle. Where it lends to some what others take back by stopping
// somebody, it runs again and lends nothing: what is free goes to who was promised
// it, and the others have their turn in the next plan.
func (r *Round) RunCycle(plan *ares.Plan, moves bool) (blocked []*job.Entry) {
	settled := *plan
	settled.Ready, settled.Arrays, settled.Stop = slices.Clip(plan.Ready), slices.Clip(plan.Arrays), slices.Clip(plan.Stop)
	r.Begin()
	r.Preempt.AllowMoves = moves
	if blocked = r.runPass(plan); !r.borrowed || !slices.ContainsFunc(plan.Nominate, reclaimsQuota) {
		return blocked
	}
	*plan = settled
	r.Begin()
	r.Preempt.AllowMoves = moves
	r.noBorrowing, r.Preempt.ConsolidationsFound = true, r.Preempt.ConsolidationsFound[:0]
	blocked = r.runPass(plan)
	if !plan.Empty() { // of the same state the next would be the same
		plan.Wake = plan.Now
	}
	return blocked
}

// reclaimsQuota says whether somebody is stopped for what a quota promises.
func reclaimsQuota(n ares.Nominating) bool {
	return n.Nomination.Why == ares.YieldQuota && len(n.Nomination.Victims) > 0
}

// runPass is one cycle into the plan, and who was admitted and found no place.
func (r *Round) runPass(plan *ares.Plan) (blocked []*job.Entry) {
	now := plan.Now
	// 2. Order: whose turn it is, by aged class, share, aged priority.
	r.run(plan, func(e *job.Entry, placing *ares.Placing, admitted bool) bool {
		switch {
		case placing != nil:
			plan.Place = append(plan.Place, *placing)
			if placing.ArrayOf != "" {
				AdvanceArray(plan, placing)
				if r.hitElementLimit(e) {
					plan.Wake = now
				}
			}
			if len(plan.Place) == config.MaxPlacings {
				plan.Wake = now
				return false
			}
			return true
		case admitted && r.cfg.Queue.Preempt:
			blocked = append(blocked, e)
		}
		r.jobs.WakeAtMonthEnd(plan, e.Shape.Tenant)
		if len(plan.Refuse) < config.MaxRefusals {
			if plan.Refuse == nil {
				plan.Refuse = make([]ares.Refusal, 0, r.LastRefusals)
			}
			plan.Refuse = append(plan.Refuse, ares.Refusal{Job: e.ID, Blockers: r.refusalBlockers(e, admitted, now)})
		}
		return true
	})
	return blocked
}

// RunRound looks after the nominations, and then offers the waiting jobs in their
// order: each is admitted and placed, or has others give way, or is refused with
// its whole shape. tell hears of it, and ends the cycle by false; the placing it
// is shown is good until it returns. What it does to the plan is all but that.
func (r *Round) RunRound(plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	r.Begin().run(plan, tell)
}

// run is the state's, in a decision that has begun.
func (r *Round) run(plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	defer r.Close()
	r.expectStops(plan)
	r.cluster.PruneGains()
	r.jobs.AdvanceClock(plan.Now)
	defer r.Preempt.ReleaseNominations()
	defer r.Preempt.WithdrawFailed(plan)
	if !r.Preempt.AdvanceNominations(plan, nil, tell) {
		return
	}
	r.Preempt.HoldForRestarts(plan.Now, nil)
	r.Preempt.HoldForMigrating(plan.Now, nil)
	pass := r.jobs.Queues.BeginRound(plan.Now)
	defer pass.End()
	r.OfferInOrder(pass, plan, tell)
}

// expectStops counts on those to leave whom the plan stops already: elements of arrays
// that are to end, and who has to leave a reservation.
func (r *Round) expectStops(plan *ares.Plan) {
	for i := range plan.Stop {
		if e := r.jobs.EntryByID[plan.Stop[i].Job]; e != nil && e.RunningList >= job.InRunning {
			r.Preempt.Stopping = append(r.Preempt.Stopping, e)
		}
	}
}
