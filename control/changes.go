package control

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store"
)

// Changes are what a plan made from this state writes. The engine knows the
// moves a run may make, so one that is refused is a bug in it.
func Changes(s *engine.State, plan *ares.Plan) []store.Change {
	c := changes{state: s, list: make([]store.Change, 0, len(plan.Ready)+len(plan.Place)+len(plan.Arrays)+len(plan.Stop)+len(plan.Nominate)+len(plan.Withdraw)+len(plan.Note))}
	for _, id := range plan.Ready {
		c.add(id, "readied", func(r *ares.Run) error { return r.Ready(plan.Now) })
	}
	c.yield(plan)
	made := elementsOf(s, plan)
	for _, step := range plan.Arrays {
		c.add(step.Job, "advanced", func(r *ares.Run) error { return r.Advance(&step, plan.Now) }).Make = made[step.Job]
	}
	for _, p := range plan.Place {
		if p.ArrayOf == "" {
			c.add(p.Job, "placed", func(r *ares.Run) error { return p.Apply(r, plan.Now) }).New = true
		}
	}
	for i := range plan.Note {
		n := &plan.Note[i]
		c.add(n.Job, "noted something of", func(r *ares.Run) error { return r.NoteLateness(n, plan.Now) })
	}
	return c.list
}

// changes gathers what a plan writes.
type changes struct {
	state *engine.State
	list  []store.Change
}

func (c *changes) add(id ares.JobID, what string, move func(*ares.Run) error) *store.Change {
	run, _ := c.state.Run(id)
	if err := move(&run); err != nil {
		panic("ares: the engine " + what + " a job that may not be: " + err.Error())
	}
	c.list = append(c.list, store.Change{Job: id, Next: run})
	return &c.list[len(c.list)-1]
}

// yield has some jobs stopped. Those that give way to a job which is nominated
// by the same plan are a group with it: none of them stops for seats that
// nobody keeps.
func (c *changes) yield(plan *ares.Plan) {
	var gives map[ares.JobID][]*ares.Stopping
	if len(plan.Nominate) > 0 {
		gives = make(map[ares.JobID][]*ares.Stopping, len(plan.Nominate))
		for i := range plan.Nominate {
			gives[plan.Nominate[i].Job] = nil
		}
	}
	withdrawn := make(map[ares.JobID]string, len(plan.Withdraw))
	for _, w := range plan.Withdraw {
		withdrawn[w.Job] = w.Why
	}
	stop := func(s *ares.Stopping) *store.Change {
		return c.add(s.Job, "stopped", func(r *ares.Run) error { return r.RequestStop(s.Stop) })
	}
	for i := range plan.Stop {
		s := &plan.Stop[i]
		if y := s.Stop.Yield; y != nil {
			if list, ok := gives[y.To]; ok {
				gives[y.To] = append(list, s)
				continue
			}
		}
		stop(s)
	}
	for i := range plan.Nominate {
		n := &plan.Nominate[i]
		c.add(n.Job, "nominated", func(r *ares.Run) error {
			if why, also := withdrawn[n.Job]; also { // for other seats
				delete(withdrawn, n.Job)
				if err := r.Withdraw(why, plan.Now); err != nil {
					return err
				}
			}
			return r.Nominate(n.Nomination)
		}).Group = n.Job
		for _, s := range gives[n.Job] {
			stop(s).Group = n.Job
		}
	}
	for _, w := range plan.Withdraw {
		if _, alone := withdrawn[w.Job]; alone {
			c.add(w.Job, "withdrew", func(r *ares.Run) error { return r.Withdraw(w.Why, plan.Now) })
		}
	}
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
