package enginetest

import (
	"cmp"
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/laws"
)

// CheckOrder checks the order of a plan's placements. CheckOrder returns an error if the plan places a job
// although an earlier job still waits and would have fit at that point. A job is earlier than another if its class
// is higher. Among jobs of the same class, a job is earlier if its tenant or queue has a lower share. In the same
// queue, the position in the queue decides which job is earlier. CheckOrder adds the placements to a second state
// one by one. The plan must not be committed yet.
func (w *Cluster) CheckOrder(plan ares.Plan) error {
	s, err := w.StateFromSnapshot()
	if err != nil {
		return err
	}
	if refusesBorrowing(&plan) {
		return nil // jobs that fit may wait for quota that is being reclaimed
	}
	passed := laws.SkippedJobs(w.State, &plan)
	if err := w.applyNominations(s, &plan); err != nil {
		return err
	}
	for i := range plan.Place {
		for _, id := range passed[i] {
			job, _ := s.Job(id)
			if pl, refusal := engine.Place(s, job, w.Now); refusal == nil && !dependsOnAffinity(job) && !w.mayDelayPlannedStart(id) {
				if fits, err := w.fitsBeforeNominations(&plan, i, job); err != nil {
					return err
				} else if !fits {
					continue
				}
				return fmt.Errorf("%s is placed while %s waits, which precedes it and fits on %v", plan.Place[i].Job, id, pl.Seats)
			}
		}
		if err := w.applyPlacement(s, &plan, i); err != nil {
			return err
		}
	}
	return nil
}

// fitsBeforeNominations reports whether a job fits at a placement if the plan's nominations are left out. A nomination
// that the plan makes after the placement uses quota. If a gang that lost a node lacks this quota, no seats are held
// for the gang, and a job seems to fit on them.
func (w *Cluster) fitsBeforeNominations(plan *ares.Plan, placement int, job *ares.Job) (bool, error) {
	if len(plan.Nominate) == 0 {
		return true, nil
	}
	s, err := w.StateFromSnapshot()
	if err != nil {
		return false, err
	}
	for i := range placement {
		if err := w.applyPlacement(s, plan, i); err != nil {
			return false, err
		}
	}
	_, refusal := engine.Place(s, job, w.Now)
	return refusal == nil, nil
}

// refusesBorrowing reports whether the plan forbids borrowing because quota is being reclaimed.
func refusesBorrowing(plan *ares.Plan) bool {
	return slices.ContainsFunc(plan.Refuse, func(r ares.Refusal) bool {
		return slices.ContainsFunc(r.Blockers, func(b ares.Blocker) bool { return b.Detail.String() == job.BorrowBlockedText })
	})
}

// mayDelayPlannedStart reports whether the job could delay a planned start of the last
// plan. A job that could delay a planned start may wait although it fits.
func (w *Cluster) mayDelayPlannedStart(id ares.JobID) bool {
	ends, known := w.State.ExpectedEnd(id, w.Now)
	return slices.ContainsFunc(w.lastPromises, func(p ares.PlannedStart) bool {
		return p.Job != id && (!known || p.At.IsZero() || ends.After(p.Latest))
	})
}

// dependsOnAffinity reports whether the job has affinity to other jobs. A job with affinity to other jobs may not
// fit at first, but may fit after the plan has placed those jobs.
func dependsOnAffinity(job *ares.Job) bool { return len(job.Placement().Affinity) > 0 }

// applyNominations applies the nominations of a plan to a state, so that later jobs cannot
// use the nominated seats.
func (w *Cluster) applyNominations(s *engine.State, plan *ares.Plan) error {
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

// applyPlacement applies one placement to a state.
func (w *Cluster) applyPlacement(s *engine.State, plan *ares.Plan, i int) error {
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
