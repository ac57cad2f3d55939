package engine_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// TestConsolidation checks that consolidation breaks no law (invariant), and that the dry run shows the migrations
// of the next plan. After a migrated job has stopped, it should be placed again immediately. If the job is not
// placed immediately, the test only counts it. In the cases in testdata/consolidation this cannot be avoided.
func TestConsolidation(t *testing.T) {
	t.Parallel()
	moves, unsettled := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := newContendedCluster(t, true)
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "come") {
				m.submitMovable(t)
			}
			moves += m.settleMoving(t)
			for range rapid.IntRange(0, 4).Draw(t, "reports") {
				m.report(t)
			}
			if once(t, 8, "disturbed") {
				m.disturb(t)
			}
			m.w.Now = m.w.Now.Add(time.Duration(pick(t, "seconds", 10, 0, 100, 1000)) * time.Second)
		}
		unsettled += m.by["unsettled"]
	})
	t.Logf("%d jobs were migrated; after %d plans a migrated job had to wait", moves, unsettled)
}

// submitMovable is a variant of the method `submit`. Most of its jobs can be migrated, and they are either small
// or as large as a node.
func (m *contendedCluster) submitMovable(t *rapid.T) {
	if once(t, 3, "any") {
		m.submit(t)
		return
	}
	id := ares.JobID(fmt.Sprintf("j%03d", len(m.jobs)))
	s := ares.Spec{Tenant: pick(t, "tenant", "a", "b"), Members: pick(t, "members", 1, 1, 1, 2), GPUs: pick(t, "gpus", 1, 1, 4, 8, 2)}
	s.Checkpoint.Enabled = true
	m.w.Submit(id, s)
	m.jobs = append(m.jobs, id)
}

// settleMoving runs cycles in the same way as the method `settle`. In addition, settleMoving compares every plan
// with the dry run, and checks every migration on a copy of the cluster.
func (m *contendedCluster) settleMoving(t *rapid.T) (moves int) {
	for range 100 {
		shown := engine.Consolidate(m.w.State, m.w.Now)
		plan, err := m.w.Decide()
		if err != nil {
			t.Fatal(err)
		}
		var would, does []ares.JobID
		for i := range shown {
			would = append(would, shown[i].For)
		}
		for i := range plan.Nominate {
			if plan.Nominate[i].Nomination.Why == ares.PreemptByMove {
				does = append(does, plan.Nominate[i].Job)
				moves += len(plan.Nominate[i].Nomination.Victims)
			}
		}
		if !reflect.DeepEqual(would, does) {
			t.Fatalf("jobs are migrated for %v, the dry run showed %v", does, would)
		}
		if plan.Empty() {
			return moves
		}
		if m.w.CheckMoves(plan) != nil {
			m.by["unsettled"]++
		}
		if err := m.w.Commit(plan); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the plans do not settle within 100 cycles")
	return moves
}
