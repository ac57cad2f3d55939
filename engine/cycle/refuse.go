package cycle

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// The method `refuse` is phase 8 of a cycle. The refusal of a job is added to the plan, unless the plan has
// too many refusals. If the tenant is over its budget, the method also ensures that a cycle runs at the end of
// the month.
func (r *Round) refuse(plan *ares.Plan, e *job.Entry, admitted bool) {
	r.jobs.WakeAtMonthEnd(plan, e.Shape)
	if len(plan.Refuse) >= config.MaxRefusals {
		return
	}
	if plan.Refuse == nil {
		plan.Refuse = make([]ares.Refusal, 0, r.LastRefusals)
	}
	plan.Refuse = append(plan.Refuse, ares.Refusal{Job: e.ID, Blockers: r.refusalBlockers(e, admitted, plan.Now)})
}

// refusalBlockers returns the blockers of a job in short form, without a diagnosis of each node. The blockers say
// why the job was not admitted, or that no capacity was found. Explain returns the blockers in full form. Several
// plans share these blockers, so callers must not change them.
func (r *Round) refusalBlockers(e *job.Entry, admitted bool, now time.Time) []ares.Blocker {
	sh := e.Shape
	models := min(max(len(r.Place.Cluster.ModelsPresent)-1, 0), 1)
	if sh.NoRoomRefusal[models] == nil {
		sh.NoRoomRefusal[models] = []ares.Blocker{job.NoRoomBlocker(sh, models > 0)}
	}
	out := sh.NoRoomRefusal[models]
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
			return notes // the job waits only for its nominated seats
		}
		return slices.Concat(out, notes)
	}
	return out
}

// windowBlockers are the blockers of a job that fits only on reserved nodes. Each node on which the job fits
// is reserved now, or will be reserved before the job is expected to end.
var windowBlockers = []ares.Blocker{{Kind: ares.BlockerReservation, Detail: ares.PlainText("the nodes it would fit on are reserved, or will be before its expected end")}}

// delayBlockers are the blockers of a job that fits but would delay a backfill reservation.
var delayBlockers = []ares.Blocker{{Kind: ares.BlockerOrder, Detail: ares.PlainText("by runtime predictions it would delay a job ahead of it")}}

// borrowBlockers are the blockers of a job that would have to borrow quota, but the current pass forbids
// borrowing.
var borrowBlockers = []ares.Blocker{{Kind: ares.BlockerQuota, Detail: ares.PlainText(job.BorrowBlockedText)}}
