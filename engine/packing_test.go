package engine_test

import (
	"fmt"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestPacking submits 2,000 jobs of 1, 2, 4 or 8 GPUs one after the other to 1,000 nodes with 8 GPUs each. The
// test checks that all jobs start and that their 5,000 GPUs are on only 625 nodes. If placement did not pack jobs,
// no empty node would be left for the jobs that need 8 GPUs.
func TestPacking(t *testing.T) {
	w := enginetest.NewCluster()
	for i := range 1000 {
		w.AddNode(*nodeOf(fmt.Sprintf("n%03d", i), 8))
	}
	for i := range 2000 {
		gpus := []int{1, 1, 1, 1, 2, 2, 4, 8}[i%8]
		w.Submit(ares.JobID(fmt.Sprintf("j%04d", i)), ares.Spec{GPUs: gpus})
		plan := engine.Decide(w.State, w.Now)
		if len(plan.Place) != 1 {
			t.Fatalf("job %d of %d GPUs is not placed: %v", i, gpus, plan.Refuse)
		}
		if err := w.ApplyPlan(plan); err != nil {
			t.Fatal(err)
		}
	}
	check(t, w.State)
	busy := map[string]int{}
	for _, run := range w.State.Jobs() {
		seat := run.Last().Seats[0]
		busy[seat.Node] += len(seat.Shares)
	}
	if len(busy) != 625 {
		t.Errorf("5,000 GPUs are allocated on %d nodes, want 625", len(busy))
	}
}
