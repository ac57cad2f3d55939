package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// crowded is a fleet of 8-GPU nodes full of jobs of some size, an hour old, and
// a tenant that may preempt.
func crowded(t *testing.T, nodes, gpus int, cfg config.Config) *enginetest.Cluster {
	t.Helper()
	w := enginetest.NewClusterWithConfig(cfg)
	w.PutEvents(ares.Event{Tenant: &ares.Tenant{ID: "ops", Limits: ares.NoLimits(), MayPreempt: true}})
	for i := range nodes {
		w.AddNode(*machineOf(fmt.Sprintf("n%03d", i), 8))
	}
	for i := range nodes * 8 / gpus {
		w.Submit(ares.JobID(fmt.Sprintf("low%04d", i)), ares.Spec{GPUs: min(gpus, 8), Members: max(gpus/8, 1), Priority: new(0)})
	}
	for {
		plan := engine.Decide(w.State, w.Now)
		if len(plan.Place) == 0 {
			break
		}
		if err := w.ApplyPlan(plan); err != nil {
			t.Fatal(err)
		}
	}
	w.Now = w.Now.Add(time.Hour)
	return w
}

// decided decides with all laws, and commits.
func decided(t *testing.T, w *enginetest.Cluster) ares.Plan {
	t.Helper()
	plan, err := w.Decide()
	if err == nil {
		err = w.Commit(plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func stoppedBy(n *ares.Nomination) (milli int64) {
	for _, v := range n.Victims {
		milli += v.Yield.Milli
	}
	return milli
}

// TestNoMoreThanIsNeeded: 48 GPUs asked for stop 48, however large the jobs are
// that could be stopped (KAI stopped 376), and one stops one (Volcano ten).
func TestNoMoreThanIsNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ gpus, members, each, want int }{
		{1, 6, 8, 48}, {8, 6, 8, 48}, {4, 6, 8, 48}, {1, 1, 1, 1}, {2, 1, 1, 2}, {16, 6, 8, 48}, {4, 12, 4, 48},
	} {
		w := crowded(t, 47, c.gpus, config.Default())
		w.Submit("urgent", ares.Spec{Tenant: "ops", Members: c.members, GPUs: c.each, Priority: new(2000)})
		plan := decided(t, w)
		if len(plan.Nominate) != 1 {
			t.Fatalf("%+v: %+v", c, plan.Refuse)
		}
		if got := stoppedBy(&plan.Nominate[0].Nomination); got > int64(c.want)*1000 {
			t.Errorf("%d GPUs asked for: %d/1000 are stopped of jobs of %d", c.members*c.each, got, c.gpus)
		}
	}
}

// TestManyVictims: a nomination with more victims than one plan may stop goes on in
// the next ones, also by a leader that knows nothing but the records, and nobody
// else is stopped.
func TestManyVictims(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Preemption.PerTenant = 0
	w := crowded(t, 80, 1, cfg)
	w.Submit("urgent", ares.Spec{Tenant: "ops", Members: 80, GPUs: 8, Priority: new(2000)})
	w.Submit("next", ares.Spec{Tenant: "ops", GPUs: 1, Priority: new(2000)})
	plan := engine.Decide(w.State, w.Now)
	if len(plan.Nominate) != 1 || len(plan.Nominate[0].Nomination.Victims) != 640 || len(plan.Stop) != config.MaxPlacings || !plan.Wake.Equal(w.Now) {
		t.Fatalf("%d nominations, %d stops, wake at %s", len(plan.Nominate), len(plan.Stop), plan.Wake)
	}
	if err := w.ApplyPlan(plan); err != nil {
		t.Fatal(err)
	}
	leader, err := w.StateFromSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	plan = engine.Decide(leader, w.Now)
	if len(plan.Nominate) != 0 || len(plan.Stop) != 140 {
		t.Fatalf("the next leader nominates %d and stops %d", len(plan.Nominate), len(plan.Stop))
	}
	if err := w.ApplyPlan(plan); err != nil {
		t.Fatal(err)
	}
	if plan = engine.Decide(w.State, w.Now); !plan.Empty() {
		t.Fatalf("%d more are stopped", len(plan.Stop))
	}
}

// TestManyNominations: seats are kept for so many jobs at once, and no more.
func TestManyNominations(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Preemption.PerTenant = 0
	w := crowded(t, 12, 1, cfg)
	for i := range config.MaxNominations + 8 {
		w.Submit(ares.JobID(fmt.Sprintf("urgent%03d", i)), ares.Spec{Tenant: "ops", GPUs: 1, Priority: new(2000)})
	}
	kept := 0
	for range 5 {
		plan := engine.Decide(w.State, w.Now)
		kept += len(plan.Nominate)
		if err := w.ApplyPlan(plan); err != nil {
			t.Fatal(err)
		}
	}
	if kept != config.MaxNominations {
		t.Errorf("seats are kept for %d", kept)
	}
	last := engine.Decide(w.State, w.Now)
	if err := enginetest.CheckPlan(w.State, last); err != nil || !last.Empty() {
		t.Errorf("%v, %d more", err, len(last.Nominate))
	}
}

// TestNobodyStopsHisStopper: a job that gave way to another by a quota does not
// stop it in turn by its class, by however many jobs between.
func TestNobodyStopsHisStopper(t *testing.T) {
	t.Parallel()
	w := enginetest.NewCluster()
	w.PutEvents(ares.Event{Tenant: &ares.Tenant{ID: "ops", Limits: ares.NoLimits(), MayPreempt: true}})
	w.AddNode(*machineOf("n", 1))
	w.Submit("low", ares.Spec{GPUs: 1, Priority: new(0)})
	decided(t, w)
	w.Now = w.Now.Add(time.Hour)
	w.Submit("high", ares.Spec{Tenant: "ops", GPUs: 1, Priority: new(2000)})
	// As if low had once stopped somebody to whom high gave way.
	for _, link := range [][2]ares.JobID{{"between", "low"}, {"high", "between"}} {
		run := ares.NewRun(w.Now)
		run.Attempts = []ares.Attempt{{Number: 1, Outcome: ares.OutcomeStopped, Yield: &ares.Yield{To: link[1], Why: ares.YieldQuota}}}
		run.Yields = 1
		if _, known := w.State.Job(link[0]); !known {
			w.Submit(link[0], ares.Spec{GPUs: 1, Priority: new(0), After: []string{"never"}})
		}
		w.PutEvents(ares.Event{Run: &ares.RunEvent{Job: link[0], Run: run}})
	}
	if plan := engine.Decide(w.State, w.Now); len(plan.Stop) != 0 {
		t.Errorf("%+v is stopped by whom it had stopped", plan.Stop)
	}
}
