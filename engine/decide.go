package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// Decide runs one scheduling cycle and returns its plan: the waiting jobs that are placed, the running jobs that
// are stopped, and why the other jobs wait. A plan changes each run only once. Therefore a plan that ends a
// job's retry delay cannot also place the job, and a later plan places it. Decide leaves the state unchanged.
// The state changes when the caller passes the committed records to Apply.
//
// The phases are numbered in the order in which they run. Decide runs phases 3 to 8 for
// each waiting job in turn; see package cycle for the details.
func Decide(s *State, now time.Time) ares.Plan {
	s.core.Refresh()
	plan := ares.Plan{Revision: s.core.Revision, Now: now}

	// 1. Settle: end retry delays and finished arrays, and evict jobs from reserved nodes.
	s.round.Settle(&plan)
	// 2. Hold: place nominated jobs or hold their seats.
	// 3. Order: take the next waiting job by fair share and priority.
	// 4. Admit: check dependencies, budget, limits and quotas.
	// 5. Place: find seats for the whole gang or for none of it, without delaying a backfill reservation.
	// 6. Preempt: nominate a blocked job and stop its victims.
	// 7. Reserve: make backfill reservations for the first blocked jobs.
	// 8. Refuse: record why the job is not placed, once for all jobs with the same Shape.
	blocked := s.round.RunCycle(&plan, s.core.Cfg.Preemption.Moving)
	// 9. Finish: end jobs whose queue timeout has expired or whose dependencies can never be met, record which jobs missed or will probably miss
	//    their deadlines, and set when the next cycle is due if no event occurs.
	s.round.RecordPlannedStarts()
	s.core.Jobs.WakeForOrderChange(blocked, &plan)
	s.core.Jobs.ExpireQueued(&plan)
	s.core.Jobs.CancelUnmet(&plan)
	s.core.Jobs.WakeAtBegin(&plan)
	s.core.Jobs.NoteDeadlines(&plan)
	plan.Wake = job.EarlierOf(plan.Wake, s.core.Jobs.NextOrderChange())
	s.core.Windows.WakeAtWindows(&plan)
	s.round.Preempt.WakeWhenHoldsEnd(&plan, now)
	s.round.LastRefusals = len(plan.Refuse)
	return plan
}

// Consolidate returns the consolidations that the next cycle would make if consolidation were enabled. Each
// consolidation says which jobs would be migrated, and for which waiting job. Consolidate does not change the
// state.
func Consolidate(s *State, now time.Time) []ares.Consolidation {
	s.core.Refresh()
	s.round.Preempt.ConsolidationsFound = []ares.Consolidation{}
	plan := ares.Plan{Revision: s.core.Revision, Now: now}
	s.round.Settle(&plan)
	s.round.RunCycle(&plan, true) // runs the same phases as Decide, so the result matches a plan
	out := s.round.Preempt.ConsolidationsFound
	s.round.Preempt.ConsolidationsFound = nil
	return out
}
