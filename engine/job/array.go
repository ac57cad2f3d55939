package job

import (
	"cmp"
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// Array is a job array: its own entry, and the number of elements in each phase. An array record exists as soon as
// the array or one of its elements is known.
type Array struct {
	id       ares.JobID
	parent   *Entry // the array's own entry; nil while its record is not known
	Elements ares.Elements
}

// ArrayOf returns the array with the given ID, and creates it when necessary.
func (j *Table) ArrayOf(id ares.JobID) *Array {
	at, found := slices.BinarySearchFunc(j.arrays, id, byArrayID)
	if !found {
		j.arrays = slices.Insert(j.arrays, at, &Array{id: id})
	}
	return j.arrays[at]
}

// byArrayID compares an array's ID with a given ID, for searches in Table.arrays.
func byArrayID(a *Array, id ares.JobID) int { return cmp.Compare(a.id, id) }

// countArray counts an entry, either as an array or as an element of an array. If `sign`
// is -1, the entry is no longer counted. An array that has neither its own entry nor
// elements is dropped.
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

// nextElement returns the index of the next element of an array with the given run.
func nextElement(run *ares.Run) int {
	if run == nil {
		return 0
	}
	return run.Next
}

// NextElement returns the index of the next element to create.
func (e *Entry) NextElement() int {
	return nextElement(e.Run)
}

// hasUnmadeElements reports whether the array still has elements to create.
func (e *Entry) hasUnmadeElements() bool {
	return e.IsArray() && !e.Phase().Final() && e.IsSettled() && e.NextElement() < e.Job.Array.Count
}

// ArrayIsStopping reports whether the entry is an element of an array that was asked to stop.
func (j *Table) ArrayIsStopping(e *Entry) bool {
	if e.Job == nil || e.Job.ArrayOf == "" {
		return false
	}
	at, found := slices.BinarySearchFunc(j.arrays, e.Job.ArrayOf, byArrayID)
	return found && j.arrays[at].stopIntent() != nil
}

// stopIntent returns the stop request for the array and its elements, or nil. An array whose queue timeout expired,
// or that waits for what can never happen, creates no more elements, but its existing elements continue.
func (a *Array) stopIntent() *ares.Stop {
	if a.parent == nil || a.parent.Run == nil {
		return nil
	}
	if stop := a.parent.Run.Stop; stop != nil && !stop.Why.EndsOnlyWaiting() {
		return stop
	}
	return nil
}

// EndFinishedArrays ends the arrays whose elements have all ended. If an array was asked to stop, EndFinishedArrays
// stops its elements too. Later phases of the cycle do not change the elements of a stopping array.
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

// stopElements stops every element that has not ended and is not being cancelled already.
func (j *Table) stopElements(a *Array, stop *ares.Stop, plan *ares.Plan) {
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

// ParallelismText describes how an array's parallelism limit keeps its elements waiting. The text is "" if the
// parallelism limit does not block any element.
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

// CheckArrays returns an error if the counts of an array differ from a recount, or if more elements are running than its
// parallelism allows.
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
		return fmt.Errorf("there are %d live arrays, but the index has %d", len(counted), len(j.arrays))
	}
	for _, a := range j.arrays {
		if a.Elements != counted[a.id] {
			return fmt.Errorf("the element counts of array %s are wrong: computed %+v, recorded %+v", a.id, counted[a.id], a.Elements)
		}
		if a.parent != nil && a.Elements.UnderWay() > a.parent.Job.Array.Parallelism {
			return fmt.Errorf("array %s has %d unfinished elements at once, but its parallelism is %d", a.id, a.Elements.UnderWay(), a.parent.Job.Array.Parallelism)
		}
	}
	return nil
}
