package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestFirmPlannedStartsAreMet checks that a job starts no later than its first firm planned start plus slack. In
// the test, runtimes are as predicted and no node is lost. Only the first blocked job has a firm planned start.
// Any other blocked job may still be delayed by the blocked jobs ahead of it.
func TestFirmPlannedStartsAreMet(t *testing.T) {
	planned, met := 0, 0
	for seed := uint64(1); seed <= 12; seed++ {
		dice := rand.New(rand.NewPCG(seed, 3))
		w := enginetest.NewCluster()
		do := func(format string, args ...any) {
			if err := w.RunLine(fmt.Sprintf(format, args...)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		do("node n gpus=%d count=%d", 1<<(1+dice.IntN(3)), 1+dice.IntN(4))
		w.UseFastChecks()
		first := map[ares.JobID]time.Time{} // latest start according to the first firm planned start
		jobs := 0
		for minute := range 600 {
			if minute < 240 && dice.IntN(3) == 0 {
				runs := 2 + dice.IntN(60)
				do("job j%03d members=%d gpus=%d runtime=%dm max-runtime-minutes=%d", jobs, 1+dice.IntN(3)/2*dice.IntN(4), 1<<dice.IntN(3), runs, runs)
				jobs++
			}
			do("simulate 1m quiet")
			for _, p := range w.State.PlannedStarts() {
				if _, ok := first[p.Job]; !ok && p.Firm {
					first[p.Job] = p.Latest
				}
			}
		}
		for id, latest := range first {
			planned++
			run, _ := w.State.Run(id)
			if len(run.Attempts) == 0 {
				if w.Now.After(latest) {
					t.Errorf("seed %d: %s has a firm planned start by %s and still waits at %s", seed, id, latest, w.Now)
				}
				continue
			}
			met++
			if at := run.Attempts[0].PlacedAt; at.After(latest) {
				t.Errorf("seed %d: %s has a firm planned start by %s and started at %s", seed, id, latest, at)
			}
		}
	}
	t.Logf("%d firm planned starts, %d jobs started", planned, met)
	if met < 20 {
		t.Errorf("only %d jobs with a firm planned start have started, want at least 20", met)
	}
}
