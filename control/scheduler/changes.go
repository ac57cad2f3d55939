package scheduler

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store"
)

// Changes returns the writes for a plan that was made from this state. If a run does not allow one of the plan's transitions, the engine
// has a bug, so Changes panics.
func Changes(s *engine.State, plan *ares.Plan) []store.Change {
	runs, err := engine.PlanChanges(s, plan, plan.Now)
	if err != nil {
		panic("ares: the engine made a plan that cannot be applied: " + err.Error())
	}
	list := make([]store.Change, len(runs))
	for i := range runs {
		r := &runs[i]
		list[i] = store.Change{Job: r.Job, Next: r.Run, New: r.Kind == engine.ChangePlace, Group: r.Group}
		for k := range r.Elements {
			list[i].Make = append(list[i].Make, store.Element(r.Elements[k]))
		}
	}
	return list
}
