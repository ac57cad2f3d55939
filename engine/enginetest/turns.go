package enginetest

import (
	"cmp"
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// Turns wants no placing of a plan while a job waits that precedes it (of a
// higher class, of a poorer tenant or queue in the same class, or earlier in
// its queue) and that would fit at that point. It puts the placings into a
// second state one by one and asks there. The plan must not be committed yet.
func (w *World) Turns(plan ares.Plan) error {
	s, err := w.Fresh()
	if err != nil {
		return err
	}
	if spares(&plan) {
		return nil // who fits waits for those who were promised it
	}
	passed := laws.Passed(w.State, &plan)
	if err := w.rehearseNominations(s, &plan); err != nil {
		return err
	}
	for i := range plan.Place {
		for _, id := range passed[i] {
			job, _ := s.Job(id)
			if pl, refusal := engine.Place(s, job, w.Now); refusal == nil && !lateCompany(job) && !w.delays(id) {
				return fmt.Errorf("%s is placed while %s waits, which precedes it and fits on %v", plan.Place[i].Job, id, pl.Seats)
			}
		}
		if err := w.rehearse(s, &plan, i); err != nil {
			return err
		}
	}
	return nil
}

// spares says whether the plan lends nothing, because others take back what they
// lent.
func spares(plan *ares.Plan) bool {
	return slices.ContainsFunc(plan.Refuse, func(r ares.Refusal) bool {
		return slices.ContainsFunc(r.Blockers, func(b ares.Blocker) bool { return b.Detail == engine.BorrowBlockedText })
	})
}

// delays says whether the job could delay one that the last plan keeps a place
// for: it may wait though it fits.
func (w *World) delays(id ares.JobID) bool {
	ends, known := w.State.ExpectedEnd(id, w.Now)
	return slices.ContainsFunc(w.promised, func(p ares.Promise) bool {
		return p.Job != id && (!known || p.At.IsZero() || ends.After(p.Latest))
	})
}

// lateCompany says whether others' places decide whether the job fits: it may
// fit after it was refused.
func lateCompany(job *ares.Job) bool { return len(job.Placement.Affinity) > 0 }

// rehearseNominations commits the seats that the plan keeps for jobs: who comes
// after one of these in the order cannot have them.
func (w *World) rehearseNominations(s *engine.State, plan *ares.Plan) error {
	rev := s.Revision() + 1
	var events []ares.Event
	for _, n := range plan.Nominate {
		run, _ := s.Run(n.Job)
		if err := run.Nominate(n.Nomination); err != nil {
			return err
		}
		run.Revision = rev
		events = append(events, ares.Event{Run: &ares.RunEvent{Job: n.Job, Run: run}})
	}
	if len(events) > 0 {
		s.Apply(ares.Batch{Revision: rev, Events: events})
	}
	return nil
}

// rehearse commits one placing to a state.
func (w *World) rehearse(s *engine.State, plan *ares.Plan, i int) error {
	pl := &plan.Place[i]
	rev := s.Revision() + 1
	run, _ := s.Run(pl.Job)
	var events []ares.Event
	if pl.ArrayOf != "" {
		array, _ := s.Job(pl.ArrayOf)
		parent, _ := s.Run(pl.ArrayOf)
		if err := parent.Advance(&ares.ArrayStep{Job: pl.ArrayOf, Next: pl.Index + 1}, plan.Now); err != nil {
			return err
		}
		job := array.Element(pl.Index)
		job.Revision = rev
		run = ares.NewRun(job.AcceptedAt)
		events = append(events, ares.Event{Run: &ares.RunEvent{Job: pl.ArrayOf, Run: parent}}, ares.Event{Job: job})
	}
	if err := pl.Apply(&run, plan.Now); err != nil {
		return fmt.Errorf("place %s: %w", cmp.Or(pl.ArrayOf, pl.Job), err)
	}
	run.Last().Fence = ares.Fence(rev)
	events = append(events, ares.Event{Run: &ares.RunEvent{Job: pl.Job, Run: run}})
	s.Apply(ares.Batch{Revision: rev, Events: events})
	return nil
}
