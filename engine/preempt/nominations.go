package preempt

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// AdvanceNominations looks after every nomination before anybody has his turn. Who finds
// his seats free is placed there. Who cannot have them any more gives them up,
// and has his turn as any other.
// For the others what is free is held, and those who are still to give way are
// stopped. One job may be left out. What it counts for leaves is taken back by letGo.
func (pr *Round) AdvanceNominations(plan *ares.Plan, but *job.Entry, tell func(*job.Entry, *ares.Placing, bool) bool) (more bool) {
	more = true
	for _, e := range pr.Jobs.Running.Nominated {
		if e == but || e.Queue != job.InPending || pr.Jobs.ArrayIsStopping(e) {
			continue // an event will say what becomes of it
		}
		n := e.Run.Nominated
		k := backfill.NominationHold{Entry: e, Seats: n.Seats, Until: n.Until, Over: true}
		why := pr.invalidReason(e, plan.Now)
		m := pr.Txn.Mark()
		free := why == "" && more && pr.Txn.TakeIfFree(n.Seats)
		if free && !pr.Jobs.AdmitsSeats(e.Shape, n.Seats, plan.Now) {
			// Those who are on their way out may hold what it lacks elsewhere. Were
			// the seats given up, it or another would have them kept again at once.
			pr.Txn.Undo(m)
			free = false
		}
		switch {
		case why != "":
			k.Invalid = why
		case free:
			k.Grant = pr.Jobs.GrantCopy(e.Shape, n.Seats)
			e.Shape.Leaf.Charge(k.Grant, 1)
			pr.Place.Offer = ares.Placing{Job: e.ID, Seats: n.Seats, Score: pr.Cluster.PairScore(n.Seats), Merit: pr.Cluster.RationaleOf(n.Seats)}
			pr.Place.Placed = append(pr.Place.Placed, placement.PlacedJob{Entry: e, Seats: n.Seats})
			more = tell == nil || tell(e, &pr.Place.Offer, true)
		default:
			k.Over = false
			k.Grant = pr.Jobs.GrantCopy(e.Shape, n.Seats)
			k.Grant.ForShare = queue.Resources{}
			e.Shape.Leaf.Charge(k.Grant, 1)
			k.Hold, k.FreeSeats = pr.Txn.HoldSeats(n.Seats)
			pr.stopPendingVictims(plan, e)
			job.WakeBy(plan, n.Until)
		}
		pr.Backfill.Holds = append(pr.Backfill.Holds, k)
		pr.Backfill.HoldsBefore = len(pr.Backfill.Holds)
	}
	return more
}

// ReleaseNominations takes back what upholding has counted.
func (pr *Round) ReleaseNominations() {
	for i := range pr.Backfill.Holds[:pr.Backfill.HoldsBefore] {
		k := &pr.Backfill.Holds[i]
		k.Entry.Shape.Leaf.Charge(k.Grant, -1)
	}
	clear(pr.Backfill.Holds)
	pr.Backfill.Holds, pr.Backfill.HoldsBefore = pr.Backfill.Holds[:0], 0
}

// HoldOf is the nomination of a job in this decision, nil for none.
func (pr *Round) HoldOf(e *job.Entry) *backfill.NominationHold {
	for i := len(pr.Backfill.Holds) - 1; i >= 0; i-- { // one that was spoilt may have another by now
		if pr.Backfill.Holds[i].Entry == e {
			return &pr.Backfill.Holds[i]
		}
	}
	return nil
}

// WithdrawFailed writes down which nominations are over without their jobs having a
// place, or other seats.
func (pr *Round) WithdrawFailed(plan *ares.Plan) {
	for i := range pr.Backfill.Holds[:pr.Backfill.HoldsBefore] {
		k := &pr.Backfill.Holds[i]
		if k.Invalid == "" || slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == k.Entry.ID }) ||
			slices.ContainsFunc(plan.Nominate, func(n ares.Nominating) bool { return n.Job == k.Entry.ID }) {
			continue
		}
		plan.Withdraw = append(plan.Withdraw, ares.Withdrawing{Job: k.Entry.ID, Why: k.Invalid})
	}
}

// invalidReason says why a nomination has to be given up, "" when it has not.
func (pr *Round) invalidReason(e *job.Entry, now time.Time) string {
	n := e.Run.Nominated
	switch {
	case !now.Before(n.Until):
		return "they were not free in time"
	case pr.Cluster.Topology.Revision > e.Run.Revision:
		return "the topology has changed"
	}
	pr.Windows.SetWindowTime(now)
	pr.Windows.SetExpectedStay(e)
	f := pr.Cluster.RefreshFeasible(e.Shape.Request)
	for i := range n.Seats {
		seat := &n.Seats[i]
		at := pr.Cluster.NodesByID[seat.Node]
		if at == nil || !at.Schedulable() {
			return "node " + seat.Node + " takes no jobs any more"
		}
		if !f.Nodes.Has(at.Pos) {
			return "node " + seat.Node + " is not what it asks for any more"
		}
		if v := pr.Windows.WindowBlocking(e.Shape, at); v != nil {
			return fmt.Sprintf("node %s is %s", seat.Node, pr.Windows.BlockText(v))
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
func (pr *Round) pendingVictim(v *ares.Victim) *job.Entry {
	e := pr.Jobs.EntryByID[v.Job]
	if e == nil || e.Job == nil || e.Run == nil || e.Run.Fence() != v.Fence || e.Run.Stop != nil {
		return nil
	}
	return e
}

// stopPendingVictims stops those of a nomination that are still to be: one plan may not have
// held them all.
func (pr *Round) stopPendingVictims(plan *ares.Plan, e *job.Entry) {
	for i := range e.Run.Nominated.Victims {
		v := &e.Run.Nominated.Victims[i]
		if o := pr.pendingVictim(v); o != nil && !pr.stopVictim(plan, o, v.Yield) {
			return
		}
	}
}

// stopVictim has a job give way by this plan. It is false when the plan is full.
func (pr *Round) stopVictim(plan *ares.Plan, v *job.Entry, y ares.Yield) bool {
	if slices.Contains(pr.Stopping, v) || pr.Jobs.ArrayIsStopping(v) {
		return true
	}
	if len(plan.Stop) >= config.MaxPlacings {
		plan.Wake = plan.Now
		return false
	}
	pr.Stopping = append(pr.Stopping, v)
	plan.Stop = append(plan.Stop, ares.Stopping{Job: v.ID, Stop: ares.Stop{Why: ares.StopPreempt, By: "job " + string(y.To), At: plan.Now, Yield: &y}})
	return true
}

// PlaceElsewhere places a job for which seats are kept somewhere else, if it fits
// there now. What is held for it counts as free.
func (pr *Round) PlaceElsewhere(pass *queue.Round[*job.Entry], k *backfill.NominationHold, now time.Time) bool {
	sh, m := k.Entry.Shape, pr.Txn.Mark()
	pr.Place.Speculative = true
	defer func() { pr.Place.Speculative = false }()
	pr.Txn.Release(k.Hold)
	pass.ChargeOutOfTurn(sh.Leaf, k.Grant, -1)
	ok := false
	if members, ban := pr.Jobs.AdmissibleMembers(sh, now); members >= len(k.Seats) {
		pr.Scorer.BeginJob(k.Entry.ID, 0)
		pr.Place.Offer, ok = pr.Place.PlaceJob(sh, members, ban, k.Entry)
	}
	if !ok || len(pr.Place.Offer.Seats) < len(k.Seats) {
		pr.Txn.Undo(m)
		pass.ChargeOutOfTurn(sh.Leaf, k.Grant, 1)
		return false
	}
	k.Over = true
	pr.Place.Offer.Job = k.Entry.ID
	pr.Place.Placed = append(pr.Place.Placed, placement.PlacedJob{Entry: k.Entry, Seats: pr.Place.Offer.Seats})
	return true
}

// WaitBlocker says how far the seats that are kept for a job are free.
func WaitBlocker(k *backfill.NominationHold) ares.Blocker {
	return ares.Blocker{Kind: ares.BlockerPreemption, Detail: fmt.Sprintf("others give way to it: %d of %d seats are free", k.FreeSeats, len(k.Seats))}
}

// HasHold says whether seats are kept for the job in this decision.
func (pr *Round) HasHold(e *job.Entry) bool {
	k := pr.HoldOf(e)
	return k != nil && !k.Over
}
