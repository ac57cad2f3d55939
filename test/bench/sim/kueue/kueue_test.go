package kueue

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// BenchmarkKueue runs the three workloads of Kueue's performance tests.
// Decisions take no virtual time. The time until the last job ends therefore
// shows only the effect of queue order and quotas. The table also shows the
// processor time of the decisions. Kueue's published figure includes the run
// time of the workload, the time for decisions and the overhead of a real
// cluster.
func BenchmarkKueue(b *testing.B) {
	for range b.N {
		rows := [][]string{{"workload", "jobs", "queues", "no scheduler below, s", "Ares, virtual s", "CPU s, one thread", "jobs a CPU second", "Kueue, s"}}
		for _, name := range rounds.Sized(sim.Workloads(), sim.Workloads()[:1]) {
			rows = append(rows, play(b, name))
		}
		if err := rounds.Table(os.Stdout, "Kueue's workloads in virtual time; Kueue's figures are published", rows); err != nil {
			b.Fatal(err)
		}
	}
}

func play(b *testing.B, name string) []string {
	b.Helper()
	w, err := sim.WorkloadNamed(name)
	if err != nil {
		b.Fatal(err)
	}
	var lap rounds.Lap
	var r sim.Report
	lap.Time(func() {
		world := sim.NewWorld(w.Fleet, sim.Policy{Name: "ares", Engine: config.Default()})
		err = world.Run(w.Trace, 0, nil)
		r = world.Report()
	})
	if err != nil {
		b.Fatal(err)
	}
	if r.Ended != len(w.Trace.Arrivals) {
		b.Fatalf("%s: of %d jobs %d ended", name, len(w.Trace.Arrivals), r.Ended)
	}
	queues := 0
	for _, t := range w.Fleet.Shares {
		queues += len(t.Queues)
	}
	took := r.Virtual + w.Trace.Arrivals[0].At.Seconds() // Kueue's clock starts with its generator
	cpu := lap.Thread.Seconds()
	return []string{
		name, fmt.Sprint(r.Jobs), fmt.Sprint(queues), seconds(w.Bound), fmt.Sprintf("%.1f", took), fmt.Sprintf("%.1f", cpu), fmt.Sprintf("%.0f", float64(r.Jobs)/cpu),
		seconds(w.Published),
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
