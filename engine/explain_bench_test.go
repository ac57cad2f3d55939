package engine_test

import (
	"fmt"
	"runtime"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// BenchmarkExplainFull explains one job after another of 100,000 that wait
// before a full fleet of 10,000 nodes, each with its remedies.
func BenchmarkExplainFull(b *testing.B) {
	s := waitingFleet(10_000, 200_000, openb)
	fill(b, s, 200_000)
	engine.Decide(s, enginetest.Epoch)
	var waiting []ares.JobID
	for job, run := range s.Jobs() {
		if run == nil {
			waiting = append(waiting, job.ID)
		}
	}
	b.ReportAllocs()
	kinds := map[string]int{}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	i, begin := 0, threadTime(b)
	for b.Loop() {
		i = (i + 7919) % len(waiting)
		e := engine.Explain(s, waiting[i], enginetest.Epoch)
		if len(e.Blockers) == 0 {
			b.Fatal("no blockers")
		}
		key := "none"
		if len(e.Remedies) > 0 {
			key = fmt.Sprintf("%d steps", len(e.Remedies[0]))
		}
		kinds[key]++
	}
	b.ReportMetric(float64((threadTime(b)-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.Log(len(waiting), "wait;", kinds)
}
