package engine

import (
	"cmp"
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// array is what the state knows of an array: its own entry, and its elements
// by number. It exists as soon as either speaks of it.
type array struct {
	id       ares.JobID
	parent   *entry // nil until the array itself is known, and when it went
	elements ares.Elements
}

// array finds an array, or opens one.
func (s *State) array(id ares.JobID) *array {
	at, found := slices.BinarySearchFunc(s.arrays, id, byArrayID)
	if !found {
		s.arrays = slices.Insert(s.arrays, at, &array{id: id})
	}
	return s.arrays[at]
}

func byArrayID(a *array, id ares.JobID) int { return cmp.Compare(a.id, id) }

// tally counts an entry as the array or the element it is, or takes it out.
func (s *State) tally(e *entry, sign int) {
	if e.job == nil || !e.isArray() && e.job.ArrayOf == "" {
		return
	}
	id := e.job.ArrayOf
	if e.isArray() {
		id = e.id
	}
	a := s.array(id)
	switch {
	case !e.isArray():
		a.elements.Add(e.phase(), sign)
	case sign > 0:
		a.parent, a.elements.Total = e, e.job.Array.Count
	default:
		a.parent, a.elements.Total = nil, 0
	}
	if a.parent == nil && a.elements.Made == 0 {
		at, _ := slices.BinarySearchFunc(s.arrays, id, byArrayID)
		s.arrays = slices.Delete(s.arrays, at, at+1)
	}
}

func (e *entry) isArray() bool { return e.array }

// next is the index of the array's element to be made next.
func (e *entry) next() int {
	if e.run == nil {
		return 0
	}
	return e.run.Next
}

// unmade says whether the array still has elements to make.
func (e *entry) unmade() bool {
	return e.isArray() && !e.phase().Final() && e.settled() && e.next() < e.job.Array.Count
}

// doomed says whether the entry is an element of an array that is to end.
func (s *State) doomed(e *entry) bool {
	if e.job == nil || e.job.ArrayOf == "" {
		return false
	}
	at, found := slices.BinarySearchFunc(s.arrays, e.job.ArrayOf, byArrayID)
	return found && s.arrays[at].stop() != nil
}

// stop is the intent to end the array with its elements, nil for none. One that
// gave up those it has not made lets the others go on.
func (a *array) stop() *ares.Stop {
	if a.parent == nil || a.parent.run == nil {
		return nil
	}
	if stop := a.parent.run.Stop; stop != nil && stop.Why != ares.StopQueue {
		return stop
	}
	return nil
}

// finish ends the arrays whose elements have all ended, and passes a stop of an
// array on to its elements. Elements of an array that is to end are touched by
// nothing else in this plan.
func (s *State) finish(plan *ares.Plan) {
	for _, a := range s.arrays {
		if a.parent == nil || a.parent.run == nil || a.parent.phase().Final() {
			continue
		}
		if phase, why := a.elements.Outcome(a.parent.run); phase != "" {
			plan.Arrays = append(plan.Arrays, ares.ArrayStep{Job: a.id, Next: a.parent.next(), Phase: phase, Reason: why})
			continue
		}
		if stop := a.stop(); stop != nil {
			s.pass(a, stop, plan)
		}
	}
}

// pass asks every element that has not ended to stop.
func (s *State) pass(a *array, stop *ares.Stop, plan *ares.Plan) {
	for i := range a.parent.next() {
		e := s.jobs[ares.ElementID(a.id, i)]
		if e == nil || e.run == nil || e.run.Phase.Final() || e.run.Stop != nil && e.run.Stop.Why == ares.StopCancel {
			continue
		}
		if len(plan.Stop) == MaxPlacings {
			plan.Wake = plan.Now
			return
		}
		plan.Stop = append(plan.Stop, ares.Stopping{Job: e.id, Stop: ares.Stop{Why: stop.Why, By: stop.By, At: plan.Now, Grace: stop.Grace}})
	}
}

// wanted is how many more elements of the array the decision under way may
// make: those that may be under way, and that one step of the array holds.
func (t *try) wanted(e *entry) int {
	if e.madeIn != t.state.decision {
		e.made, e.madeIn = 0, t.state.decision
	}
	a := t.state.array(e.id)
	return min(e.job.Array.Count-e.next(), e.job.Array.Parallelism-a.elements.UnderWay(), e.job.ElementsAtOnce()) - e.made
}

// cut says whether the array could make more elements than one step holds.
func (t *try) cut(e *entry) bool {
	a := t.state.array(e.id)
	return e.made == e.job.ElementsAtOnce() &&
		e.made < min(e.job.Array.Count-e.next(), e.job.Array.Parallelism-a.elements.UnderWay())
}

// grow notes that a placing makes the array's next element.
func (t *try) grow(e *entry, p *ares.Placing) {
	p.ArrayOf, p.Index = e.id, e.next()+e.made
	p.Job = ares.ElementID(e.id, p.Index)
	e.made++
}

// step notes in the plan how far an array has come.
func step(plan *ares.Plan, p *ares.Placing) {
	for i := range plan.Arrays {
		if plan.Arrays[i].Job == p.ArrayOf {
			plan.Arrays[i].Next = p.Index + 1
			return
		}
	}
	plan.Arrays = append(plan.Arrays, ares.ArrayStep{Job: p.ArrayOf, Next: p.Index + 1})
}

// throttled says how an array's own parallelism keeps its elements waiting, ""
// when it does not.
func (s *State) throttled(e *entry) string {
	if !e.unmade() {
		return ""
	}
	a := s.array(e.id)
	if n := a.elements.UnderWay(); n >= e.job.Array.Parallelism {
		return fmt.Sprintf("%d elements are under way, which is its parallelism (%d of %d are made)", n, e.next(), e.job.Array.Count)
	}
	return ""
}

// checkArrays wants the tallies to be what counting anew finds, and no array
// to have more under way than it may.
func (s *State) checkArrays() error {
	counted := map[ares.JobID]ares.Elements{}
	for _, e := range s.entries() {
		if e.job == nil || !e.isArray() && e.job.ArrayOf == "" {
			continue
		}
		id := e.job.ArrayOf
		if e.isArray() {
			id = e.id
		}
		c := counted[id]
		if e.isArray() {
			c.Total = e.job.Array.Count
		} else {
			c.Add(e.phase(), +1)
		}
		counted[id] = c
	}
	if len(counted) != len(s.arrays) {
		return fmt.Errorf("%d arrays live, %d are kept", len(counted), len(s.arrays))
	}
	for _, a := range s.arrays {
		if a.elements != counted[a.id] {
			return fmt.Errorf("array %s has elements %+v, its account says %+v", a.id, counted[a.id], a.elements)
		}
		if a.parent != nil && a.elements.UnderWay() > a.parent.job.Array.Parallelism {
			return fmt.Errorf("array %s has %d elements under way, its parallelism is %d", a.id, a.elements.UnderWay(), a.parent.job.Array.Parallelism)
		}
	}
	return nil
}
