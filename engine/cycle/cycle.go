package cycle

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// Report receives the result of offering capacity to one job. The argument `placing` is nil if the job was not
// placed. The argument `admitted` says whether the job was admitted. If Report returns false, the pass ends. The
// placement is valid until Report returns.
type Report func(e *job.Entry, placing *ares.Placing, admitted bool) (more bool)

// Settle is phase 1 of a cycle. Settle plans the changes that do not depend on the order of the jobs. Settle makes
// jobs pending again when their retry delay is over, ends finished arrays, and evicts jobs from the nodes of open
// reservations.
func (r *Round) Settle(plan *ares.Plan) {
	r.jobs.ReadyDelayed(plan, plan.Now)
	r.jobs.EndFinishedArrays(plan)
	r.windows.EvictFromWindows(plan)
}

// RunCycle runs phases 2 to 8 after Settle. If preemption by queue order is enabled, RunCycle returns the jobs that
// were admitted but not placed. The parameter `moves` says whether consolidation is allowed.
//
// A plan may place a job that borrows quota, and also stop victims to reclaim quota. In this case the phases run
// again without borrowing. Free capacity then goes to the jobs that own the quota, and the next plan considers
// borrowers again.
func (r *Round) RunCycle(plan *ares.Plan, moves bool) (blocked []*job.Entry) {
	settled := *plan
	settled.Ready, settled.Arrays, settled.Stop = slices.Clip(plan.Ready), slices.Clip(plan.Arrays), slices.Clip(plan.Stop)
	r.Begin(plan.Now)
	r.Preempt.AllowMoves = moves
	if blocked = r.runPass(plan); !r.borrowed || !slices.ContainsFunc(plan.Nominate, reclaimsQuota) {
		return blocked
	}
	*plan = settled
	r.Begin(plan.Now)
	r.Preempt.AllowMoves = moves
	r.noBorrowing, r.Preempt.ConsolidationsFound = true, r.Preempt.ConsolidationsFound[:0]
	blocked = r.runPass(plan)
	if !plan.Empty() { // an empty plan changes nothing, so the next one would be the same
		plan.Wake = plan.Now
	}
	return blocked
}

// reclaimsQuota reports whether a nomination stops victims to reclaim quota.
func reclaimsQuota(n ares.Nominating) bool {
	return n.Nomination.Why == ares.PreemptByQuota && len(n.Nomination.Victims) > 0
}

// runPass runs phases 2 to 8 once, and records placements and refusals in the plan. If preemption
// inside a queue is enabled, runPass returns the jobs that were admitted but not placed.
func (r *Round) runPass(plan *ares.Plan) (blocked []*job.Entry) {
	r.run(plan, func(e *job.Entry, placing *ares.Placing, admitted bool) bool {
		if placing != nil {
			return r.recordPlacing(plan, e, placing)
		}
		if admitted && (r.cfg.Queue.Preempt || r.cfg.PreemptsLonger()) {
			blocked = append(blocked, e)
		}
		r.refuse(plan, e, admitted)
		return true
	})
	return blocked
}

// recordPlacing adds a placement to the plan. When the plan is full, recordPlacing returns false, and the next
// cycle runs immediately.
func (r *Round) recordPlacing(plan *ares.Plan, e *job.Entry, placing *ares.Placing) (more bool) {
	plan.Place = append(plan.Place, *placing)
	if placing.ArrayOf != "" {
		AdvanceArray(plan, placing)
		if r.hitElementLimit(e) {
			plan.Wake = plan.Now
		}
	}
	if len(plan.Place) == config.MaxPlacings {
		plan.Wake = plan.Now
		return false
	}
	return true
}

// RunRound begins a pass and runs phases 2 to 8. The caller records placements and refusals from the reported
// offers. RunRound itself adds all other decisions to the plan.
func (r *Round) RunRound(plan *ares.Plan, report Report) {
	r.Begin(plan.Now).run(plan, report)
}

// The method `run` runs phases 2 to 8 in a pass that has begun, and closes the pass.
func (r *Round) run(plan *ares.Plan, report Report) {
	defer r.Close()
	r.expectStops(plan)
	r.cluster.PruneGains()
	r.jobs.AdvanceClock(plan.Now)

	// 2. Hold: place nominated jobs, or hold the seats that they are nominated for. Restarting gangs and
	//    migrating jobs also keep their seats.
	defer r.Preempt.ReleaseNominations()
	defer r.Preempt.WithdrawFailed(plan)
	if !r.Preempt.AdvanceNominations(plan, nil, report) {
		return
	}
	r.Preempt.HoldForRestarts(plan.Now, nil)
	r.Preempt.HoldForMigrating(plan.Now, nil)

	// 3. to 8. Offer seats to the waiting jobs in order.
	order := r.jobs.Queues.BeginRound(plan.Now)
	defer order.End()
	r.OfferInOrder(order, plan, report)
}

// If the plan already stops a running job, expectStops marks the job as stopping. At this point, the plan can stop
// elements of ending arrays, and jobs that are evicted for a reservation.
func (r *Round) expectStops(plan *ares.Plan) {
	for i := range plan.Stop {
		if e := r.jobs.EntryByID[plan.Stop[i].Job]; e != nil && e.RunningList >= job.InRunning {
			r.Preempt.Stopping = append(r.Preempt.Stopping, e)
		}
	}
}
