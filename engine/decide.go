package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// Decide runs one scheduling cycle and returns its plan: the waiting jobs that are
// placed, the running jobs that are stopped, and why the other jobs wait. A plan
// touches each run at most once, so a job whose delay ends in this plan is placed by
// a later one, when its run is pending. The state is the same afterwards; it changes
// when the committed plan comes back through Apply.
//
// The phases are numbered in the order in which they run. Phases 3 to 8 run for one
// job after the other; package cycle has the details.
func Decide(s *State, now time.Time) ares.Plan {
	s.core.Refresh()
	plan := ares.Plan{Revision: s.core.Revision, Now: now}

	// 1. Settle: end delays and finished arrays, evict jobs from reserved nodes.
	s.round.Settle(&plan)
	// 2. Hold: place nominated jobs or hold their seats.
	// 3. Order: take the next waiting job by fair share and priority.
	// 4. Admit: dependencies, budget, limits, quotas.
	// 5. Place: the whole gang or nothing, without delaying a backfill reservation.
	// 6. Preempt: nominate a blocked job and stop its victims.
	// 7. Reserve: make backfill reservations for the first blocked jobs.
	// 8. Refuse: record the blockers, once for each shape.
	blocked := s.round.RunCycle(&plan, s.core.Cfg.Preemption.Moving)
	// 9. Finish: end jobs whose queue timeout is over, note deadlines, and set when
	// the next cycle is due without an event.
	s.round.RecordPlannedStarts()
	s.core.Jobs.WakeForOrderChange(blocked, &plan)
	s.core.Jobs.ExpireQueued(&plan)
	s.core.Jobs.NoteDeadlines(&plan)
	plan.Wake = job.EarlierOf(plan.Wake, s.core.Jobs.NextOrderChange())
	s.core.Windows.WakeAtWindows(&plan)
	s.round.Preempt.WakeWhenHoldsEnd(&plan, now)
	s.round.LastRefusals = len(plan.Refuse)
	return plan
}

// Consolidate returns the consolidations that the next cycle would make with
// consolidation enabled, whether or not it is: which jobs would move, and for which
// waiting job. It changes nothing.
func Consolidate(s *State, now time.Time) []ares.Consolidation {
	s.core.Refresh()
	s.round.Preempt.ConsolidationsFound = []ares.Consolidation{}
	plan := ares.Plan{Revision: s.core.Revision, Now: now}
	s.round.Settle(&plan)
	s.round.RunCycle(&plan, true) // the same phases as Decide, so it shows what a plan would do
	out := s.round.Preempt.ConsolidationsFound
	s.round.Preempt.ConsolidationsFound = nil
	return out
}
