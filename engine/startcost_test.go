package engine_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestCostOfStartConditions checks that a user cannot slow down the scheduler with start conditions: neither with changes of
// a job that many jobs wait for, nor with one singleton after another.
func TestCostOfStartConditions(t *testing.T) {
	const jobs = 40_000
	s := engine.New()
	parent := job("parent", 5, ares.Spec{GPUs: 1})
	events := append(open(nodeOf("n", 1)), tenantEvent("default"), ares.Event{Job: parent})
	waits := &ares.StartConditions{Dependencies: []ares.Dependency{{Type: ares.AfterOK, Job: "parent"}, {Type: ares.AfterAny, Job: "parent"}}}
	for i := range jobs {
		events = append(events, ares.Event{Job: job(ares.ElementID("other", i), int64(6+i), ares.Spec{GPUs: 1, Name: "same", Start: waits})})
	}
	revision := int64(jobs + 10)
	s.Apply(ares.Batch{Revision: revision, Events: events})
	apply := func(e ares.Event) {
		revision++
		s.Apply(ares.Batch{Revision: revision, Events: []ares.Event{e}})
	}

	run := ares.NewRun(enginetest.StartTime)
	began := time.Now()
	for i := range 300 {
		if _, err := run.Update(parent, ares.JobUpdate{Labels: map[string]string{"step": fmt.Sprint(i)}}, "ann", enginetest.StartTime); err != nil {
			t.Fatal(err)
		}
		apply(ares.Event{Run: &ares.RunEvent{Job: "parent", Run: run.Clone()}})
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("300 changes of a job that %d jobs wait for take %s", jobs, took)
	}

	began = time.Now()
	for range 20 {
		single := job("single", revision, ares.Spec{GPUs: 1, Name: "same", Start: &ares.StartConditions{Dependencies: []ares.Dependency{{Type: ares.Singleton}}}})
		apply(ares.Event{Job: single})
		apply(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: "single"}})
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20 singletons, one after another, among %d jobs take %s", jobs, took)
	}
}
