package philly

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim"
)

// A `setting` is a policy, and whether every job allows preemption.
type setting struct {
	name, policy string
	preemptible  bool
}

// The first setting is the one that the others are compared with.
var settings = []setting{
	{name: "FIFO + backfill", policy: "fifo-backfill"},
	{name: "Ares, default", policy: "ares"},
	{name: "shortest first, true durations", policy: "sjf-backfill"},
	{name: "Ares, every job allows preemption", policy: "ares", preemptible: true},
	{name: "Tiresias-style", policy: "tiresias", preemptible: true},
}

// leastRuntime is the shortest runtime by which a slowdown is divided.
const leastRuntime = time.Minute

// BenchmarkDefault replays the trace under the default policy of Ares, on all machines and on half of them. All
// policies use the placement of Ares. A checkpoint takes 30 s. Jobs that do not fit into half of their pool are left
// out there.
func BenchmarkDefault(b *testing.B) {
	for range b.N {
		for _, part := range []struct {
			name    string
			divisor int
		}{{"all machines", 1}, {"half of the machines", 2}} {
			trace, machines := read(b), fleet()
			room := map[string]int{}
			for i := range machines.Machines {
				m := &machines.Machines[i]
				m.Count = (m.Count + part.divisor - 1) / part.divisor
				room[m.Labels["pool"]] = m.Count * m.GPUs
			}
			trace.Arrivals = slices.DeleteFunc(trace.Arrivals, func(a sim.Arrival) bool { return max(a.Spec.Members, 1)*a.Spec.GPUs > room[a.Spec.Tenant] })
			print(b, fmt.Sprintf("%d jobs, %s", len(trace.Arrivals), part.name), compare(b, trace, machines))
		}
	}
}

// The function `compare` replays a trace in each setting and returns the rows of the table.
func compare(b *testing.B, trace *sim.Trace, machines *sim.Fleet) [][]string {
	b.Helper()
	rows := [][]string{{
		"", "mean completion, s", "÷ FIFO + backfill", "worst by GPU count", "p99 of bounded slowdown", "÷ FIFO + backfill", "longest delay, days",
		"preemptions", "most of one job", "took",
	}}
	var first sim.Report
	var slow float64
	for i, s := range settings {
		p, err := sim.PolicyNamed(s.policy)
		if err != nil {
			b.Fatal(err)
		}
		some := *trace
		if s.preemptible {
			p.CheckpointSeconds = 30
			some.Arrivals = slices.Clone(trace.Arrivals)
			for k := range some.Arrivals {
				some.Arrivals[k].Spec.Checkpoint.Enabled = true
			}
		}
		began := time.Now()
		w := sim.NewWorld(machines, p)
		if err := w.Run(&some, 0, nil); err != nil {
			b.Fatal(err)
		}
		took, r, slowdown := time.Since(began), w.Report(), w.BoundedSlowdown(leastRuntime).P99
		if r.Ended != r.Jobs {
			b.Fatalf("%s: %d of %d jobs have ended", s.name, r.Ended, r.Jobs)
		}
		if i == 0 {
			first, slow = r, slowdown
		}
		rows = append(rows, []string{
			s.name, fmt.Sprintf("%.0f", r.Complete.Mean), fmt.Sprintf("%.2f", r.Complete.Mean/first.Complete.Mean), worst(&r, &first),
			fmt.Sprintf("%.1f", slowdown), fmt.Sprintf("%.2f", slowdown/slow), fmt.Sprintf("%.1f", r.Delay.Max/86400),
			fmt.Sprint(r.Preempted), fmt.Sprint(r.PreemptedMost), fmt.Sprintf("%.0f s", took.Seconds()),
		})
	}
	return rows
}

// The function `worst` returns the largest ratio of mean completion times among the groups of jobs by GPU count.
func worst(r, base *sim.Report) string {
	most, of := 0.0, ""
	for i := range r.ByGPUs {
		g := &r.ByGPUs[i]
		if ratio := g.Complete.Mean / base.GPUsNamed(g.Name).Complete.Mean; ratio > most {
			most, of = ratio, g.Name
		}
	}
	return fmt.Sprintf("%.2f (%s)", most, sim.CountText(of))
}
