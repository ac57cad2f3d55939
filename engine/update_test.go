package engine_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestAnUpdatedJob checks that an update in a job's run changes the order of the queue, whether the job or its run is
// applied first.
func TestAnUpdatedJob(t *testing.T) {
	for _, runFirst := range []bool{false, true} {
		s := engine.New()
		updated := ares.NewRun(enginetest.StartTime)
		priority := 900
		if _, err := updated.Update(job("b", 6, ares.Spec{GPUs: 1}), ares.JobUpdate{Priority: &priority}, "ann", enginetest.StartTime); err != nil {
			t.Fatal(err)
		}
		updated.Revision = 7
		first := ares.Event{Job: job("a", 5, ares.Spec{GPUs: 1})}
		second := ares.Event{Job: job("b", 6, ares.Spec{GPUs: 1})}
		run := ares.Event{Run: &ares.RunEvent{Job: "b", Run: updated}}
		events := append(open(nodeOf("n", 1)), tenantEvent("default"), first)
		if runFirst {
			s.Apply(ares.Batch{Revision: 7, Reset: true, Events: append(events, run, second)})
		} else {
			s.Apply(ares.Batch{Revision: 6, Events: append(events, second)})
			s.Apply(ares.Batch{Revision: 7, Events: []ares.Event{run}})
		}
		check(t, s)
		if j, _ := s.Job("b"); j.PriorityValue() != 900 {
			t.Errorf("run first %t: priority %d", runFirst, j.PriorityValue())
		}
		plan := engine.Decide(s, enginetest.StartTime)
		if len(plan.Place) != 1 || plan.Place[0].Job != "b" {
			t.Errorf("run first %t: placed %+v", runFirst, plan.Place)
		}
		check(t, s)
	}
}
