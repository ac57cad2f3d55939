package philly

import (
	"fmt"
	"testing"

	"github.com/ares-scheduler/ares/sim"
)

// BenchmarkPreemptible compares the default for jobs that allow preemption with Tiresias-style scheduling, on the whole
// fleet and on half of it. In both, a preempted job needs 30 s to save its progress.
func BenchmarkPreemptible(b *testing.B) {
	trace := read(b)
	for range b.N {
		for _, half := range []bool{false, true} {
			f := fleet()
			for i := range f.Machines {
				if half {
					f.Machines[i].Count = (f.Machines[i].Count + 1) / 2
				}
			}
			fmt.Printf("\n%d jobs, half the fleet: %t\n%-34s %12s %12s %8s %12s %14s\n", len(trace.Arrivals), half, "", "completion s", "waiting s", "stops", "most a job", "lost GPU-hours")
			for _, l := range []line{
				{name: "FIFO + backfill", policy: "fifo-backfill"},
				{name: "Tiresias-style, 30 s to save", policy: "tiresias", saving: 30},
				{name: "Ares, default", policy: "ares"},
				{name: "Ares, default, jobs preemptible", policy: "ares-preemptible", saving: 30},
			} {
				p, err := sim.PolicyNamed(l.policy)
				if err != nil {
					b.Fatal(err)
				}
				p.CheckpointSeconds = l.saving
				w := sim.NewWorld(f, p)
				if err := w.Run(trace, 0, nil); err != nil {
					b.Fatal(err)
				}
				r := w.Report()
				fmt.Printf("%-34s %12.0f %12.0f %8d %12d %14.1f\n", l.name, r.Complete.Mean, r.Wait.Mean, r.Preempted, r.PreemptedMost, r.Lost/3600)
			}
		}
	}
}
