package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// Decide runs one cycle: which delays are over, and which waiting jobs are
// placed where. The plan touches each run at most once, so a job whose delay
// is over is placed by a later plan, when its run is pending. The state is as
// before afterwards; it changes when the committed plan comes back by Apply.
func Decide(s *State, now time.Time) ares.Plan {
	s.core.Refresh()
	s.core.Windows.SetWindowTime(now)
	plan := ares.Plan{Revision: s.core.Revision, Now: now}

	s.round.Settle(&plan)
	blocked := s.round.RunCycle(&plan, s.core.Cfg.Preemption.Moving)
	s.round.RecordPlannedStarts()
	s.core.Jobs.WakeForOrderChange(blocked, &plan)
	// Those that have waited for as long as they would are let go.
	s.core.Jobs.ExpireQueued(&plan)
	s.core.Jobs.NoteDeadlines(&plan)
	plan.Wake = job.EarlierOf(plan.Wake, s.core.Jobs.NextOrderChange())
	s.core.Windows.WakeAtWindows(&plan)
	s.round.Preempt.WakeWhenHoldsEnd(&plan, now)
	s.round.LastRefusals = len(plan.Refuse)
	return plan
}

// Consolidate is what would be moved now, and for whom, whether or not that is
// enabled. It changes nothing.
func Consolidate(s *State, now time.Time) []ares.Consolidation {
	s.core.Refresh()
	s.core.Windows.SetWindowTime(now)
	s.round.Preempt.ConsolidationsFound = []ares.Consolidation{}
	plan := ares.Plan{Revision: s.core.Revision, Now: now}
	s.round.Settle(&plan)
	s.round.RunCycle(&plan, true) // as the next plan will: what is shown is what is done
	out := s.round.Preempt.ConsolidationsFound
	s.round.Preempt.ConsolidationsFound = nil
	return out
}
