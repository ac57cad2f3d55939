package preempt

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/queue"
)

// AdvanceNominations handles every nomination before capacity is offered to the queues. If all seats of a nominated
// job are free, the job is placed. An invalid nomination ends, and its job then waits like any other job. For every
// other nomination, the free parts of its seats are held. Its victims are stopped if they were not stopped yet. If
// the parameter `except` is not nil, AdvanceNominations skips the nomination of this job. AdvanceNominations
// charges the queues, and ReleaseNominations undoes these charges.
func (r *Round) AdvanceNominations(plan *ares.Plan, except *job.Entry, report func(*job.Entry, *ares.Placing, bool) bool) (more bool) {
	more = true
	for _, e := range r.Jobs.Running.Nominated {
		if e == except || e.Queue != job.InPending || r.Jobs.ArrayIsStopping(e) {
			continue // an event will follow
		}
		n := e.Run.Nominated
		hold := backfill.NominationHold{Entry: e, Seats: n.Seats, Until: n.Until, Over: true}
		why := r.invalidReason(e, plan.Now)
		mark := r.Txn.Mark()
		free := why == "" && more && r.Txn.TakeIfFree(n.Seats)
		if free && !r.Jobs.AdmitsSeats(e.Shape, n.Seats, plan.Now) {
			// The stopping jobs may still hold the quota that this job lacks. If the nomination ended now, this job
			// or another job would immediately get the same nomination.
			r.Txn.Undo(mark)
			free = false
		}
		switch {
		case why != "":
			hold.Invalid = why
		case free:
			hold.Grant = r.Jobs.AllocationCopy(e.Shape, n.Seats)
			e.Shape.Leaf.Charge(hold.Grant, 1)
			r.Place.Offer = ares.Placing{Job: e.ID, Seats: n.Seats, Score: r.Cluster.PairScore(n.Seats), PlacementScore: r.Cluster.RationaleOf(n.Seats)}
			r.Place.Placed = append(r.Place.Placed, placement.PlacedJob{Entry: e, Seats: n.Seats})
			more = report == nil || report(e, &r.Place.Offer, true)
		default:
			hold.Over = false
			hold.Grant = r.Jobs.AllocationCopy(e.Shape, n.Seats)
			hold.Grant.ForShare = queue.Resources{}
			e.Shape.Leaf.Charge(hold.Grant, 1)
			hold.Hold, hold.FreeSeats = r.Txn.HoldSeats(n.Seats)
			r.stopPendingVictims(plan, e)
			job.WakeBy(plan, n.Until)
		}
		r.Backfill.Holds = append(r.Backfill.Holds, hold)
		r.Backfill.HoldsBefore = len(r.Backfill.Holds)
	}
	return more
}

// ReleaseNominations undoes the charges of AdvanceNominations.
func (r *Round) ReleaseNominations() {
	for i := range r.Backfill.Holds[:r.Backfill.HoldsBefore] {
		hold := &r.Backfill.Holds[i]
		hold.Entry.Shape.Leaf.Charge(hold.Grant, -1)
	}
	clear(r.Backfill.Holds)
	r.Backfill.Holds, r.Backfill.HoldsBefore = r.Backfill.Holds[:0], 0
}

// HoldOf returns the nomination of a job in this cycle, or nil if it has none.
func (r *Round) HoldOf(e *job.Entry) *backfill.NominationHold {
	for i := len(r.Backfill.Holds) - 1; i >= 0; i-- { // a job with an invalid nomination may have a newer one
		if r.Backfill.Holds[i].Entry == e {
			return &r.Backfill.Holds[i]
		}
	}
	return nil
}

// HasHold reports whether seats are held for a nominated job in this cycle.
func (r *Round) HasHold(e *job.Entry) bool {
	hold := r.HoldOf(e)
	return hold != nil && !hold.Over
}

// WithdrawFailed withdraws the invalid nominations of jobs that this plan neither places
// nor nominates again.
func (r *Round) WithdrawFailed(plan *ares.Plan) {
	for i := range r.Backfill.Holds[:r.Backfill.HoldsBefore] {
		hold := &r.Backfill.Holds[i]
		if hold.Invalid == "" || slices.ContainsFunc(plan.Place, func(placing ares.Placing) bool { return placing.Job == hold.Entry.ID }) ||
			slices.ContainsFunc(plan.Nominate, func(n ares.Nominating) bool { return n.Job == hold.Entry.ID }) {
			continue
		}
		plan.Withdraw = append(plan.Withdraw, ares.Withdrawing{Job: hold.Entry.ID, Why: hold.Invalid})
	}
}

// invalidReason returns why a nomination must be withdrawn, or "" if it is valid. The reason is stored with the
// job, so it must not name jobs or other objects of another tenant.
func (r *Round) invalidReason(e *job.Entry, now time.Time) string {
	n := e.Run.Nominated
	switch {
	case !now.Before(n.Until):
		return "the devices were not free in time"
	case r.Cluster.Topology.Revision > e.Run.Revision:
		return "the topology changed"
	}
	stay := r.Windows.StayOf(e, now)
	f := r.Cluster.RefreshFeasible(e.Shape.Request)
	for i := range n.Seats {
		seat := &n.Seats[i]
		at := r.Cluster.NodesByID[seat.Node]
		if at == nil || !at.Schedulable() {
			return "node " + seat.Node + " no longer accepts jobs"
		}
		if !f.Nodes.Has(at.Pos) {
			return "node " + seat.Node + " no longer matches its request"
		}
		if v := r.Windows.WindowBlocking(e.Shape, at, stay); v != nil {
			return fmt.Sprintf("node %s is %s", seat.Node, v.BlockText(stay).Render(ares.OwnedBy(e.Job.Tenant)))
		}
		for k := range seat.Shares {
			if d := at.DeviceIndex(&seat.Shares[k]); d < 0 || at.Usable&(1<<d) == 0 {
				return fmt.Sprintf("device %s of node %s is no longer usable", seat.Shares[k].Device, seat.Node)
			}
		}
	}
	if e.Shape.Wish.OneModel && r.Cluster.ModelCount(n.Seats) > 1 { // an earlier version of Ares nominated it
		return "its devices have different models"
	}
	for i := range n.Victims {
		switch v := r.pendingVictim(&n.Victims[i]); { // not named: it may be of another tenant
		case v == nil:
		case v.Run.MustFinish(v.Job):
			return "a job to be preempted has started and runs at most once"
		case r.Jobs.Protection(v.ID) != nil:
			return "a job to be preempted is now protected from preemption"
		}
	}
	return ""
}

// pendingVictim returns the job of a victim that was not asked to stop yet. The result is nil if the victim was
// asked to stop or has already stopped.
func (r *Round) pendingVictim(v *ares.Victim) *job.Entry {
	e := r.Jobs.EntryByID[v.Job]
	if e == nil || e.Job == nil || e.Run == nil || e.Run.Fence() != v.Fence || e.Run.Stop != nil {
		return nil
	}
	return e
}

// An earlier plan may have been too full to stop all victims of a nomination.
// stopPendingVictims stops the remaining ones.
func (r *Round) stopPendingVictims(plan *ares.Plan, e *job.Entry) {
	for i := range e.Run.Nominated.Victims {
		v := &e.Run.Nominated.Victims[i]
		if o := r.pendingVictim(v); o != nil && !r.stopVictim(plan, o, v.Preemption) {
			return
		}
	}
}

// stopVictim adds the stop of a victim to the plan. If the plan is full, stopVictim returns false.
func (r *Round) stopVictim(plan *ares.Plan, v *job.Entry, preemption ares.Preemption) bool {
	if slices.Contains(r.Stopping, v) || r.Jobs.ArrayIsStopping(v) {
		return true
	}
	if len(plan.Stop) >= config.MaxPlacings {
		plan.Wake = plan.Now
		return false
	}
	r.Stopping = append(r.Stopping, v)
	plan.Stop = append(plan.Stop, ares.Stopping{Job: v.ID, Stop: ares.Stop{Why: ares.StopPreempt, By: "job " + string(preemption.To), At: plan.Now, Preemption: &preemption}})
	return true
}

// PlaceElsewhere places a nominated job on other seats if it fits there now and delays no backfill reservation.
// Capacity that is held for the nominated job counts as free.
func (r *Round) PlaceElsewhere(round *queue.Round[*job.Entry], hold *backfill.NominationHold, now time.Time) bool {
	// Hold the reservations that this job must not delay. The reservations that were held so far were chosen
	// for the previous job.
	r.Backfill.HoldReservations(r.Backfill.DelayedReservations(hold.Entry.EndsBy(now)))
	sh, mark := hold.Entry.Shape, r.Txn.Mark()
	r.Txn.Release(hold.Hold)
	round.ChargeOutOfTurn(sh.Leaf, hold.Grant, -1)
	ok := false
	if members, ban := r.Jobs.AdmissibleMembers(sh, now); members >= len(hold.Seats) {
		r.Scorer.BeginJob(hold.Entry.ID, 0)
		r.Place.Offer, ok = r.Place.TryPlace(sh, members, ban, hold.Entry, r.Place.StayOf(hold.Entry))
	}
	if !ok || len(r.Place.Offer.Seats) < len(hold.Seats) {
		r.Txn.Undo(mark)
		round.ChargeOutOfTurn(sh.Leaf, hold.Grant, 1)
		return false
	}
	hold.Over = true
	r.Place.Offer.Job = hold.Entry.ID
	r.Place.Placed = append(r.Place.Placed, placement.PlacedJob{Entry: hold.Entry, Seats: r.Place.Offer.Seats})
	return true
}

// WaitBlocker returns a blocker that says how many ranks of a nominated job already have free devices.
func WaitBlocker(hold *backfill.NominationHold) ares.Blocker {
	return ares.Blocker{Kind: ares.BlockerPreemption, Detail: ares.Textf("waiting for other jobs to stop: devices are free for %d of %d ranks", hold.FreeSeats, len(hold.Seats))}
}

// The lifetime of a nomination is the longest expected stop time plus stopMargin. Stop requests take time to arrive,
// and processes take time to exit.
const stopMargin = time.Minute

// newNomination returns the record of a job's nomination.
func (r *Round) newNomination(e *job.Entry, sel *victimSelection, now time.Time) *ares.Nomination {
	milli := job.GPUMilliOf(sel.seats)
	slices.SortFunc(sel.victims, bySize)
	n := &ares.Nomination{Seats: sel.seats, Why: sel.reason, At: now}
	for _, v := range sel.victims {
		sel.freeWithin = max(sel.freeWithin, maxStopTime(v.entry))
		n.Victims = append(n.Victims, ares.Victim{Job: v.entry.ID, Fence: v.entry.Run.Fence(), Preemption: ares.Preemption{
			To: e.ID, Tenant: e.Job.Tenant, Why: v.reason, Milli: v.milli, Lost: v.cost, Asked: milli,
			Restart: v.milli * int64(r.Cfg.Preemption.Restart/time.Second),
		}})
	}
	n.Until = now.Add(sel.freeWithin + stopMargin)
	return n
}

// The method `nominate` adds a nomination and the stops of its victims to the plan, and
// holds the seats.
func (r *Round) nominate(round *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, sel *victimSelection) {
	n := *r.newNomination(e, sel, plan.Now)
	plan.Nominate = append(plan.Nominate, ares.Nominating{Job: e.ID, Nomination: n})
	job.WakeBy(plan, n.Until)
	for i := range n.Victims {
		if !r.stopVictim(plan, sel.victims[i].entry, n.Victims[i].Preemption) {
			break
		}
	}
	hold := backfill.NominationHold{Entry: e, Seats: sel.seats, Until: n.Until, Grant: r.Jobs.AllocationCopy(e.Shape, sel.seats)}
	hold.Hold, hold.FreeSeats = r.Txn.HoldSeats(sel.seats)
	if sel.reason == ares.PreemptByMove {
		r.recordConsolidation(e, sel)
	}
	round.ChargeOutOfTurn(e.Shape.Leaf, hold.Grant, 1)
	r.Backfill.Holds = append(r.Backfill.Holds, hold)
}
