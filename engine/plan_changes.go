package engine

import (
	"errors"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// ChangeKind says what a plan does to a run.
type ChangeKind string

// The kinds of changes.
const (
	ChangeReady    ChangeKind = "ready"    // its delay is over
	ChangeStop     ChangeKind = "stop"     // its attempt is asked to stop, or the job leaves the queue
	ChangeNominate ChangeKind = "nominate" // seats are held for it
	ChangeWithdraw ChangeKind = "withdraw" // its nomination ends
	ChangeAdvance  ChangeKind = "advance"  // an array makes elements, or ends
	ChangePlace    ChangeKind = "place"    // a new attempt begins
	ChangeNote     ChangeKind = "note"     // its deadline is at risk, or missed
)

// RunChange is one run after a plan. The writer of the change sets fences and
// revisions.
type RunChange struct {
	Job  ares.JobID
	Kind ChangeKind
	Run  ares.Run // with the revision of the run that it was made from
	// Elements are the elements that an array makes with this change.
	Elements []NewElement
	// Group is the nominated job that this change belongs to, "" for none.
	// Changes of one group are next to each other and are written together or
	// not at all: no job is stopped for a nomination that is not stored.
	Group ares.JobID
}

// NewElement is an array element that a plan makes, with its first attempt.
type NewElement struct {
	Job *ares.Job
	Run ares.Run
}

// PlanChanges returns the runs that a plan changes, as they are at now. The
// state must be the one that the plan was made from, and stays as it is. Every
// run is changed at most once.
//
// The engine knows which transitions a run allows, so an error means that the
// plan is not from this state, or that the engine has a bug.
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
	// withdrawn has the reasons of the withdrawals that are not in the list yet.
	withdrawn map[ares.JobID]string
}

// add appends the run of a job after a transition.
func (p *planChanges) add(id ares.JobID, kind ChangeKind, transition func(*ares.Run) error) (*RunChange, error) {
	run, _ := p.state.Run(id)
	if err := transition(&run); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, id, err)
	}
	p.list = append(p.list, RunChange{Job: id, Kind: kind, Run: run})
	return &p.list[len(p.list)-1], nil
}

// ready adds the jobs whose delay is over.
func (p *planChanges) ready() error {
	for _, id := range p.plan.Ready {
		if _, err := p.add(id, ChangeReady, func(r *ares.Run) error { return r.Ready(p.now) }); err != nil {
			return err
		}
	}
	return nil
}

// preempt adds stops and nominations: first the stops that belong to no
// nomination of this plan, then each nomination with the stops made for it.
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
		if y := s.Stop.Yield; y != nil {
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

// stop adds the stop of one job, as a part of a group or of none.
func (p *planChanges) stop(s *ares.Stopping, group ares.JobID) error {
	c, err := p.add(s.Job, ChangeStop, func(r *ares.Run) error { return r.RequestStop(s.Stop) })
	if err == nil {
		c.Group = group
	}
	return err
}

// nominate adds a nomination, which begins a group. A job that was nominated for
// other seats loses these in the same change.
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

// withdraw adds the jobs whose nomination ends without a new one.
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

// advance adds the steps of arrays, with the elements they make.
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

// elements returns the elements that the plan makes, by array.
func (p *planChanges) elements() (map[ares.JobID][]NewElement, error) {
	made := map[ares.JobID][]NewElement{}
	for i := range p.plan.Place {
		pl := &p.plan.Place[i]
		if pl.ArrayOf == "" {
			continue
		}
		array, known := p.state.Job(pl.ArrayOf)
		if !known {
			return nil, fmt.Errorf("place %s: its array %s is not known", pl.Job, pl.ArrayOf)
		}
		e := NewElement{Job: array.Element(pl.Index), Run: ares.NewRun(array.AcceptedAt)}
		if err := pl.Apply(&e.Run, p.now); err != nil {
			return nil, fmt.Errorf("place %s: %w", pl.Job, err)
		}
		made[pl.ArrayOf] = append(made[pl.ArrayOf], e)
	}
	return made, nil
}

// place adds the new attempts of jobs. Elements that are made by their placing
// are in the change of their array.
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

// note adds what is noted about deadlines.
func (p *planChanges) note() error {
	for i := range p.plan.Note {
		n := &p.plan.Note[i]
		if _, err := p.add(n.Job, ChangeNote, func(r *ares.Run) error { return r.NoteLateness(n, p.now) }); err != nil {
			return err
		}
	}
	return nil
}
