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

func (r *Round) OfferInOrder(pass *queue.Round[*job.Entry], plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	now := plan.Now
	for {
		it, ok := pass.Next()
		if !ok {
			return
		}
		e := it.Owner
		if !e.Plain && (r.jobs.ArrayIsStopping(e) || e.IsArray() && r.startableElements(e) <= 0) {
			pass.Skip()
			continue
		}
		if len(r.Backfill.Holds) > 0 {
			if done, more := r.offerNominated(pass, e, now, tell); !more {
				return
			} else if done {
				continue
			}
		}
		var admitted bool
		if admitted, ok = r.admitAndPlace(e, now); !ok {
			if !r.handleBlocked(pass, plan, e, admitted, tell) {
				return
			}
			continue
		}
		if grant := r.jobs.GrantOf(e.Shape, r.Place.Offer.Seats); !e.Plain && e.IsArray() {
			r.assignElement(e, &r.Place.Offer)
			pass.AllocatePart(grant)
			pass.EndTurn()
		} else {
			pass.Allocate(grant)
		}
		if !tell(e, &r.Place.Offer, true) {
			return
		}
	}
}

// offerNominated is the turn of a job for which seats are kept, if this is one:
// it may fit elsewhere by now. Others of its shape have their turn all the same.
func (r *Round) offerNominated(pass *queue.Round[*job.Entry], e *job.Entry, now time.Time, tell func(*job.Entry, *ares.Placing, bool) bool) (done, more bool) {
	k := r.Preempt.HoldOf(e)
	r.Place.WouldDelay, r.Place.WindowBlocked = false, false
	switch {
	case k == nil || k.Invalid != "":
		return false, true
	case k.Over:
		pass.Skip()
		return true, true
	case r.Preempt.PlaceElsewhere(pass, k, now):
		pass.Allocate(r.jobs.GrantOf(e.Shape, r.Place.Offer.Seats))
		return true, tell(e, &r.Place.Offer, true)
	}
	r.skip(pass, e)
	r.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(k)}
	return true, tell(e, nil, true)
}

// skip passes over a job that has to wait for its seats, and where queues are
// strict over everybody behind it.
func (r *Round) skip(pass *queue.Round[*job.Entry], e *job.Entry) {
	if r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e) {
		pass.BlockQueue()
		return
	}
	pass.Skip()
}

// handleBlocked is what becomes of a job that found no place.
func (r *Round) handleBlocked(pass *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, admitted bool, tell func(*job.Entry, *ares.Placing, bool) bool) (more bool) {
	// 6. Yield: others give way to it, and the seats are kept for it.
	if !r.Backfill.ReserveForAll && r.Preempt.PreemptFor(pass, plan, e, admitted) {
		r.skip(pass, e)
		r.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(r.Preempt.HoldOf(e))}
		return tell(e, nil, admitted)
	}
	// 7. Refuse, once for each shape, and 5. reserve for the first that were:
	// others get a place behind them where that delays nobody.
	return !r.refuseShape(pass, e, admitted, plan.Now) || tell(e, nil, admitted)
}

// admitAndPlace admits one job, and places it by the offer.
func (r *Round) admitAndPlace(e *job.Entry, now time.Time) (admitted, ok bool) {
	r.Place.WouldDelay, r.Place.WindowBlocked, r.borrowBlocked = false, false, false
	r.Preempt.ReleaseToGang(e)
	// 3. Admit: dependencies, budget, limits, quotas.
	members, ban := r.jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || r.Backfill.KnownUnschedulable(e.Shape, ban) {
		return members > 0, false
	}
	if r.Place.OutlastsWindow(e) {
		return true, false
	}
	borrows := r.jobs.Queues.HasQuotas() && r.jobs.WouldBorrow(e.Shape)
	if borrows && r.noBorrowing {
		r.Place.WouldDelay, r.borrowBlocked = true, true
		return true, false
	}
	// 4. Place: the whole gang or nothing.
	r.scorer.BeginJob(e.ID, e.NextElement()+e.ElementsMade)
	if len(r.Backfill.Reservations) > 0 {
		r.Place.Offer, ok = r.Backfill.PlaceBackfill(e, members, ban, now)
	} else {
		r.Place.Offer, ok = r.Place.PlaceJob(e.Shape, members, ban, e)
	}
	if !ok {
		if !r.Place.WouldDelay && !r.Place.IsBlockedByWindows(e, members, ban) && !r.Place.Speculative {
			r.Place.RememberUnschedulable(e.Shape, ban)
		}
		return true, false
	}
	r.borrowed = r.borrowed || borrows
	r.Place.Offer.Job = e.ID
	r.Place.Placed = append(r.Place.Placed, placement.PlacedJob{Entry: e, Seats: r.Place.Offer.Seats})
	return true, true
}
