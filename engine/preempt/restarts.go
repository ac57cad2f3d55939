package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// A gang that loses a node is stopped as a whole, and placed again when no process of the stopped attempt can still
// be alive. Before the gang is placed again, its surviving ranks stop one by one. The freed seats are held so that
// as few members as possible move. They are held until the last rank has stopped and the cycle has considered the
// gang. If another job took one of the freed seats, the whole gang might have to move. No seats are held for a gang
// that would not fit anyway. Queues are not charged for capacity that is held for restarting gangs.

// restartHold is the capacity that one cycle holds for a gang that lost a node, or for a job that is being moved.
type restartHold struct {
	entry    *job.Entry
	hold     cluster.Hold
	released bool // the gang was offered in this cycle
}

// HoldForRestarts holds the free seats of every restarting gang except the given job.
func (r *Round) HoldForRestarts(now time.Time, except *job.Entry) {
	for _, e := range r.Jobs.Restarting {
		if e == except || e.Run.Nominated != nil || e.Run.IsHeld(e.Job) || !e.HoldsSeats(now) || !e.IsRestarting() && !r.wouldFit(e, now) {
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

// wouldFit reports whether a gang would fit if it were placed now.
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

// restartIsPending reports whether seats are held for a gang that this cycle has not
// considered yet.
func (r *Round) restartIsPending() bool {
	return slices.ContainsFunc(r.restartHolds, func(hold restartHold) bool {
		return !hold.released && hold.entry.Queue == job.InPending && hold.entry.IsSettled()
	})
}

// ReleaseToGang releases the capacity that is held for a gang, when the cycle considers this gang. Capacity
// that the gang does not use is free for later jobs.
func (r *Round) ReleaseToGang(e *job.Entry) {
	at := slices.IndexFunc(r.restartHolds, func(hold restartHold) bool { return hold.entry == e && !hold.released })
	if at < 0 {
		return
	}
	r.Txn.Release(r.restartHolds[at].hold)
	r.restartHolds[at].released = true
	r.Place.Epoch++ // jobs that did not fit may fit now
}

// WakeWhenHoldsEnd sets the wake-up time of the plan if at least one job waits. It ignores the holds of gangs that
// this plan places. The wake-up time is the earliest end of the other holds.
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
