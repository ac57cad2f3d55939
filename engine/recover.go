package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// A gang that loses a node is stopped as a whole, and placed again when all its
// seats are settled. Its living ranks die one by one meanwhile. Decisions leave
// alone what they left, until the last of them is dead and then for the gang until
// it had its turn: it had been placed, and moves as few members as the rules allow.
// Somebody who took one of the seats would force it to move altogether. Nothing is
// kept for one that would find no place even so. The accounts know nothing of this:
// what somebody else has been given by then is his.

// holdFor is for how long after the end of a gang by the loss of a node those who
// come before it in the order leave it what it had on the others.
const holdFor = 2 * time.Minute

// isRestarting says whether the last attempt of a gang ends or ended because of its
// nodes, and some of the job's seats are not settled yet.
func (e *entry) isRestarting() bool {
	if e.run == nil || len(e.run.Attempts) == 0 {
		return false
	}
	a, stop := e.run.Last(), e.run.Stop
	again := e.run.Phase == ares.Pending || e.run.Phase == ares.Retrying
	switch {
	case len(a.Seats) < 2:
		return false
	case !a.Ended() && stop != nil && (stop.Why == ares.StopLost || stop.Why == ares.StopDrain):
	case a.Ended() && again && (a.Outcome == ares.OutcomeLost || a.Outcome == ares.OutcomeStopped):
	default:
		return false
	}
	return !e.run.Settled()
}

// keepRanksInPlace lets every rank that can stay on its node of the last attempt; the others
// follow in the order of the nodes. What a rank keeps on its node's disks is then
// where it was.
func (e *entry) keepRanksInPlace(seats []ares.Seat) {
	if e == nil || e.run == nil {
		return
	}
	last := e.run.Last()
	if last == nil {
		return
	}
	left := slices.Clone(seats)
	taken := make([]bool, len(seats))
	for rank := range seats {
		if rank >= len(last.Seats) {
			break
		}
		was := last.Seats[rank].Node
		if at := slices.IndexFunc(left, func(s ares.Seat) bool { return s.Node == was }); at >= 0 {
			seats[rank], taken[rank] = left[at], true
			left = slices.Delete(left, at, at+1)
		}
	}
	for rank := range seats {
		if !taken[rank] {
			seats[rank], left = left[0], left[1:]
		}
		seats[rank].Rank = rank
	}
}

// awaitsRestart says whether a gang lost a node, and is about to end or waits.
func (e *entry) awaitsRestart() bool {
	if e.isRestarting() {
		return true
	}
	if e.queue != inPending || e.run == nil {
		return false
	}
	last := e.run.Last()
	return last != nil && last.Outcome == ares.OutcomeLost && len(last.Seats) > 1
}

// updateRestarting notes whether an entry is one of the gangs that seats are kept for.
func (j *jobTable) updateRestarting(e *entry) {
	at, known := slices.BinarySearchFunc(j.restarting, e, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	switch wants := e.awaitsRestart(); {
	case wants && !known:
		j.restarting = slices.Insert(j.restarting, at, e)
	case wants:
		j.restarting[at] = e // a job of that ID may have gone and come again
	case known && j.restarting[at] == e:
		j.restarting = slices.Delete(j.restarting, at, at+1)
	}
}

// heldUntil is until when those who come before a regrouping gang that has ended
// leave it its seats, false when they need not. A clock that is far off keeps nothing.
func (e *entry) heldUntil(now time.Time) (time.Time, bool) {
	ended := e.run.Last().EndedAt
	return ended.Add(holdFor), now.Sub(ended).Abs() < holdFor
}

// restartHold is what is kept in a decision for a gang that lost a node.
type restartHold struct {
	entry    *entry
	seats    []*ares.Seat
	released bool // its turn has come
}

// holdForRestarts takes the seats that are kept for gangs, but for one of them.
func (pr *preemptRound) holdForRestarts(now time.Time, but *entry) {
	for _, e := range pr.jobs.restarting {
		if e == but || e.run.Nominated != nil || !e.holdsSeats(now) || !e.isRestarting() && !pr.wouldFit(e, now) {
			continue
		}
		g := restartHold{entry: e}
		last := e.run.Last()
		for i := range last.Seats {
			seat := &last.Seats[i].Seat
			if last.Seats[i].State.Free() && pr.cluster.nodesByID[seat.Node].seatIsFree(seat) {
				pr.txn.takeSeats([]ares.Seat{*seat})
				g.seats = append(g.seats, seat)
			}
		}
		pr.restartHolds = append(pr.restartHolds, g)
	}
}

// holdsSeats says whether seats are kept for a gang that lost a node: until the last of
// its ranks is dead, and for a while then.
func (e *entry) holdsSeats(now time.Time) bool {
	if e.isRestarting() {
		return true
	}
	_, due := e.heldUntil(now)
	return due
}

// wouldFit says whether a gang would find a place if it were its turn.
func (pr *preemptRound) wouldFit(e *entry, now time.Time) bool {
	members, ban := pr.jobs.admissibleMembers(e.shape, now)
	if members == 0 || pr.jobs.arrayIsStopping(e) {
		return false
	}
	m := savepoint(len(pr.txn.deltas))
	_, ok := pr.place.placeJob(e.shape, members, ban, e)
	pr.txn.undo(m)
	return ok
}

// restartPending says whether seats are kept for a gang whose turn is still to come in this
// decision.
func (pr *preemptRound) restartPending() bool {
	return slices.ContainsFunc(pr.restartHolds, func(g restartHold) bool { return !g.released && g.entry.queue == inPending && g.entry.isSettled() })
}

// releaseToGang gives a gang whose turn it is what was kept for it. If it does not take
// it, those behind it may.
func (pr *preemptRound) releaseToGang(e *entry) {
	at := slices.IndexFunc(pr.restartHolds, func(g restartHold) bool { return g.entry == e && !g.released })
	if at < 0 {
		return
	}
	pr.releaseRestartHold(&pr.restartHolds[at])
	pr.restartHolds[at].released = true
	pr.place.epoch++ // what asked in vain so far may find room now
}

// releaseRestartHold gives up what is kept for a gang.
func (pr *preemptRound) releaseRestartHold(g *restartHold) {
	for _, seat := range g.seats {
		n := pr.cluster.nodesByID[seat.Node]
		pr.txn.releaseSeat(n, seat)
		pr.cluster.capacityChanged(n)
	}
}

// wakeWhenHoldsEnd has the plan wake when seats are no longer kept for a gang it does not
// place, if somebody waits.
func (pr *preemptRound) wakeWhenHoldsEnd(plan *ares.Plan, now time.Time) {
	if len(plan.Refuse) == 0 {
		return
	}
	for i := range pr.restartHolds {
		e := pr.restartHolds[i].entry
		if !e.run.Settled() {
			continue // an event will say when
		}
		if until, _ := e.heldUntil(now); !slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == e.id }) {
			wakeBy(plan, until)
		}
	}
}

// anySeatsHeld says whether seats are kept for some gang, or one that is being moved.
func (j *jobTable) anySeatsHeld(now time.Time) bool {
	return j.migrationPending(now) || slices.ContainsFunc(j.restarting, func(e *entry) bool { return e.holdsSeats(now) })
}
