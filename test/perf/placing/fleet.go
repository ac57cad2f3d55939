package placing

import (
	"runtime"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/test/perf/rounds"
)

// Fleet is the engine's state with so many empty nodes and so many jobs that
// wait. It has laid out the nodes, as a server has that is up.
func Fleet(nodes, jobs int, work Work) *engine.State {
	s := Nodes(nodes)
	s.Apply(ares.Batch{Revision: 2, Events: Arrivals(jobs, work)})
	engine.Decide(s, Now)
	runtime.GC()
	return s
}

// Nodes is the engine's state with so many empty nodes.
func Nodes(count int) *engine.State {
	var events []ares.Event
	for i := range tenants {
		events = append(events, ares.Event{Tenant: &ares.Tenant{ID: tenant(i), Limits: ares.NoLimits(), Weight: float64(1 + i%3)}})
	}
	for i := range count {
		n := Node(i)
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "i"}})
	}
	s := engine.New()
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: events})
	return s
}

// Arrivals are the submissions of the first jobs of the work.
func Arrivals(jobs int, work Work) []ares.Event {
	events := make([]ares.Event, jobs)
	for i := range events {
		events[i] = ares.Event{Job: Job(work, i, jobs)}
	}
	return events
}

// Filling is what it took to place jobs.
type Filling struct {
	Placed    int
	Decisions int
	Decide    rounds.Lap
	Apply     rounds.Lap // of the committed plans
}

// Fill decides and commits until so many are placed or no more fit.
func Fill(s *engine.State, most int) (Filling, error) {
	var f Filling
	for revision := s.Revision() + 1; f.Placed < most; revision++ {
		var plan ares.Plan
		f.Decide.Time(func() { plan = engine.Decide(s, Now) })
		f.Decisions++
		if len(plan.Place) == 0 {
			break
		}
		plan.Place = plan.Place[:min(len(plan.Place), most-f.Placed)]
		f.Placed += len(plan.Place)
		events := make([]ares.Event, 0, len(plan.Place))
		for i := range plan.Place {
			run := ares.NewRun(Now)
			if err := plan.Place[i].Apply(&run, Now); err != nil {
				return f, err
			}
			events = append(events, ares.Event{Run: &ares.RunEvent{Job: plan.Place[i].Job, Run: run}})
		}
		f.Apply.Time(func() { s.Apply(ares.Batch{Revision: revision, Events: events}) })
	}
	return f, nil
}
