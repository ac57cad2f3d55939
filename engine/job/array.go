package job

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// array is what the state knows of an array: its own entry, and its elements
// by number. It exists as soon as either speaks of it.
type array struct {
	id       ares.JobID
	parent   *Entry // nil until the array itself is known, and when it went
	Elements ares.Elements
}

// ArrayOf finds an array, or opens one.
func (j *Table) ArrayOf(id ares.JobID) *array {
	at, found := slices.BinarySearchFunc(j.arrays, id, byArrayID)
	if !found {
		j.arrays = slices.Insert(j.arrays, at, &array{id: id})
	}
	return j.arrays[at]
}

func byArrayID(a *array, id ares.JobID) int { return cmp.Compare(a.id, id) }

// countArray counts an entry as the array or the element it is, or takes it out.
func (j *Table) countArray(e *Entry, sign int) {
	if e.Job == nil || !e.IsArray() && e.Job.ArrayOf == "" {
		return
	}
	id := e.Job.ArrayOf
	if e.IsArray() {
		id = e.ID
	}
	a := j.ArrayOf(id)
	switch {
	case !e.IsArray():
		a.Elements.Add(e.Phase(), sign)
	case sign > 0:
		a.parent, a.Elements.Total = e, e.Job.Array.Count
	default:
		a.parent, a.Elements.Total = nil, 0
	}
	if a.parent == nil && a.Elements.Made == 0 {
		at, _ := slices.BinarySearchFunc(j.arrays, id, byArrayID)
		j.arrays = slices.Delete(j.arrays, at, at+1)
	}
}

// NextElement is the index of the array's element to be made next.
func (e *Entry) NextElement() int {
	if e.Run == nil {
		return 0
	}
	return e.Run.Next
}

// hasUnmadeElements says whether the array still has elements to make.
func (e *Entry) hasUnmadeElements() bool {
	return e.IsArray() && !e.Phase().Final() && e.IsSettled() && e.NextElement() < e.Job.Array.Count
}

// ArrayIsStopping says whether the entry is an element of an array that is to end.
func (j *Table) ArrayIsStopping(e *Entry) bool {
	if e.Job == nil || e.Job.ArrayOf == "" {
		return false
	}
	at, found := slices.BinarySearchFunc(j.arrays, e.Job.ArrayOf, byArrayID)
	return found && j.arrays[at].stopIntent() != nil
}

// stopIntent is the intent to end the array with its elements, nil for none. One that
// gave up those it has not made lets the others go on.
func (a *array) stopIntent() *ares.Stop {
	if a.parent == nil || a.parent.Run == nil {
		return nil
	}
	if stop := a.parent.Run.Stop; stop != nil && stop.Why != ares.StopQueue {
		return stop
	}
	return nil
}

// EndFinishedArrays ends the arrays whose elements have all ended, and passes a stop of an
// array on to its elements. Elements of an array that is to end are touched by
// nothing else in this plan.
func (j *Table) EndFinishedArrays(plan *ares.Plan) {
	for _, a := range j.arrays {
		if a.parent == nil || a.parent.Run == nil || a.parent.Phase().Final() {
			continue
		}
		if phase, why := a.Elements.Outcome(a.parent.Run); phase != "" {
			plan.Arrays = append(plan.Arrays, ares.ArrayStep{Job: a.id, Next: a.parent.NextElement(), Phase: phase, Reason: why})
			continue
		}
		if stop := a.stopIntent(); stop != nil {
			j.stopElements(a, stop, plan)
		}
	}
}

// stopElements asks every element that has not ended to stop.
func (j *Table) stopElements(a *array, stop *ares.Stop, plan *ares.Plan) {
	for i := range a.parent.NextElement() {
		e := j.EntryByID[ares.ElementID(a.id, i)]
		if e == nil || e.Run == nil || e.Run.Phase.Final() || e.Run.Stop != nil && e.Run.Stop.Why == ares.StopCancel {
			continue
		}
		if len(plan.Stop) == config.MaxPlacings {
			plan.Wake = plan.Now
			return
		}
		plan.Stop = append(plan.Stop, ares.Stopping{Job: e.ID, Stop: ares.Stop{Why: stop.Why, By: stop.By, At: plan.Now, Grace: stop.Grace}})
	}
}

// ParallelismText says how an array's own parallelism keeps its elements waiting, ""
// when it does not.
func (j *Table) ParallelismText(e *Entry) string {
	if !e.hasUnmadeElements() {
		return ""
	}
	a := j.ArrayOf(e.ID)
	if n := a.Elements.UnderWay(); n >= e.Job.Array.Parallelism {
		return fmt.Sprintf("%d elements are under way, which is its parallelism (%d of %d are made)", n, e.NextElement(), e.Job.Array.Count)
	}
	return ""
}

// CheckArrays wants the tallies to be what counting anew finds, and no array
// to have more under way than it may.
func (j *Table) CheckArrays() error {
	counted := map[ares.JobID]ares.Elements{}
	for _, e := range j.Entries() {
		if e.Job == nil || !e.IsArray() && e.Job.ArrayOf == "" {
			continue
		}
		id := e.Job.ArrayOf
		if e.IsArray() {
			id = e.ID
		}
		c := counted[id]
		if e.IsArray() {
			c.Total = e.Job.Array.Count
		} else {
			c.Add(e.Phase(), +1)
		}
		counted[id] = c
	}
	if len(counted) != len(j.arrays) {
		return fmt.Errorf("%d arrays live, %d are kept", len(counted), len(j.arrays))
	}
	for _, a := range j.arrays {
		if a.Elements != counted[a.id] {
			return fmt.Errorf("array %s has elements %+v, its account says %+v", a.id, counted[a.id], a.Elements)
		}
		if a.parent != nil && a.Elements.UnderWay() > a.parent.Job.Array.Parallelism {
			return fmt.Errorf("array %s has %d elements under way, its parallelism is %d", a.id, a.Elements.UnderWay(), a.parent.Job.Array.Parallelism)
		}
	}
	return nil
}
