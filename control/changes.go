package control

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store"
)

// Changes are what a plan made from this state writes. The engine knows the
// moves a run may make, so one that is refused is a bug in it.
func Changes(s *engine.State, plan *ares.Plan) []store.Change {
	changes := make([]store.Change, 0, len(plan.Ready)+len(plan.Place)+len(plan.Arrays)+len(plan.Stop))
	change := func(id ares.JobID, what string, move func(*ares.Run) error) *store.Change {
		run, _ := s.Run(id)
		if err := move(&run); err != nil {
			panic("ares: the engine " + what + " a job that may not be: " + err.Error())
		}
		changes = append(changes, store.Change{Job: id, Next: run})
		return &changes[len(changes)-1]
	}
	for _, id := range plan.Ready {
		change(id, "readied", func(r *ares.Run) error { return r.Ready(plan.Now) })
	}
	for _, stop := range plan.Stop {
		change(stop.Job, "stopped", func(r *ares.Run) error { return r.RequestStop(stop.Stop) })
	}
	made := elementsOf(s, plan)
	for _, step := range plan.Arrays {
		change(step.Job, "advanced", func(r *ares.Run) error { return r.Advance(&step, plan.Now) }).Make = made[step.Job]
	}
	for _, p := range plan.Place {
		if p.ArrayOf == "" {
			change(p.Job, "placed", func(r *ares.Run) error { return p.Apply(r, plan.Now) }).New = true
		}
	}
	return changes
}

// elementsOf are the elements a plan makes, by array.
func elementsOf(s *engine.State, plan *ares.Plan) map[ares.JobID][]store.Element {
	made := map[ares.JobID][]store.Element{}
	for _, p := range plan.Place {
		if p.ArrayOf == "" {
			continue
		}
		array, ok := s.Job(p.ArrayOf)
		if !ok {
			panic("ares: the engine placed an element of an array it does not know")
		}
		e := store.Element{Job: array.Element(p.Index), Run: ares.NewRun(array.AcceptedAt)}
		if err := p.Apply(&e.Run, plan.Now); err != nil {
			panic("ares: the engine placed an element that may not be: " + err.Error())
		}
		made[p.ArrayOf] = append(made[p.ArrayOf], e)
	}
	return made
}
