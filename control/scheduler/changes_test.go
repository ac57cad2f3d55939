package scheduler_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestChangesOfAPreemptionAreGroups checks that a plan with preemptions is written in groups. Each
// group has one nomination and the stop requests for its victims.
func TestChangesOfAPreemptionAreGroups(t *testing.T) {
	noon := storetest.Noon
	state, events := engine.New(), []ares.Event(nil)
	job := func(name string, running bool) ares.JobID {
		spec := storetest.Sleep()
		spec.RequestID, spec.Tenant = name, "a"
		j := &ares.Job{Spec: spec.WithDefaults(), ID: ares.NewJobID("a", name), AcceptedAt: noon, Revision: 1}
		events = append(events, ares.Event{Revision: 1, Job: j})
		if running {
			run := ares.NewRun(noon)
			if err := run.Place([]ares.Seat{{Node: "n"}}, 0, noon); err != nil {
				t.Fatal(err)
			}
			run.Revision, run.Last().Fence = 1, 1
			events = append(events, ares.Event{Revision: 1, Run: &ares.RunEvent{Job: j.ID, Run: run}})
		}
		return j.ID
	}
	nominated := func(name string) ares.JobID {
		id := job(name, false)
		run := ares.NewRun(noon)
		if err := run.Nominate(ares.Nomination{At: noon}); err != nil {
			t.Fatal(err)
		}
		run.Revision = 1
		events = append(events, ares.Event{Revision: 1, Run: &ares.RunEvent{Job: id, Run: run}})
		return id
	}
	big, small, early, stays, moves := job("big", false), job("small", false), nominated("early"), nominated("stays"), nominated("moves")
	v1, v2, v3, v4, drained := job("v1", true), job("v2", true), job("v3", true), job("v4", true), job("drained", true)
	state.Apply(ares.Batch{Revision: 1, Events: events})

	stop := func(id, to ares.JobID) ares.Stopping {
		return ares.Stopping{Job: id, Stop: ares.Stop{Why: ares.StopPreempt, At: noon, Preemption: &ares.Preemption{To: to}}}
	}
	plan := &ares.Plan{
		Now: noon.Add(time.Minute),
		Stop: []ares.Stopping{
			stop(v1, big), stop(v2, small), stop(v3, big),
			stop(v4, stays), // belongs to an earlier nomination
			{Job: drained, Stop: ares.Stop{Why: ares.StopDrain, At: noon}},
		},
		Nominate: []ares.Nominating{{Job: small}, {Job: big}, {Job: moves, Nomination: ares.Nomination{Why: ares.PreemptByQuota}}},
		Withdraw: []ares.Withdrawing{{Job: early, Why: "late"}, {Job: moves, Why: "elsewhere"}},
	}
	want := []struct {
		job, group ares.JobID
	}{
		{v4, ""},
		{drained, ""},
		{small, small},
		{v2, small},
		{big, big},
		{v1, big},
		{v3, big},
		{moves, moves},
		{early, ""},
	}
	got := scheduler.Changes(state, plan)
	if len(got) != len(want) {
		t.Fatalf("%d changes: %+v", len(got), got)
	}
	runs := map[ares.JobID]store.Change{}
	for i, c := range got {
		if c.Job != want[i].job || c.Group != want[i].group || c.New {
			t.Errorf("change %d is %s of group %q, want %s of %q", i, c.Job, c.Group, want[i].job, want[i].group)
		}
		runs[c.Job] = c
	}
	if n := runs[moves].Next.Nominated; n == nil || n.Why != ares.PreemptByQuota || len(runs[moves].Next.Transitions) != 4 {
		t.Errorf("nominated anew: %+v", runs[moves].Next)
	}
	if runs[early].Next.Nominated != nil || runs[small].Next.Nominated == nil || runs[v2].Next.Stop == nil {
		t.Error("withdrawn, nominated and stopped jobs are not")
	}
}
