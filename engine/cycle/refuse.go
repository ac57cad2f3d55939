package cycle

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// refuse is phase 8. It adds the refusal of a job to the plan while the plan has
// capacity for it. For a tenant over its budget it wakes the plan when the month ends.
func (r *Round) refuse(plan *ares.Plan, e *job.Entry, admitted bool) {
	r.jobs.WakeAtMonthEnd(plan, e.Shape.Tenant)
	if len(plan.Refuse) >= config.MaxRefusals {
		return
	}
	if plan.Refuse == nil {
		plan.Refuse = make([]ares.Refusal, 0, r.LastRefusals)
	}
	plan.Refuse = append(plan.Refuse, ares.Refusal{Job: e.ID, Blockers: r.refusalBlockers(e, admitted, plan.Now)})
}

// refusalBlockers returns the blockers of a job in short form, without a diagnosis of
// each node: what denies admission, or that the job found no capacity. Explain gives
// the full form. Plans share the blockers, so nothing may change them.
func (r *Round) refusalBlockers(e *job.Entry, admitted bool, now time.Time) []ares.Blocker {
	sh := e.Shape
	if sh.NoRoomRefusal == nil {
		sh.NoRoomRefusal = []ares.Blocker{job.NoRoomBlocker(sh)}
	}
	out := sh.NoRoomRefusal
	switch {
	case !admitted:
		out = r.jobs.AdmissionBlockers(sh, now)
	case r.Place.WindowBlocked:
		return windowBlockers
	case r.borrowBlocked:
		return borrowBlockers
	case r.Place.WouldDelay:
		return delayBlockers
	}
	if notes := r.Preempt.PreemptionNotes; len(notes) > 0 {
		if r.Preempt.HasHold(e) {
			return notes // the job waits for its nominated seats only
		}
		return slices.Concat(out, notes)
	}
	return out
}

// windowBlockers are the blockers of a job that fits, but only on nodes that are
// reserved or will be before the job is expected to end.
var windowBlockers = []ares.Blocker{{Kind: ares.BlockerReservation, Detail: "the nodes it would fit on are reserved, or will be before it is thought to end"}}

// delayBlockers are the blockers of a job that fits but would delay a backfill
// reservation.
var delayBlockers = []ares.Blocker{{Kind: ares.BlockerOrder, Detail: "it would delay a job ahead of it, as far as predictions tell"}}

// borrowBlockers are the blockers of a job that would borrow quota in a pass without
// borrowing.
var borrowBlockers = []ares.Blocker{{Kind: ares.BlockerQuota, Detail: job.BorrowBlockedText}}
