package cycle

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// startableElements returns how many more elements of an array this cycle may start. The number is bounded by the
// remaining elements, the array's parallelism and the limit of elements per plan.
func (r *Round) startableElements(e *job.Entry) int {
	if e.MadeInCycle != r.Place.Cycle {
		e.ElementsMade, e.MadeInCycle = 0, r.Place.Cycle
	}
	a := r.jobs.ArrayOf(e.ID)
	most := min(e.Job.Array.Count-e.NextElement(), e.Job.Array.Parallelism-a.Elements.UnderWay(), e.Job.ElementsAtOnce())
	return r.jobs.CorrespondingElements(e, most) - e.ElementsMade
}

// hitElementLimit reports whether the array could start more elements in this cycle if there were no limit of
// elements per plan.
func (r *Round) hitElementLimit(e *job.Entry) bool {
	a := r.jobs.ArrayOf(e.ID)
	most := min(e.Job.Array.Count-e.NextElement(), e.Job.Array.Parallelism-a.Elements.UnderWay())
	return e.ElementsMade == e.Job.ElementsAtOnce() && e.ElementsMade < r.jobs.CorrespondingElements(e, most)
}

// assignElement assigns a placement to the array's next element.
func (r *Round) assignElement(e *job.Entry, p *ares.Placing) {
	p.ArrayOf, p.Index = e.ID, e.NextElement()+e.ElementsMade
	p.Job = ares.ElementID(e.ID, p.Index)
	e.ElementsMade++
}

// AdvanceArray records in the plan that all elements of an array up to the placed one have been started.
func AdvanceArray(plan *ares.Plan, p *ares.Placing) {
	for i := range plan.Arrays {
		if plan.Arrays[i].Job == p.ArrayOf {
			plan.Arrays[i].Next = p.Index + 1
			return
		}
	}
	plan.Arrays = append(plan.Arrays, ares.ArrayStep{Job: p.ArrayOf, Next: p.Index + 1})
}
