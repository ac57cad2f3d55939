package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// A gang that loses a node is stopped as a whole, and placed again when all its
// seats are settled. Its living ranks die one by one meanwhile. Decisions leave
// alone what they left, until the last of them is dead and then for the gang until
// it had its turn: it had been placed, and moves as few members as the rules allow.
// Somebody who took one of the seats would force it to move altogether. Nothing is
// kept for one that would find no place even so. The accounts know nothing of this:
// what somebody else has been given by then is his.

// restartHold is what is kept in a decision for a gang that lost a node.
type restartHold struct {
	entry    *job.Entry
	hold     cluster.Hold
	released bool // its turn has come
}

// HoldForRestarts takes the seats that are kept for gangs, but for one of them.
func (pr *Round) HoldForRestarts(now time.Time, but *job.Entry) {
	for _, e := range pr.Jobs.Restarting {
		if e == but || e.Run.Nominated != nil || !e.HoldsSeats(now) || !e.IsRestarting() && !pr.wouldFit(e, now) {
			continue
		}
		m, last := pr.Txn.Mark(), e.Run.Last()
		for i := range last.Seats {
			seat := &last.Seats[i].Seat
			if last.Seats[i].State.Free() && pr.Cluster.NodesByID[seat.Node].SeatIsFree(seat) {
				pr.Txn.TakeSeats([]ares.Seat{*seat})
			}
		}
		pr.restartHolds = append(pr.restartHolds, restartHold{entry: e, hold: pr.Txn.HoldSince(m)})
	}
}

// wouldFit says whether a gang would find a place if it were its turn.
func (pr *Round) wouldFit(e *job.Entry, now time.Time) bool {
	members, ban := pr.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || pr.Jobs.ArrayIsStopping(e) {
		return false
	}
	m := pr.Txn.Mark()
	_, ok := pr.Place.PlaceJob(e.Shape, members, ban, e)
	pr.Txn.Undo(m)
	return ok
}

// restartPending says whether seats are kept for a gang whose turn is still to come in this
// decision.
func (pr *Round) restartPending() bool {
	return slices.ContainsFunc(pr.restartHolds, func(g restartHold) bool { return !g.released && g.entry.Queue == job.InPending && g.entry.IsSettled() })
}

// ReleaseToGang gives a gang whose turn it is what was kept for it. If it does not take
// it, those behind it may.
func (pr *Round) ReleaseToGang(e *job.Entry) {
	at := slices.IndexFunc(pr.restartHolds, func(g restartHold) bool { return g.entry == e && !g.released })
	if at < 0 {
		return
	}
	pr.Txn.Release(pr.restartHolds[at].hold)
	pr.restartHolds[at].released = true
	pr.Place.Epoch++ // what asked in vain so far may find room now
}

// WakeWhenHoldsEnd has the plan wake when seats are no longer kept for a gang it does not
// place, if somebody waits.
func (pr *Round) WakeWhenHoldsEnd(plan *ares.Plan, now time.Time) {
	if len(plan.Refuse) == 0 {
		return
	}
	for i := range pr.restartHolds {
		e := pr.restartHolds[i].entry
		if !e.Run.Settled() {
			continue // an event will say when
		}
		if until, _ := e.HeldUntil(now); !slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == e.ID }) {
			job.WakeBy(plan, until)
		}
	}
}
