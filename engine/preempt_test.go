package engine_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// fullCluster returns a cluster of 8-GPU nodes that are full of best-effort jobs. All these jobs have
// the same size and started an hour ago. Jobs of the tenant `ops` may preempt other jobs.
func fullCluster(t *testing.T, nodes, gpus int, cfg config.Config) *enginetest.Cluster {
	t.Helper()
	w := enginetest.NewClusterWithConfig(cfg)
	w.PutEvents(ares.Event{Tenant: &ares.Tenant{ID: "ops", Limits: ares.NoLimits(), MayPreempt: true}})
	for i := range nodes {
		w.AddNode(*nodeOf(fmt.Sprintf("n%03d", i), 8))
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

// decideAndCommit runs one cycle, checks all laws, and commits the plan.
func decideAndCommit(t *testing.T, w *enginetest.Cluster) ares.Plan {
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

// stoppedBy returns the devices that the victims of a nomination hold, in thousandths.
func stoppedBy(n *ares.Nomination) (milli int64) {
	for _, v := range n.Victims {
		milli += v.Preemption.Milli
	}
	return milli
}

// TestVictimsHoldNoMoreThanNeeded checks that the victims for a request of 48 GPUs hold exactly 48 GPUs. The size
// of the running jobs must not matter. For comparison, the KAI scheduler stopped jobs that held 376 GPUs. The
// victim for a request of one GPU must hold one GPU. For comparison, Volcano stopped jobs that held ten GPUs.
func TestVictimsHoldNoMoreThanNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ gpus, members, each, want int }{
		{1, 6, 8, 48}, {8, 6, 8, 48}, {4, 6, 8, 48}, {1, 1, 1, 1}, {2, 1, 1, 2}, {16, 6, 8, 48}, {4, 12, 4, 48},
	} {
		w := fullCluster(t, 47, c.gpus, enginetest.AgedConfig())
		w.Submit("urgent", ares.Spec{Tenant: "ops", Members: c.members, GPUs: c.each, Priority: new(2000)})
		plan := decideAndCommit(t, w)
		if len(plan.Nominate) != 1 {
			t.Fatalf("%+v: %+v", c, plan.Refuse)
		}
		if got := stoppedBy(&plan.Nominate[0].Nomination); got > int64(c.want)*1000 {
			t.Errorf("%d GPUs requested: victims hold %d/1000, running jobs have %d GPUs each", c.members*c.each, got, c.gpus)
		}
	}
}

// TestManyVictims checks a nomination with more victims than one plan may stop. The next plans must stop the
// remaining victims. This must also be true for plans of a new leader, which knows only the stored records. Jobs
// that are not victims must not be stopped.
func TestManyVictims(t *testing.T) {
	t.Parallel()
	cfg := enginetest.AgedConfig()
	cfg.Preemption.PerTenant = 0
	w := fullCluster(t, 80, 1, cfg)
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
		t.Fatalf("%d more jobs are stopped", len(plan.Stop))
	}
}

// TestManyNominations checks that no more than config.MaxNominations jobs are nominated at the same time.
func TestManyNominations(t *testing.T) {
	t.Parallel()
	cfg := enginetest.AgedConfig()
	cfg.Preemption.PerTenant = 0
	w := fullCluster(t, 12, 1, cfg)
	for i := range config.MaxNominations + 8 {
		w.Submit(ares.JobID(fmt.Sprintf("urgent%03d", i)), ares.Spec{Tenant: "ops", GPUs: 1, Priority: new(2000)})
	}
	nominated := 0
	for range 5 {
		plan := engine.Decide(w.State, w.Now)
		nominated += len(plan.Nominate)
		if err := w.ApplyPlan(plan); err != nil {
			t.Fatal(err)
		}
	}
	if nominated != config.MaxNominations {
		t.Errorf("%d jobs are nominated", nominated)
	}
	last := engine.Decide(w.State, w.Now)
	if err := enginetest.CheckPlan(w.State, last); err != nil || !last.Empty() {
		t.Errorf("%v, %d more nominations", err, len(last.Nominate))
	}
}

// TestNoPreemptionCycle checks a job that was preempted to reclaim quota. Even with a higher priority class,
// the job must not preempt its preemptor, either directly or through other jobs.
func TestNoPreemptionCycle(t *testing.T) {
	t.Parallel()
	w := enginetest.NewCluster()
	w.PutEvents(ares.Event{Tenant: &ares.Tenant{ID: "ops", Limits: ares.NoLimits(), MayPreempt: true}})
	w.AddNode(*nodeOf("n", 1))
	w.Submit("low", ares.Spec{GPUs: 1, Priority: new(0)})
	decideAndCommit(t, w)
	w.Now = w.Now.Add(time.Hour)
	w.Submit("high", ares.Spec{Tenant: "ops", GPUs: 1, Priority: new(2000)})
	// According to the stored runs, the job `low` has preempted a job that had preempted the job `high`.
	for _, link := range [][2]ares.JobID{{"between", "low"}, {"high", "between"}} {
		run := ares.NewRun(w.Now)
		run.Attempts = []ares.Attempt{{Number: 1, Outcome: ares.OutcomeStopped, Preemption: &ares.Preemption{To: link[1], Why: ares.PreemptByQuota}}}
		run.Preemptions = 1
		if _, known := w.State.Job(link[0]); !known {
			w.Submit(link[0], ares.Spec{GPUs: 1, Priority: new(0), After: []string{"never"}})
		}
		w.PutEvents(ares.Event{Run: &ares.RunEvent{Job: link[0], Run: run}})
	}
	if plan := engine.Decide(w.State, w.Now); len(plan.Stop) != 0 {
		t.Errorf("%+v: a job preempts its own preemptor", plan.Stop)
	}
}

// TestProtectedVictimEndsNomination checks that a nomination ends when a victim is protected before it was asked to
// stop, and that another job is then preempted.
func TestProtectedVictimEndsNomination(t *testing.T) {
	w := fullCluster(t, 1, 4, config.Default())
	w.Submit("urgent", ares.Spec{Tenant: "ops", GPUs: 4, Priority: new(2000)})
	first := decideAndCommit(t, w)
	if len(first.Stop) != 1 {
		t.Fatalf("the first plan stops %v", first.Stop)
	}
	victim := first.Stop[0].Job
	run, _ := w.State.Run(victim)
	run.Stop = nil // as if the plan had been too full for this stop
	w.PutEvents(
		ares.Event{Run: &ares.RunEvent{Job: victim, Run: run}},
		ares.Event{Protect: &ares.Protection{Job: victim, Why: "a rule of another system"}},
	)
	second := decideAndCommit(t, w)
	if len(second.Stop) != 1 || second.Stop[0].Job == victim {
		t.Errorf("%s is protected, and the second plan stops %v", victim, second.Stop)
	}
	w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(victim)}})
	if why, ok := w.State.Protection(victim); ok {
		t.Errorf("the protection of a deleted job is kept: %s", why)
	}
}
