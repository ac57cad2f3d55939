package engine

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
	parent   *entry // nil until the array itself is known, and when it went
	elements ares.Elements
}

// arrayOf finds an array, or opens one.
func (j *jobTable) arrayOf(id ares.JobID) *array {
	at, found := slices.BinarySearchFunc(j.arrays, id, byArrayID)
	if !found {
		j.arrays = slices.Insert(j.arrays, at, &array{id: id})
	}
	return j.arrays[at]
}

func byArrayID(a *array, id ares.JobID) int { return cmp.Compare(a.id, id) }

// countArray counts an entry as the array or the element it is, or takes it out.
func (j *jobTable) countArray(e *entry, sign int) {
	if e.job == nil || !e.isArray() && e.job.ArrayOf == "" {
		return
	}
	id := e.job.ArrayOf
	if e.isArray() {
		id = e.id
	}
	a := j.arrayOf(id)
	switch {
	case !e.isArray():
		a.elements.Add(e.phase(), sign)
	case sign > 0:
		a.parent, a.elements.Total = e, e.job.Array.Count
	default:
		a.parent, a.elements.Total = nil, 0
	}
	if a.parent == nil && a.elements.Made == 0 {
		at, _ := slices.BinarySearchFunc(j.arrays, id, byArrayID)
		j.arrays = slices.Delete(j.arrays, at, at+1)
	}
}

func (e *entry) isArray() bool { return e.array }

// nextElement is the index of the array's element to be made next.
func (e *entry) nextElement() int {
	if e.run == nil {
		return 0
	}
	return e.run.Next
}

// hasUnmadeElements says whether the array still has elements to make.
func (e *entry) hasUnmadeElements() bool {
	return e.isArray() && !e.phase().Final() && e.isSettled() && e.nextElement() < e.job.Array.Count
}

// arrayIsStopping says whether the entry is an element of an array that is to end.
func (j *jobTable) arrayIsStopping(e *entry) bool {
	if e.job == nil || e.job.ArrayOf == "" {
		return false
	}
	at, found := slices.BinarySearchFunc(j.arrays, e.job.ArrayOf, byArrayID)
	return found && j.arrays[at].stopIntent() != nil
}

// stopIntent is the intent to end the array with its elements, nil for none. One that
// gave up those it has not made lets the others go on.
func (a *array) stopIntent() *ares.Stop {
	if a.parent == nil || a.parent.run == nil {
		return nil
	}
	if stop := a.parent.run.Stop; stop != nil && stop.Why != ares.StopQueue {
		return stop
	}
	return nil
}

// endFinishedArrays ends the arrays whose elements have all ended, and passes a stop of an
// array on to its elements. Elements of an array that is to end are touched by
// nothing else in this plan.
func (j *jobTable) endFinishedArrays(plan *ares.Plan) {
	for _, a := range j.arrays {
		if a.parent == nil || a.parent.run == nil || a.parent.phase().Final() {
			continue
		}
		if phase, why := a.elements.Outcome(a.parent.run); phase != "" {
			plan.Arrays = append(plan.Arrays, ares.ArrayStep{Job: a.id, Next: a.parent.nextElement(), Phase: phase, Reason: why})
			continue
		}
		if stop := a.stopIntent(); stop != nil {
			j.stopElements(a, stop, plan)
		}
	}
}

// stopElements asks every element that has not ended to stop.
func (j *jobTable) stopElements(a *array, stop *ares.Stop, plan *ares.Plan) {
	for i := range a.parent.nextElement() {
		e := j.entryByID[ares.ElementID(a.id, i)]
		if e == nil || e.run == nil || e.run.Phase.Final() || e.run.Stop != nil && e.run.Stop.Why == ares.StopCancel {
			continue
		}
		if len(plan.Stop) == config.MaxPlacings {
			plan.Wake = plan.Now
			return
		}
		plan.Stop = append(plan.Stop, ares.Stopping{Job: e.id, Stop: ares.Stop{Why: stop.Why, By: stop.By, At: plan.Now, Grace: stop.Grace}})
	}
}

// parallelismText says how an array's own parallelism keeps its elements waiting, ""
// when it does not.
func (j *jobTable) parallelismText(e *entry) string {
	if !e.hasUnmadeElements() {
		return ""
	}
	a := j.arrayOf(e.id)
	if n := a.elements.UnderWay(); n >= e.job.Array.Parallelism {
		return fmt.Sprintf("%d elements are under way, which is its parallelism (%d of %d are made)", n, e.nextElement(), e.job.Array.Count)
	}
	return ""
}

// checkArrays wants the tallies to be what counting anew finds, and no array
// to have more under way than it may.
func (j *jobTable) checkArrays() error {
	counted := map[ares.JobID]ares.Elements{}
	for _, e := range j.entries() {
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
	if len(counted) != len(j.arrays) {
		return fmt.Errorf("%d arrays live, %d are kept", len(counted), len(j.arrays))
	}
	for _, a := range j.arrays {
		if a.elements != counted[a.id] {
			return fmt.Errorf("array %s has elements %+v, its account says %+v", a.id, counted[a.id], a.elements)
		}
		if a.parent != nil && a.elements.UnderWay() > a.parent.job.Array.Parallelism {
			return fmt.Errorf("array %s has %d elements under way, its parallelism is %d", a.id, a.elements.UnderWay(), a.parent.job.Array.Parallelism)
		}
	}
	return nil
}
