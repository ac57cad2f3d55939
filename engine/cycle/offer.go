package cycle

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/preempt"
	"github.com/ares-scheduler/ares/engine/queue"
)

// OfferInOrder runs phases 3 to 8. OfferInOrder goes through the waiting jobs in order until no job is left or
// the function `report` returns false. An array is considered again as long as it can start more elements.
func (r *Round) OfferInOrder(order *queue.Round[*job.Entry], plan *ares.Plan, report Report) {
	now := plan.Now
	r.holdForLongestWaiting(now)
	for {
		// 3. Order: take the next job by class, fair share and priority.
		item, ok := order.Next()
		if !ok {
			return
		}
		e := item.Owner
		if e.TakenInCycle(r.Place.Cycle) {
			order.Skip()
			continue
		}
		if !e.Plain && (r.jobs.ArrayIsStopping(e) || e.IsArray() && r.startableElements(e) <= 0) {
			order.Skip()
			continue
		}
		if placed, more := r.placeOverdue(order, plan, e.Shape.Leaf, report); !more {
			return
		} else if placed {
			continue
		}
		if len(r.Backfill.Holds) > 0 {
			if done, more := r.offerNominated(order, plan, e, report); !more {
				return
			} else if done {
				continue
			}
		}
		var admitted bool
		if admitted, ok = r.admitAndPlace(e, now); !ok {
			if !r.handleBlocked(order, plan, e, admitted, report) {
				return
			}
			continue
		}
		if grant := r.jobs.AllocationOf(e.Shape, r.Place.Offer.Seats); !e.Plain && e.IsArray() {
			r.assignElement(e, &r.Place.Offer)
			order.AllocatePart(grant)
			order.EndTurn()
		} else {
			order.Allocate(grant)
		}
		if !report(e, &r.Place.Offer, true) {
			return
		}
	}
}

// offerNominated handles a job that has a valid nomination in this cycle. If the job has no valid nomination, the
// result `done` is false. If the nominated job fits on other seats now, it is placed there. If the nominated job
// fits nowhere yet, it waits for its nominated seats. Other jobs with the same Shape are still considered.
//
// A job that is placed on other seats gives up its nominated seats. A job ahead of it may have been blocked only
// because these seats were held. In this case the pass ends, and the next cycle offers these seats in order.
func (r *Round) offerNominated(order *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, report Report) (done, more bool) {
	hold := r.Preempt.HoldOf(e)
	r.Place.WouldDelay, r.Place.WindowBlocked = false, false
	switch {
	case hold == nil || hold.Invalid != "":
		return false, true
	case hold.Over:
		order.Skip()
		return true, true
	case r.Preempt.PlaceElsewhere(order, hold, plan.Now):
		order.Allocate(r.jobs.AllocationOf(e.Shape, r.Place.Offer.Seats))
		more = report(e, &r.Place.Offer, true)
		if r.blocked && !r.Backfill.ReserveForAll {
			plan.Wake, more = plan.Now, false
		}
		return true, more
	}
	r.blocked = true
	r.skip(order, e)
	r.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(hold)}
	return true, report(e, nil, true)
}

// admitAndPlace runs phases 4 and 5 for one job. If the job is placed, r.Place.Offer is its placement,
// and its seats are taken.
func (r *Round) admitAndPlace(e *job.Entry, now time.Time) (admitted, ok bool) {
	r.Place.WouldDelay, r.Place.WindowBlocked, r.borrowBlocked = false, false, false
	r.Preempt.ReleaseToGang(e)

	// 4. Admit: check dependencies, budget, limits and quotas.
	members, ban := r.jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return false, false
	}
	// Check this before KnownUnschedulable. What is known depends on earlier cycles, and the decision must not.
	if r.noBorrowing && r.jobs.WouldBorrowNow(e) {
		r.Place.WouldDelay, r.borrowBlocked = true, true
		return true, false
	}
	if r.Backfill.KnownUnschedulable(e.Shape, ban) {
		return true, false
	}
	stay := r.Place.StayOf(e)
	if r.Place.OutlastsWindow(e, stay) {
		return true, false
	}
	borrows := !r.noBorrowing && r.jobs.WouldBorrowNow(e)

	// 5. Place: find seats for the whole gang or for none of it.
	r.scorer.BeginJob(e.ID, e.NextElement()+e.ElementsMade)
	if len(r.Backfill.Reservations) > 0 {
		r.Place.Offer, ok = r.Backfill.PlaceBackfill(e, members, ban, now)
	} else {
		r.Place.Offer, ok = r.Place.PlaceJob(e.Shape, members, ban, e, stay)
	}
	if !ok {
		if !r.Place.WouldDelay && !r.Place.IsBlockedByWindows(e, members, ban, stay) {
			r.Place.RememberUnschedulable(e.Shape, ban)
		}
		return true, false
	}
	r.borrowed = r.borrowed || borrows
	r.Place.Offer.Job = e.ID
	r.Place.Placed = append(r.Place.Placed, placement.PlacedJob{Entry: e, Seats: r.Place.Offer.Seats})
	return true, true
}

// handleBlocked runs phases 6 to 8 for a job that was not placed.
func (r *Round) handleBlocked(order *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, admitted bool, report Report) (more bool) {
	r.blocked = r.blocked || admitted
	// 6. Preempt: stop victims, and nominate the job for their seats. The cycle stops the victims before it
	// considers later jobs, so no later job takes their seats.
	if !r.Backfill.ReserveForAll && r.Preempt.PreemptFor(order, plan, e, admitted) {
		r.skip(order, e)
		r.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(r.Preempt.HoldOf(e))}
		return report(e, nil, admitted)
	}
	// 7. Reserve: hold capacity for the first blocked jobs. Later jobs are placed only where they do not delay the
	// first blocked jobs.
	first := r.reserveAndSkip(order, e, admitted, plan.Now)
	// 8. Refuse: the function `report` records the refusal, once for all jobs with the same Shape.
	return !first || report(e, nil, admitted)
}

// reserveAndSkip is phase 7 of a cycle. reserveAndSkip makes a backfill reservation for a blocked job that is
// entitled to one. Depending on the configuration, the cycle then skips the blocked job, or all jobs with the
// same Shape, or all later jobs of the same queue. The result named `first` is true if the cycle has not
// refused another job with the same Shape yet.
func (r *Round) reserveAndSkip(order *queue.Round[*job.Entry], e *job.Entry, admitted bool, now time.Time) (first bool) {
	switch {
	case r.Backfill.ReserveForAll:
		if admitted && r.Backfill.MayReserve(e, now) {
			r.Backfill.ReserveFor(e, now)
		}
		r.skip(order, e)
	case r.Place.WouldDelay && r.cfg.Queue.Blocked != config.BlockedHold:
		// Skip only the blocked job. Another job with the same Shape may have a shorter runtime, and so delay no
		// reservation.
		first = e.Shape.RefusedInCycle != r.Place.Cycle
		e.Shape.RefusedInCycle = r.Place.Cycle
		if r.borrowBlocked { // the runtime makes no difference
			order.SkipShape()
		} else {
			order.Skip()
		}
		return first
	case r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e):
		order.BlockQueue()
	default:
		if admitted && r.Backfill.MayReserve(e, now) && r.Backfill.ReserveFor(e, now) {
			r.Backfill.Reservations[len(r.Backfill.Reservations)-1].Firm = r.blockedShapes == 0
		}
		if admitted {
			r.blockedShapes++
		}
		order.SkipShape()
	}
	return true
}

// The method `skip` makes the cycle skip a job that has to wait. In a strict queue (BlockedHold), the method
// also skips all later jobs of the queue, unless the job waits for a dependency.
func (r *Round) skip(order *queue.Round[*job.Entry], e *job.Entry) {
	if r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e) {
		order.BlockQueue()
		return
	}
	order.Skip()
}
