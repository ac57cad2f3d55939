package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/job"
)

// A job that is moved is promised another place. Until it has it, a place is kept
// for it in every decision: while it stops, while it waits to be placed again, and
// for no longer than keepFor after it stopped.

// HoldForMigrating takes a place for each one that is being moved, but for one of them.
func (pr *Round) HoldForMigrating(now time.Time, but *job.Entry) {
	for _, e := range pr.Jobs.Migrating {
		if e == but || !e.HoldsDestination(now) || pr.Jobs.ArrayIsStopping(e) || e.Run.Nominated != nil {
			continue
		}
		has := len(e.Run.Last().Seats)
		members, ban := e.Shape.Members, uint64(0)
		if e.Run.Current() == nil { // else its own counts against it yet
			members, ban = pr.Jobs.AdmissibleMembers(e.Shape, now)
		}
		if members < e.Shape.MinMembers {
			continue
		}
		pr.Place.Speculative = true
		m := pr.Txn.Mark()
		_, ok := pr.Place.PlaceJob(e.Shape, min(has, members), ban, e)
		pr.Place.Speculative = false
		if ok {
			pr.restartHolds = append(pr.restartHolds, restartHold{entry: e, hold: pr.Txn.HoldSince(m)})
		}
	}
}

// holdDestinations takes the places of those who are being moved, where all are gone who are
// being stopped, they themselves too: a place of theirs may be in part what they still
// sit on, and is nobody else's for that.
func (pr *Round) holdDestinations() {
	for i := range pr.destinations {
		pr.Txn.Release(pr.destinations[i].Hold)
		pr.Txn.HoldSeats(pr.destinations[i].Seats)
	}
	for _, e := range pr.Jobs.Migrating {
		kept := slices.ContainsFunc(pr.restartHolds, func(g restartHold) bool { return g.entry == e })
		if kept || e.Run.Current() == nil || pr.Jobs.ArrayIsStopping(e) {
			continue
		}
		pr.Place.PlaceJob(e.Shape, len(e.Run.Current().Seats), 0, e)
	}
}
