package cycle

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// refusalBlockers is a refusal without a look at the nodes one by one: what forbids the
// job, or that it found no room. Explain says the rest. Plans share the words;
// nobody changes them.
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
	if words := r.Preempt.PreemptionNotes; len(words) > 0 {
		if r.Preempt.HasHold(e) {
			return words // it has its place, and waits for it
		}
		return slices.Concat(out, words)
	}
	return out
}

// windowBlockers is the short refusal of a job that would fit.
var windowBlockers = []ares.Blocker{{Kind: job.KindReserved, Detail: "the nodes it would fit on are reserved, or will be before it is thought to end"}}

// delayBlockers is the short refusal of a job that would fit.
var delayBlockers = []ares.Blocker{{Kind: job.KindOrder, Detail: "it would delay a job ahead of it, as far as predictions tell"}}

// borrowBlockers is the same of one that others' promises keep off.
var borrowBlockers = []ares.Blocker{{Kind: job.KindQuota, Detail: job.BorrowBlockedText}}

// refuseShape passes over a job that found no place: with its whole shape, or with
// everybody behind it in its queue, as configured. It says whether that is news.
func (r *Round) refuseShape(pass *queue.Round[*job.Entry], e *job.Entry, admitted bool, now time.Time) bool {
	switch {
	case r.Backfill.ReserveForAll:
		if admitted && r.Backfill.MayReserve(e, now) {
			r.Backfill.ReserveFor(e, now)
		}
		if r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e) {
			pass.BlockQueue()
		} else {
			pass.Skip()
		}
	case r.Place.WouldDelay && r.cfg.Queue.Blocked != config.BlockedHold:
		// Only it: others of its shape may be done sooner.
		news := e.Shape.RefusedInCycle != r.Place.Cycle
		e.Shape.RefusedInCycle = r.Place.Cycle
		pass.Skip()
		return news
	case r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e):
		pass.BlockQueue()
	default:
		if admitted && r.Backfill.MayReserve(e, now) && r.Backfill.ReserveFor(e, now) {
			r.Backfill.Reservations[len(r.Backfill.Reservations)-1].Firm = r.blockedShapes == 0
		}
		if admitted {
			r.blockedShapes++
		}
		pass.SkipShape()
	}
	return true
}
