package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// advanceNominations looks after every nomination before anybody has his turn. Who finds
// his seats free is placed there. Who cannot have them any more gives them up,
// and has his turn as any other.
// For the others what is free is held, and those who are still to give way are
// stopped. One job may be left out. What it counts for leaves is taken back by letGo.
func (pr *preemptRound) advanceNominations(plan *ares.Plan, but *job.Entry, tell func(*job.Entry, *ares.Placing, bool) bool) (more bool) {
	more = true
	for _, e := range pr.jobs.Running.Nominated {
		if e == but || e.Queue != job.InPending || pr.jobs.ArrayIsStopping(e) {
			continue // an event will say what becomes of it
		}
		n := e.Run.Nominated
		k := backfill.NominationHold{Entry: e, Seats: n.Seats, Until: n.Until, Over: true}
		why := pr.invalidReason(e, plan.Now)
		m := cluster.Savepoint(len(pr.txn.Deltas))
		free := why == "" && more && pr.txn.TakeIfFree(n.Seats)
		if free && !pr.jobs.AdmitsSeats(e.Shape, n.Seats, plan.Now) {
			// Those who are on their way out may hold what it lacks elsewhere. Were
			// the seats given up, it or another would have them kept again at once.
			pr.txn.Undo(m)
			free = false
		}
		switch {
		case why != "":
			k.Invalid = why
		case free:
			k.Grant = pr.jobs.GrantCopy(e.Shape, n.Seats)
			e.Shape.Leaf.Charge(k.Grant, 1)
			pr.place.Offer = ares.Placing{Job: e.Id, Seats: n.Seats, Score: pr.cluster.PairScore(n.Seats), Merit: pr.cluster.RationaleOf(n.Seats)}
			pr.place.Placed = append(pr.place.Placed, placement.PlacedJob{Entry: e, Seats: n.Seats})
			more = tell == nil || tell(e, &pr.place.Offer, true)
		default:
			k.Over = false
			k.Grant = pr.jobs.GrantCopy(e.Shape, n.Seats)
			k.Grant.ForShare = queue.Resources{}
			e.Shape.Leaf.Charge(k.Grant, 1)
			k.Held, k.FreeSeats = pr.txn.HoldSeats(n.Seats)
			pr.stopPendingVictims(plan, e)
			job.WakeBy(plan, n.Until)
		}
		pr.backfill.Holds = append(pr.backfill.Holds, k)
		pr.backfill.HoldsBefore = len(pr.backfill.Holds)
	}
	return more
}

// releaseNominations takes back what upholding has counted.
func (pr *preemptRound) releaseNominations() {
	for i := range pr.backfill.Holds[:pr.backfill.HoldsBefore] {
		k := &pr.backfill.Holds[i]
		k.Entry.Shape.Leaf.Charge(k.Grant, -1)
	}
	clear(pr.backfill.Holds)
	pr.backfill.Holds, pr.backfill.HoldsBefore = pr.backfill.Holds[:0], 0
}

// holdOf is the nomination of a job in this decision, nil for none.
func (pr *preemptRound) holdOf(e *job.Entry) *backfill.NominationHold {
	for i := len(pr.backfill.Holds) - 1; i >= 0; i-- { // one that was spoilt may have another by now
		if pr.backfill.Holds[i].Entry == e {
			return &pr.backfill.Holds[i]
		}
	}
	return nil
}

// withdrawFailed writes down which nominations are over without their jobs having a
// place, or other seats.
func (pr *preemptRound) withdrawFailed(plan *ares.Plan) {
	for i := range pr.backfill.Holds[:pr.backfill.HoldsBefore] {
		k := &pr.backfill.Holds[i]
		if k.Invalid == "" || slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == k.Entry.Id }) ||
			slices.ContainsFunc(plan.Nominate, func(n ares.Nominating) bool { return n.Job == k.Entry.Id }) {
			continue
		}
		plan.Withdraw = append(plan.Withdraw, ares.Withdrawing{Job: k.Entry.Id, Why: k.Invalid})
	}
}

// invalidReason says why a nomination has to be given up, "" when it has not.
func (pr *preemptRound) invalidReason(e *job.Entry, now time.Time) string {
	n := e.Run.Nominated
	switch {
	case !now.Before(n.Until):
		return "they were not free in time"
	case pr.cluster.Topology.Revision > e.Run.Revision:
		return "the topology has changed"
	}
	pr.windows.SetWindowTime(now)
	pr.windows.SetExpectedStay(e)
	f := pr.cluster.RefreshFeasible(e.Shape.Request)
	for i := range n.Seats {
		seat := &n.Seats[i]
		at := pr.cluster.NodesByID[seat.Node]
		if at == nil || !at.Schedulable() {
			return "node " + seat.Node + " takes no jobs any more"
		}
		if !f.Nodes.Has(at.Pos) {
			return "node " + seat.Node + " is not what it asks for any more"
		}
		if v := pr.windows.WindowBlocking(e.Shape, at); v != nil {
			return fmt.Sprintf("node %s is %s", seat.Node, pr.windows.BlockText(v))
		}
		for k := range seat.Shares {
			if d := at.DeviceIndex(&seat.Shares[k]); d < 0 || at.Usable&(1<<d) == 0 {
				return fmt.Sprintf("device %s of node %s cannot be used any more", seat.Shares[k].Device, seat.Node)
			}
		}
	}
	for i := range n.Victims {
		if v := pr.pendingVictim(&n.Victims[i]); v != nil && v.Run.Endures(v.Job) {
			return "one that was to give way has begun and must not be stopped" // it may be another tenant's
		}
	}
	return ""
}

// pendingVictim is the victim of a nomination that has not been asked to stop yet, nil
// when it has, or is gone already.
func (pr *preemptRound) pendingVictim(v *ares.Victim) *job.Entry {
	e := pr.jobs.EntryByID[v.Job]
	if e == nil || e.Job == nil || e.Run == nil || e.Run.Fence() != v.Fence || e.Run.Stop != nil {
		return nil
	}
	return e
}

// stopPendingVictims stops those of a nomination that are still to be: one plan may not have
// held them all.
func (pr *preemptRound) stopPendingVictims(plan *ares.Plan, e *job.Entry) {
	for i := range e.Run.Nominated.Victims {
		v := &e.Run.Nominated.Victims[i]
		if o := pr.pendingVictim(v); o != nil && !pr.stopVictim(plan, o, v.Yield) {
			return
		}
	}
}

// stopVictim has a job give way by this plan. It is false when the plan is full.
func (pr *preemptRound) stopVictim(plan *ares.Plan, v *job.Entry, y ares.Yield) bool {
	if slices.Contains(pr.stopping, v) || pr.jobs.ArrayIsStopping(v) {
		return true
	}
	if len(plan.Stop) >= config.MaxPlacings {
		plan.Wake = plan.Now
		return false
	}
	pr.stopping = append(pr.stopping, v)
	plan.Stop = append(plan.Stop, ares.Stopping{Job: v.Id, Stop: ares.Stop{Why: ares.StopPreempt, By: "job " + string(y.To), At: plan.Now, Yield: &y}})
	return true
}

// placeElsewhere places a job for which seats are kept somewhere else, if it fits
// there now. What is held for it counts as free.
func (pr *preemptRound) placeElsewhere(pass *queue.Round[*job.Entry], k *backfill.NominationHold, now time.Time) bool {
	sh, m := k.Entry.Shape, cluster.Savepoint(len(pr.txn.Deltas))
	pr.place.Speculative = true
	defer func() { pr.place.Speculative = false }()
	pr.txn.Release(k.Held)
	pass.ChargeOutOfTurn(sh.Leaf, k.Grant, -1)
	ok := false
	if members, ban := pr.jobs.AdmissibleMembers(sh, now); members >= len(k.Seats) {
		pr.scorer.BeginJob(k.Entry.Id, 0)
		pr.place.Offer, ok = pr.place.PlaceJob(sh, members, ban, k.Entry)
	}
	if !ok || len(pr.place.Offer.Seats) < len(k.Seats) {
		pr.txn.Undo(m)
		pass.ChargeOutOfTurn(sh.Leaf, k.Grant, 1)
		return false
	}
	k.Over = true
	pr.place.Offer.Job = k.Entry.Id
	pr.place.Placed = append(pr.place.Placed, placement.PlacedJob{Entry: k.Entry, Seats: pr.place.Offer.Seats})
	return true
}

// waitBlocker says how far the seats that are kept for a job are free.
func waitBlocker(k *backfill.NominationHold) ares.Blocker {
	return ares.Blocker{Kind: job.KindPreemption, Detail: fmt.Sprintf("others give way to it: %d of %d seats are free", k.FreeSeats, len(k.Seats))}
}

// hasHold says whether seats are kept for the job in this decision.
func (pr *preemptRound) hasHold(e *job.Entry) bool {
	k := pr.holdOf(e)
	return k != nil && !k.Over
}
