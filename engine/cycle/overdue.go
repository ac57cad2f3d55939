package cycle

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// placeOverdue places one overdue job of the queue whose turn it is. The result `placed` is false if no overdue job of
// the queue fits, or if its overdue jobs already use their share. The cycle then goes on with the order of the queue,
// in which overdue jobs are also considered, so this is not the place to refuse them or to reserve for them.
func (r *Round) placeOverdue(order *queue.Round[*job.Entry], plan *ares.Plan, leaf *job.QueueLeaf, report Report) (placed, more bool) {
	overdue := r.jobs.OverdueOf(leaf)
	if overdue == nil || r.Backfill.ReserveForAll || r.cfg.Queue.Blocked != config.BlockedSkip {
		return false, true
	}
	for {
		e := overdue.NextOverdue(leaf, r.Place.Cycle, r.cfg.Queue.OverdueShare, plan.Now)
		if e == nil {
			return false, true
		}
		if !e.Plain && (r.jobs.ArrayIsStopping(e) || e.IsArray() && r.startableElements(e) <= 0) || len(r.Backfill.Holds) > 0 && r.Preempt.HoldOf(e) != nil {
			overdue.Refuse(e)
			continue
		}
		if _, ok := r.admitAndPlace(e, plan.Now); !ok {
			overdue.Refuse(e)
			continue
		}
		isArray := !e.Plain && e.IsArray()
		if isArray {
			r.assignElement(e, &r.Place.Offer)
		}
		overdue.Take(e, job.GPUMilliOf(r.Place.Offer.Seats), isArray)
		order.AllocatePart(r.jobs.AllocationOf(e.Shape, r.Place.Offer.Seats))
		order.EndTurn()
		return true, report(e, &r.Place.Offer, true)
	}
}
