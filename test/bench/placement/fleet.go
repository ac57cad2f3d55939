package placement

import (
	"runtime"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// Fleet returns an engine state with the given number of empty nodes and the
// given number of waiting jobs. The nodes are already indexed, as they are on a
// running server.
func Fleet(nodes, jobs int, work Work) *engine.State {
	return FleetWith(bySubmission(), nodes, jobs, work)
}

// FleetWith is like Fleet with another configuration.
func FleetWith(cfg config.Config, nodes, jobs int, work Work) *engine.State {
	s := NodesWith(cfg, nodes)
	s.Apply(ares.Batch{Revision: 2, Events: Arrivals(jobs, work)})
	engine.Decide(s, Now)
	runtime.GC()
	return s
}

// bySubmission returns the default configuration with queues in the order of submission, so that the engine, the scan and
// other schedulers place the same jobs.
func bySubmission() config.Config {
	cfg := config.Default()
	cfg.Queue = config.QueueConfig{}
	return cfg
}

// Nodes returns an engine state with the given number of empty nodes, and with queues in the order of submission.
func Nodes(count int) *engine.State { return NodesWith(bySubmission(), count) }

// NodesWith is like Nodes with another configuration.
func NodesWith(cfg config.Config, count int) *engine.State {
	var events []ares.Event
	for i := range tenants {
		events = append(events, ares.Event{Tenant: &ares.Tenant{ID: tenant(i), Limits: ares.NoLimits(), Weight: float64(1 + i%3)}})
	}
	for i := range count {
		n := Node(i)
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "i"}})
	}
	s := engine.NewWith(cfg)
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: events})
	return s
}

// Arrivals returns submission events for the first jobs of the given stream.
func Arrivals(jobs int, work Work) []ares.Event {
	events := make([]ares.Event, jobs)
	for i := range events {
		events[i] = ares.Event{Job: Job(work, i, jobs)}
	}
	return events
}

// Filling is the result of Fill: the number of placed jobs and the cost of placing them.
type Filling struct {
	Placed    int
	Decisions int
	Decide    rounds.Lap
	Apply     rounds.Lap // cost of applying the committed plans
}

// Fill makes and commits decisions. It stops when it has placed the given number of
// jobs, or when no more jobs fit.
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
