package preempt

import (
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// assumeStopsDone changes the cluster as if all stopping jobs had ended and all nominated jobs had been placed.
// Undoing the transaction restores the cluster's state, and chargeStopping(1) charges the queues for the stopping jobs again.
func (r *Round) assumeStopsDone() {
	r.chargeStopping(-1)
	for _, v := range r.Jobs.Running.Stopping {
		r.Place.ReleaseJob(v)
	}
	for _, v := range r.Stopping {
		r.Place.ReleaseJob(v)
	}
	for i := range r.restartHolds { // seats of a draining gang are held only until the gang has left
		if rh := &r.restartHolds[i]; !rh.released && rh.entry.RunningList == job.InStopping && rh.entry.Run.Stop.Why == ares.StopDrain {
			r.Txn.Release(rh.hold)
		}
	}
	for i := range r.Backfill.Holds {
		if hold := &r.Backfill.Holds[i]; !hold.Over {
			r.Txn.Release(hold.Hold)
			r.Txn.HoldSeats(hold.Seats)
		}
	}
	r.holdDestinations()
}

// chargeStopping charges the stopping jobs to their queues. If `sign` is -1, it removes
// these charges instead.
func (r *Round) chargeStopping(sign int) {
	for _, v := range r.Jobs.Running.Stopping {
		v.Shape.Leaf.Charge(v.Held.Allocation, sign)
	}
	for _, v := range r.Stopping {
		v.Shape.Leaf.Charge(v.Held.Allocation, sign)
	}
}

// fitsOnceStopped finds seats for a job that fits as soon as all stopping jobs have ended.
func (r *Round) fitsOnceStopped(e *job.Entry, why ares.PreemptionBasis, now time.Time) (victimSelection, bool) {
	if len(r.Jobs.Running.Stopping)+len(r.Stopping) == 0 {
		return victimSelection{}, false
	}
	members, ban := r.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return victimSelection{}, false
	}
	mark := r.Txn.Mark()
	placing, ok := r.Place.TryPlace(e.Shape, e.Shape.MinMembers, ban, e, r.Place.StayOf(e))
	r.Txn.Undo(mark)
	sel := victimSelection{reason: why, seats: placing.Seats}
	for _, v := range r.Jobs.Running.Stopping {
		sel.freeWithin = max(sel.freeWithin, maxStopTime(v))
	}
	for _, v := range r.Stopping {
		sel.freeWithin = max(sel.freeWithin, maxStopTime(v))
	}
	return sel, ok
}

// maxStopTime returns the longest time that a job keeps its seats after a stop request. A job needs this time
// if its node is lost while the job stops.
func maxStopTime(v *job.Entry) time.Duration { return v.Job.Grace() + v.Job.LostAfter() }
