package engine

import (
	"errors"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// ChangeKind says how a plan changes a run.
type ChangeKind string

// These are the kinds of changes that a plan makes to a run.
const (
	ChangeReady    ChangeKind = "ready"    // the delay of the job is over
	ChangeStop     ChangeKind = "stop"     // the attempt is asked to stop, or the job leaves the queue
	ChangeNominate ChangeKind = "nominate" // seats are held for the job
	ChangeWithdraw ChangeKind = "withdraw" // the nomination of the job ends
	ChangeAdvance  ChangeKind = "advance"  // an array creates elements, or ends
	ChangePlace    ChangeKind = "place"    // a new attempt begins
	ChangeNote     ChangeKind = "note"     // the deadline of the job is at risk or missed
)

// RunChange holds one run as it is after the change that a plan makes. The code that writes the run to
// the store sets its new fences and revision.
type RunChange struct {
	Job  ares.JobID
	Kind ChangeKind
	Run  ares.Run // with the revision of the run that the change is based on
	// Elements lists the elements that the change of an array creates.
	Elements []NewElement
	// Group is the nominated job to which this change belongs, or "" if it belongs to no nomination. The changes of
	// one group are adjacent, and they are written together or not at all. So no job is stopped for a nomination
	// that is not stored.
	Group ares.JobID
}

// NewElement is an array element that a plan creates, with its first attempt.
type NewElement struct {
	Job *ares.Job
	Run ares.Run
}

// PlanChanges returns the runs that a plan changes. PlanChanges returns each run as it is after the plan was
// applied at the time `now`. The argument `s` must be the state from which the plan was made. PlanChanges does not
// modify it. Each run occurs only once in the result.
//
// The engine knows which transitions a run allows. Therefore an error means that the plan
// is not from this state, or that the engine has a bug.
func PlanChanges(s *State, plan *ares.Plan, now time.Time) ([]RunChange, error) {
	most := len(plan.Ready) + len(plan.Stop) + len(plan.Nominate) + len(plan.Withdraw) + len(plan.Arrays) + len(plan.Place) + len(plan.Note)
	p := planChanges{state: s, plan: plan, now: now, list: make([]RunChange, 0, most)}
	if len(plan.Withdraw) > 0 {
		p.withdrawn = make(map[ares.JobID]string, len(plan.Withdraw))
		for _, w := range plan.Withdraw {
			p.withdrawn[w.Job] = w.Why
		}
	}
	if err := errors.Join(p.ready(), p.preempt(), p.withdraw(), p.advance(), p.place(), p.note()); err != nil {
		return nil, err
	}
	return p.list, nil
}

// planChanges collects the changes of one plan.
type planChanges struct {
	state *State
	plan  *ares.Plan
	now   time.Time
	list  []RunChange
	// The field `withdrawn` holds the reasons for those withdrawn nominations that are not yet in the list of
	// changes.
	withdrawn map[ares.JobID]string
}

// The method `add` applies a transition to a job's run and appends the resulting run to the list of changes.
func (p *planChanges) add(id ares.JobID, kind ChangeKind, transition func(*ares.Run) error) (*RunChange, error) {
	run, _ := p.state.Run(id)
	if err := transition(&run); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, id, err)
	}
	p.list = append(p.list, RunChange{Job: id, Kind: kind, Run: run})
	return &p.list[len(p.list)-1], nil
}

// The method `ready` adds the changes of jobs whose retry delay is over.
func (p *planChanges) ready() error {
	for _, id := range p.plan.Ready {
		if _, err := p.add(id, ChangeReady, func(r *ares.Run) error { return r.Ready(p.now) }); err != nil {
			return err
		}
	}
	return nil
}

// The method `preempt` adds the changes that stop or nominate jobs. First come the stops that belong to no
// nomination of this plan. Then comes each nomination, followed by the stops of its victims.
func (p *planChanges) preempt() error {
	var victims map[ares.JobID][]*ares.Stopping
	if len(p.plan.Nominate) > 0 {
		victims = make(map[ares.JobID][]*ares.Stopping, len(p.plan.Nominate))
		for i := range p.plan.Nominate {
			victims[p.plan.Nominate[i].Job] = nil
		}
	}
	for i := range p.plan.Stop {
		s := &p.plan.Stop[i]
		if y := s.Stop.Preemption; y != nil {
			if list, nominated := victims[y.To]; nominated {
				victims[y.To] = append(list, s)
				continue
			}
		}
		if err := p.stop(s, ""); err != nil {
			return err
		}
	}
	for i := range p.plan.Nominate {
		n := &p.plan.Nominate[i]
		if err := p.nominate(n); err != nil {
			return err
		}
		for _, s := range victims[n.Job] {
			if err := p.stop(s, n.Job); err != nil {
				return err
			}
		}
	}
	return nil
}

// The method `stop` adds the change that stops one job. If the group is not "", the change is assigned to this
// group.
func (p *planChanges) stop(s *ares.Stopping, group ares.JobID) error {
	c, err := p.add(s.Job, ChangeStop, func(r *ares.Run) error { return r.RequestStop(s.Stop) })
	if err == nil {
		c.Group = group
	}
	return err
}

// The method `nominate` adds the change that nominates a job. This change is the first change of a group. If the
// job was nominated for other seats, the same change withdraws the old nomination.
func (p *planChanges) nominate(n *ares.Nominating) error {
	c, err := p.add(n.Job, ChangeNominate, func(r *ares.Run) error {
		if why, also := p.withdrawn[n.Job]; also {
			delete(p.withdrawn, n.Job)
			if err := r.Withdraw(why, p.now); err != nil {
				return err
			}
		}
		return r.Nominate(n.Nomination)
	})
	if err == nil {
		c.Group = n.Job
	}
	return err
}

// The method `withdraw` adds the changes of jobs whose nomination ends without a new nomination.
func (p *planChanges) withdraw() error {
	for _, w := range p.plan.Withdraw {
		if _, alone := p.withdrawn[w.Job]; !alone {
			continue
		}
		if _, err := p.add(w.Job, ChangeWithdraw, func(r *ares.Run) error { return r.Withdraw(w.Why, p.now) }); err != nil {
			return err
		}
	}
	return nil
}

// The method `advance` adds the changes of arrays, with the elements that the plan creates.
func (p *planChanges) advance() error {
	if len(p.plan.Arrays) == 0 {
		return nil
	}
	elements, err := p.elements()
	if err != nil {
		return err
	}
	for _, step := range p.plan.Arrays {
		c, err := p.add(step.Job, ChangeAdvance, func(r *ares.Run) error { return r.Advance(&step, p.now) })
		if err != nil {
			return err
		}
		c.Elements = elements[step.Job]
	}
	return nil
}

// The method `elements` returns the elements that the plan creates, grouped by array.
func (p *planChanges) elements() (map[ares.JobID][]NewElement, error) {
	made := map[ares.JobID][]NewElement{}
	for i := range p.plan.Place {
		pl := &p.plan.Place[i]
		if pl.ArrayOf == "" {
			continue
		}
		array, known := p.state.Job(pl.ArrayOf)
		if !known {
			return nil, fmt.Errorf("place element %s: its array %s does not exist", pl.Job, pl.ArrayOf)
		}
		e := NewElement{Job: array.Element(pl.Index), Run: ares.NewRun(array.AcceptedAt)}
		if run, ok := p.state.Run(pl.ArrayOf); ok {
			e.Run.TokenBase = run.TokenBase // an element that a restore lost must not get its tokens again
		}
		if err := pl.Apply(&e.Run, p.now); err != nil {
			return nil, fmt.Errorf("place %s: %w", pl.Job, err)
		}
		made[pl.ArrayOf] = append(made[pl.ArrayOf], e)
	}
	return made, nil
}

// The method `place` adds the changes of jobs that get a new attempt. If a placement creates an array element,
// this element is part of the array's change instead.
func (p *planChanges) place() error {
	for i := range p.plan.Place {
		pl := &p.plan.Place[i]
		if pl.ArrayOf != "" {
			continue
		}
		if _, err := p.add(pl.Job, ChangePlace, func(r *ares.Run) error { return pl.Apply(r, p.now) }); err != nil {
			return err
		}
	}
	return nil
}

// The method `note` adds the changes of jobs that get a note about their deadline.
func (p *planChanges) note() error {
	for i := range p.plan.Note {
		n := &p.plan.Note[i]
		if _, err := p.add(n.Job, ChangeNote, func(r *ares.Run) error { return r.NoteLateness(n, p.now) }); err != nil {
			return err
		}
	}
	return nil
}
