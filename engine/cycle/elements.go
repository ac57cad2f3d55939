package cycle

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// startableElements is how many more elements of the array the decision under way may
// make: those that may be under way, and that one step of the array holds.
func (r *Round) startableElements(e *job.Entry) int {
	if e.MadeInCycle != r.Place.Cycle {
		e.ElementsMade, e.MadeInCycle = 0, r.Place.Cycle
	}
	a := r.jobs.ArrayOf(e.ID)
	return min(e.Job.Array.Count-e.NextElement(), e.Job.Array.Parallelism-a.Elements.UnderWay(), e.Job.ElementsAtOnce()) - e.ElementsMade
}

// hitElementLimit says whether the array could make more elements than one step holds.
func (r *Round) hitElementLimit(e *job.Entry) bool {
	a := r.jobs.ArrayOf(e.ID)
	return e.ElementsMade == e.Job.ElementsAtOnce() &&
		e.ElementsMade < min(e.Job.Array.Count-e.NextElement(), e.Job.Array.Parallelism-a.Elements.UnderWay())
}

// assignElement notes that a placing makes the array's next element.
func (r *Round) assignElement(e *job.Entry, p *ares.Placing) {
	p.ArrayOf, p.Index = e.ID, e.NextElement()+e.ElementsMade
	p.Job = ares.ElementID(e.ID, p.Index)
	e.ElementsMade++
}

// AdvanceArray notes in the plan how far an array has come.
func AdvanceArray(plan *ares.Plan, p *ares.Placing) {
	for i := range plan.Arrays {
		if plan.Arrays[i].Job == p.ArrayOf {
			plan.Arrays[i].Next = p.Index + 1
			return
		}
	}
	plan.Arrays = append(plan.Arrays, ares.ArrayStep{Job: p.ArrayOf, Next: p.Index + 1})
}
