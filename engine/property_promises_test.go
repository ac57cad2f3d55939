package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestFirmPromisesAreKept: where every run is as long as foreseen and no node goes,
// a job starts no later than it was firmly promised first, with its slack. It is the
// first in line who is; the others may still be delayed by those ahead of them.
func TestFirmPromisesAreKept(t *testing.T) {
	promised, kept := 0, 0
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
		first := map[ares.JobID]time.Time{} // the latest that was promised first
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
			promised++
			run, _ := w.State.Run(id)
			if len(run.Attempts) == 0 {
				if w.Now.After(latest) {
					t.Errorf("seed %d: %s was promised a start by %s and waits at %s", seed, id, latest, w.Now)
				}
				continue
			}
			kept++
			if at := run.Attempts[0].PlacedAt; at.After(latest) {
				t.Errorf("seed %d: %s was promised a start by %s and started at %s", seed, id, latest, at)
			}
		}
	}
	t.Logf("%d promises, %d jobs started", promised, kept)
	if kept < 20 {
		t.Errorf("only %d jobs had a place kept and started: the law was not put to the test", kept)
	}
}
