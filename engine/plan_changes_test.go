package engine_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// TestPlanChangesOfAnArray uses a plan that creates array elements and places a job. The new elements must be
// part of their array's change, the job must get a new attempt, and the state must not change.
func TestPlanChangesOfAnArray(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	job := func(id ares.JobID, spec ares.Spec) ares.Event {
		spec.Command, spec.Tenant, spec.CPUs = []string{"true"}, "a", 1
		return ares.Event{Revision: 1, Job: &ares.Job{Spec: spec.WithDefaults(), ID: id, AcceptedAt: noon, Revision: 1}}
	}
	state := engine.New()
	state.Apply(ares.Batch{Revision: 1, Events: []ares.Event{
		job("job-sweep", ares.Spec{Array: ares.Array{Count: 3, Parallelism: 2}}), job("job-one", ares.Spec{}),
	}})
	seat := []ares.Seat{{Node: "n", CPUs: 1}}
	first, second := ares.ElementID("job-sweep", 0), ares.ElementID("job-sweep", 1)
	plan := &ares.Plan{
		Revision: 1, Now: noon,
		Place: []ares.Placing{
			{Job: first, ArrayOf: "job-sweep", Index: 0, Seats: seat},
			{Job: "job-one", Seats: seat},
			{Job: second, ArrayOf: "job-sweep", Index: 1, Seats: seat},
		},
		Arrays: []ares.ArrayStep{{Job: "job-sweep", Next: 2}},
	}
	later := noon.Add(time.Minute)
	changes, err := engine.PlanChanges(state, plan, later)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 2 || changes[0].Kind != engine.ChangeAdvance || changes[1].Kind != engine.ChangePlace {
		t.Fatalf("changes: %+v", changes)
	}
	array, one := &changes[0], &changes[1]
	if array.Job != "job-sweep" || array.Run.Phase != ares.Running || array.Run.Next != 2 || len(array.Elements) != 2 {
		t.Errorf("the array: %+v", array)
	}
	for i, id := range []ares.JobID{first, second} {
		if e := &array.Elements[i]; e.Job.ID != id || e.Run.Current() == nil || !e.Run.Current().PlacedAt.Equal(later) {
			t.Errorf("element %d: %+v", i, e)
		}
	}
	if one.Job != "job-one" || one.Run.Current() == nil || !one.Run.Current().PlacedAt.Equal(later) {
		t.Errorf("the job: %+v", one)
	}
	if run, _ := state.Run("job-one"); run.Phase != ares.Pending {
		t.Errorf("the state was changed: %+v", run)
	}
	if _, err := engine.PlanChanges(state, &ares.Plan{Ready: []ares.JobID{"job-one"}}, later); err == nil {
		t.Error("a waiting job without a delay was readied")
	}
}
