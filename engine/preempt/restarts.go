package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// A gang that loses a node is stopped as a whole, and placed again when all its seats are
// settled. Its surviving ranks stop one by one meanwhile. The freed seats are held for the
// gang until the last rank is gone, and then until the gang was offered: so it moves as
// few members as the rules allow. If another job took one of these seats, the whole gang
// might have to move. Nothing is held for a gang that would not fit anyway. Queues are not
// charged for these holds.

// restartHold is what is held in one cycle for a gang that lost a node, or for a job that
// is being moved.
type restartHold struct {
	entry    *job.Entry
	hold     cluster.Hold
	released bool // the gang was offered in this cycle
}

// HoldForRestarts holds the free seats of restarting gangs, except of one job.
func (r *Round) HoldForRestarts(now time.Time, except *job.Entry) {
	for _, e := range r.Jobs.Restarting {
		if e == except || e.Run.Nominated != nil || !e.HoldsSeats(now) || !e.IsRestarting() && !r.wouldFit(e, now) {
			continue
		}
		mark, last := r.Txn.Mark(), e.Run.Last()
		for i := range last.Seats {
			seat := &last.Seats[i].Seat
			if last.Seats[i].State.Free() && r.Cluster.NodesByID[seat.Node].SeatIsFree(seat) {
				r.Txn.TakeSeats([]ares.Seat{*seat})
			}
		}
		r.restartHolds = append(r.restartHolds, restartHold{entry: e, hold: r.Txn.HoldSince(mark)})
	}
}

// wouldFit reports whether a gang would fit if it were offered now.
func (r *Round) wouldFit(e *job.Entry, now time.Time) bool {
	members, ban := r.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || r.Jobs.ArrayIsStopping(e) {
		return false
	}
	mark := r.Txn.Mark()
	_, ok := r.Place.PlaceJob(e.Shape, members, ban, e, r.Place.StayOf(e))
	r.Txn.Undo(mark)
	return ok
}

// restartIsPending reports whether seats are held for a gang that was not offered yet in
// this cycle.
func (r *Round) restartIsPending() bool {
	return slices.ContainsFunc(r.restartHolds, func(hold restartHold) bool {
		return !hold.released && hold.entry.Queue == job.InPending && hold.entry.IsSettled()
	})
}

// ReleaseToGang releases what is held for a gang when the gang is offered. What it does
// not take is free for the jobs behind it.
func (r *Round) ReleaseToGang(e *job.Entry) {
	at := slices.IndexFunc(r.restartHolds, func(hold restartHold) bool { return hold.entry == e && !hold.released })
	if at < 0 {
		return
	}
	r.Txn.Release(r.restartHolds[at].hold)
	r.restartHolds[at].released = true
	r.Place.Epoch++ // jobs that did not fit may fit now
}

// WakeWhenHoldsEnd wakes the plan when the hold of a gang ends that the plan does not
// place, if any job waits.
func (r *Round) WakeWhenHoldsEnd(plan *ares.Plan, now time.Time) {
	if len(plan.Refuse) == 0 {
		return
	}
	for i := range r.restartHolds {
		e := r.restartHolds[i].entry
		if !e.Run.Settled() {
			continue // an event will follow
		}
		if until, _ := e.HeldUntil(now); !slices.ContainsFunc(plan.Place, func(placing ares.Placing) bool { return placing.Job == e.ID }) {
			job.WakeBy(plan, until)
		}
	}
}
