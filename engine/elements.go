package engine

import ares "github.com/ares-scheduler/ares"

// elementsToMake is how many more elements of the array the decision under way may
// make: those that may be under way, and that one step of the array holds.
func (t *round) elementsToMake(e *entry) int {
	if e.madeInCycle != t.place.cycle {
		e.elementsMade, e.madeInCycle = 0, t.place.cycle
	}
	a := t.jobs.arrayOf(e.id)
	return min(e.job.Array.Count-e.nextElement(), e.job.Array.Parallelism-a.elements.UnderWay(), e.job.ElementsAtOnce()) - e.elementsMade
}

// hitElementLimit says whether the array could make more elements than one step holds.
func (t *round) hitElementLimit(e *entry) bool {
	a := t.jobs.arrayOf(e.id)
	return e.elementsMade == e.job.ElementsAtOnce() &&
		e.elementsMade < min(e.job.Array.Count-e.nextElement(), e.job.Array.Parallelism-a.elements.UnderWay())
}

// makeElement notes that a placing makes the array's next element.
func (t *round) makeElement(e *entry, p *ares.Placing) {
	p.ArrayOf, p.Index = e.id, e.nextElement()+e.elementsMade
	p.Job = ares.ElementID(e.id, p.Index)
	e.elementsMade++
}

// advanceArray notes in the plan how far an array has come.
func advanceArray(plan *ares.Plan, p *ares.Placing) {
	for i := range plan.Arrays {
		if plan.Arrays[i].Job == p.ArrayOf {
			plan.Arrays[i].Next = p.Index + 1
			return
		}
	}
	plan.Arrays = append(plan.Arrays, ares.ArrayStep{Job: p.ArrayOf, Next: p.Index + 1})
}
