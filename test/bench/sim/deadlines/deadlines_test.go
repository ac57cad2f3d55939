package deadlines

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The variable `fleets` lists the cluster sizes to try, each with the reason for its size.
var fleets = []struct {
	machines int
	why      string
}{
	{184, "FIFO is late with one job in ten"},
	{168, "FIFO is late with two in five, FIFO + backfill with one in nine"},
	{156, "FIFO is late with more than half, FIFO + backfill with one in five"},
	{144, "the jobs ask for 95 % of the GPUs on average"},
}

// A `line` is one row of the result table: a policy, and the runtimes that the policy
// knows.
type line struct {
	name     string
	policy   string
	estimate string
	apart    bool // it has knowledge that no real scheduler has
}

var lines = []line{
	{name: "FIFO", policy: "fifo"},
	{name: "FIFO + backfill", policy: "fifo-backfill"},
	{name: "EDF", policy: "edf"},
	{name: "EDF + backfill", policy: "edf-backfill"},
	{name: "Ares, no estimates", policy: "ares"},
	{name: "Ares, forecast", policy: "ares", estimate: sim.EstimateForecast},
	{name: "(Ares, oracle)", policy: "ares", estimate: sim.EstimateOracle, apart: true},
}

func read(b *testing.B) *sim.Trace {
	b.Helper()
	traces := os.Getenv("ARES_TRACES")
	if traces == "" {
		b.Fatal("ARES_TRACES does not say where the traces are: see docs/guide/simulator.md")
	}
	file, err := os.Open(filepath.Join(traces, "philly", "philly_deadlines.csv"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	t, err := sim.Read("deadlines", file)
	if err != nil {
		b.Fatal(err)
	}
	for i := range t.Arrivals {
		t.Arrivals[i].Spec.Tenant = "" // all jobs share one queue
	}
	return t
}

// BenchmarkDeadlines prints how many jobs miss their deadlines on each cluster.
func BenchmarkDeadlines(b *testing.B) {
	trace := read(b)
	for range b.N {
		for _, f := range fleets {
			if err := rounds.Table(os.Stdout, fmt.Sprintf("%d jobs, %d machines × 8 GPUs: %s", len(trace.Arrivals), f.machines, f.why), table(b, trace, f.machines)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func table(b *testing.B, trace *sim.Trace, machines int) [][]string {
	b.Helper()
	rows := [][]string{{"", "missed", "share", "mean completion, s", "p99 wait, s", "longest wait, s", "preemptions", "took"}}
	for _, l := range lines {
		p, err := sim.PolicyNamed(l.policy)
		if err != nil {
			b.Fatal(err)
		}
		p.Estimate = l.estimate
		began := time.Now()
		w := sim.NewWorld(&sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: machines, GPUs: 8, CPUs: 64, MemoryMB: 1 << 20}}}, p)
		if err := w.Run(trace, 0, nil); err != nil {
			b.Fatal(err)
		}
		took, r := time.Since(began), w.Report()
		if r.Ended != r.Jobs {
			b.Fatalf("%s: %d of %d jobs have ended", l.name, r.Ended, r.Jobs)
		}
		d := r.Deadline
		rows = append(rows, []string{
			l.name, fmt.Sprint(d.Missed), fmt.Sprintf("%.1f %%", 100*float64(d.Missed)/float64(d.Jobs)), fmt.Sprintf("%.1f", r.Complete.Mean),
			fmt.Sprintf("%.0f", r.Wait.P99), fmt.Sprintf("%.0f", r.Wait.Max), fmt.Sprint(r.Preempted), fmt.Sprintf("%.1f s", took.Seconds()),
		})
	}
	return rows
}
