package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// A job that is moved is promised another place. Until it has it, a place is kept
// for it in every decision: while it stops, while it waits to be placed again, and
// for no longer than keepFor after it stopped.

// isMove says whether a yield is a move.
func isMove(y *ares.Yield) bool { return y != nil && y.Why == ares.YieldMove }

// isMigrating says whether the job is being moved: it stops for that, or has stopped
// and has no place again yet.
func (e *entry) isMigrating() bool {
	if e.job == nil || e.run == nil {
		return false
	}
	if e.run.Current() != nil {
		return e.run.Stop != nil && isMove(e.run.Stop.Yield)
	}
	last := e.run.Last()
	return last != nil && isMove(last.Yield) && (e.run.Phase == ares.Pending || e.run.Phase == ares.Preempted)
}

// updateMigrating notes whether an entry is one of those who are being moved.
func (j *jobTable) updateMigrating(e *entry) {
	at, known := slices.BinarySearchFunc(j.migrating, e, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	switch wants := e.isMigrating(); {
	case wants && !known:
		j.migrating = slices.Insert(j.migrating, at, e)
	case wants:
		j.migrating[at] = e // a job of that ID may have gone and come again
	case known && j.migrating[at] == e:
		j.migrating = slices.Delete(j.migrating, at, at+1)
	}
}

// holdsDestination says whether a place is kept for one that is being moved. A clock that is far
// off keeps nothing.
func (e *entry) holdsDestination(now time.Time) bool {
	if e.run.Current() != nil {
		return true
	}
	_, due := e.heldUntil(now)
	return due
}

// migrationPending says whether somebody is being moved.
func (j *jobTable) migrationPending(now time.Time) bool {
	return slices.ContainsFunc(j.migrating, func(e *entry) bool { return e.holdsDestination(now) })
}

// holdForMigrating takes a place for each one that is being moved, but for one of them.
func (pr *preemptRound) holdForMigrating(now time.Time, but *entry) {
	for _, e := range pr.jobs.migrating {
		if e == but || !e.holdsDestination(now) || pr.jobs.arrayIsStopping(e) || e.run.Nominated != nil {
			continue
		}
		has := len(e.run.Last().Seats)
		members, ban := e.shape.members, uint64(0)
		if e.run.Current() == nil { // else its own counts against it yet
			members, ban = pr.jobs.admissibleMembers(e.shape, now)
		}
		if members < e.shape.minMembers {
			continue
		}
		pr.place.speculative = true
		p, ok := pr.place.placeJob(e.shape, min(has, members), ban, e)
		pr.place.speculative = false
		if !ok {
			continue
		}
		g := restartHold{entry: e}
		for i := range p.Seats {
			g.seats = append(g.seats, &p.Seats[i])
		}
		pr.restartHolds = append(pr.restartHolds, g)
	}
}

// holdDestinations takes the places of those who are being moved, where all are gone who are
// being stopped, they themselves too: a place of theirs may be in part what they still
// sit on, and is nobody else's for that.
func (pr *preemptRound) holdDestinations() {
	for i := range pr.destinations {
		pr.txn.releaseHold(&pr.destinations[i])
		pr.txn.holdSeats(pr.destinations[i].seats)
	}
	for _, e := range pr.jobs.migrating {
		kept := slices.ContainsFunc(pr.restartHolds, func(g restartHold) bool { return g.entry == e })
		if kept || e.run.Current() == nil || pr.jobs.arrayIsStopping(e) {
			continue
		}
		pr.place.placeJob(e.shape, len(e.run.Current().Seats), 0, e)
	}
}
