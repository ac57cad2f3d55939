package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/job"
)

// A moved job gets other seats. Every cycle holds capacity for it while it stops on its old seats, and for a
// limited time afterwards (see job.Entry.HoldsDestination).

// HoldForMigrating holds capacity for each job that is being moved, except for the given job.
func (r *Round) HoldForMigrating(now time.Time, except *job.Entry) {
	for _, e := range r.Jobs.Migrating {
		if e == except || !e.HoldsDestination(now) || r.Jobs.ArrayIsStopping(e) || e.Run.Nominated != nil || e.Run.IsHeld(e.Job) {
			continue
		}
		has := len(e.Run.Last().Seats)
		members, ban := e.Shape.Members, uint64(0)
		if e.Run.Current() == nil { // otherwise its own allocation still counts against its limits
			members, ban = r.Jobs.AdmissibleMembers(e.Shape, now)
		}
		if members < e.Shape.MinMembers {
			continue
		}
		mark := r.Txn.Mark()
		_, ok := r.Place.TryPlace(e.Shape, min(has, members), ban, e, r.Place.StayOf(e))
		if ok {
			r.restartHolds = append(r.restartHolds, restartHold{entry: e, hold: r.Txn.HoldSince(mark)})
		}
	}
}

// holdDestinations holds the new seats of jobs that are being moved. holdDestinations assumes that all stopping
// jobs have already ended, including the moved jobs. So the new seat of one moved job may use devices of another
// moved job's old seat.
func (r *Round) holdDestinations() {
	for i := range r.destinations {
		r.Txn.Release(r.destinations[i].Hold)
		r.Txn.HoldSeats(r.destinations[i].Seats)
	}
	for _, e := range r.Jobs.Migrating {
		held := slices.ContainsFunc(r.restartHolds, func(hold restartHold) bool { return hold.entry == e })
		if held || e.Run.Current() == nil || r.Jobs.ArrayIsStopping(e) {
			continue
		}
		r.Place.TryPlace(e.Shape, len(e.Run.Current().Seats), 0, e, r.Place.StayOf(e))
	}
}
