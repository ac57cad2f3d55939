package philly

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The benchmark uses the part of the trace between these times.
var (
	from = time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC)
	to   = time.Date(2017, 12, 1, 0, 0, 0, 0, time.UTC)
)

// The variable `pools` holds the number of machines of each virtual cluster before scaling.
var pools = map[string]int{
	"6214e9": 64, "b436b2": 64, "ee9e8c": 64, "7f04ca": 32, "6c71a0": 32, "0e4a51": 32,
	"11cb48": 16, "e13805": 16, "2869ce": 16, "ed69ec": 8, "103959": 8,
}

// The function `scaled` returns the number of machines times 0.3125, rounded up. For example, 64
// machines become 20, and 8 machines become 3.
func scaled(machines int) int { return (machines*10 + 31) / 32 }

// A `line` is one row of the result table: a policy, and the independent simulator's result for
// that policy.
type line struct {
	name      string
	policy    string
	placement config.PlacementPolicy
	sigma     float64 // standard deviation of the error of runtime estimates
	saving    int     // seconds that a preempted job loses
	published float64 // average completion time in seconds; 0 if none was published
}

// The benchmark reproduces the published results of the policies in this list.
var published = []line{
	{name: "FIFO", policy: "fifo", placement: config.PolicyBestFit, published: 62_920},
	{name: "EASY backfill, oracle", policy: "easy", placement: config.PolicyBestFit, published: 30_243},
	{name: "FIFO + backfill", policy: "fifo-backfill", placement: config.PolicyBestFit, published: 29_786},
	{name: "Tiresias-style", policy: "tiresias", placement: config.PolicyBestFit, published: 26_161},
	{name: "QSSF, error 2", policy: "qssf", placement: config.PolicyBestFit, sigma: 2, published: 23_595},
	{name: "QSSF + backfill, error 2", policy: "qssf-backfill", placement: config.PolicyBestFit, sigma: 2, published: 21_194},
	{name: "SJF, oracle", policy: "sjf", placement: config.PolicyBestFit, published: 19_686},
	{name: "SRTF, oracle", policy: "srtf", placement: config.PolicyBestFit, published: 16_946},
}

// The variable `own` lists policies that run with Ares's own placement.
var own = []line{
	{name: "Ares, default", policy: "ares"},
	{name: "FIFO", policy: "fifo"},
	{name: "Tiresias-style, 30 s to save", policy: "tiresias", saving: 30},
	{name: "SRTF, oracle, 30 s to save", policy: "srtf", saving: 30},
}

// The function `read` returns the jobs that were submitted in the measured months. Each job may
// run only in the pool of its virtual cluster.
func read(b *testing.B) *sim.Trace {
	b.Helper()
	traces := os.Getenv("ARES_TRACES")
	if traces == "" {
		b.Fatal("ARES_TRACES does not say where the traces are: see docs/guide/simulator.md")
	}
	file, err := os.Open(filepath.Join(traces, "philly", "philly.csv"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	t, err := sim.Read("philly", file)
	if err != nil {
		b.Fatal(err)
	}
	t.Arrivals = slices.DeleteFunc(t.Arrivals, func(a sim.Arrival) bool {
		at := time.Unix(0, 0).Add(a.At)
		return at.Before(from) || !at.Before(to) || pools[a.Spec.Tenant] == 0
	})
	for i := range t.Arrivals {
		s := &t.Arrivals[i].Spec
		s.EditPlacement().NodeSelector = map[string]string{"pool": s.Tenant}
	}
	return t
}

// This function returns the simulated cluster with all pools.
func fleet() *sim.Fleet {
	f := &sim.Fleet{}
	for name, machines := range pools {
		f.Machines = append(f.Machines, sim.Machine{
			Name: "vc-" + name, Count: scaled(machines), GPUs: 8, CPUs: 64, MemoryMB: 1 << 20, Labels: map[string]string{"pool": name},
		})
	}
	slices.SortFunc(f.Machines, func(a, b sim.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return f
}

// The variable `tuned` lists the virtual clusters that were used to choose the level of the policy
// ares-turns. The other virtual clusters were used for validation.
var tuned = []string{"b436b2", "6c71a0", "11cb48", "2869ce", "103959"}

// BenchmarkTurns compares the policy ares-turns with FIFO + backfill. The policy ares-turns is for
// jobs that save their progress and whose runtimes are unknown. The results are grouped by the
// number of GPUs per job. The benchmark runs three times. It uses the virtual clusters that were
// used to tune the policy, then the other clusters, and then all clusters.
func BenchmarkTurns(b *testing.B) {
	trace := read(b)
	in := func(name string) bool { return slices.Contains(tuned, name) }
	for range b.N {
		for _, part := range []struct {
			name string
			drop func(sim.Arrival) bool
		}{
			{"the clusters it was tuned on", func(a sim.Arrival) bool { return !in(a.Spec.Tenant) }},
			{"the others", func(a sim.Arrival) bool { return in(a.Spec.Tenant) }},
			{"all", func(sim.Arrival) bool { return false }},
		} {
			some := *trace
			some.Arrivals = slices.DeleteFunc(slices.Clone(trace.Arrivals), part.drop)
			beside(b, part.name, &some)
		}
	}
}

// This function prints the results of ares-turns next to those of FIFO +
// backfill. The benchmark fails if two jobs preempted each other.
func beside(b *testing.B, name string, trace *sim.Trace) {
	b.Helper()
	first, _ := replay(b, "fifo-backfill", trace, false)
	r, verdict := replay(b, "ares-turns", trace, true)
	print(b, fmt.Sprintf("ares-turns on %s, %d jobs: completion %.0f s (FIFO + backfill %.0f s), wait to start %.0f s (%.0f s), %d preemptions (%.3f per job, at most %d), %.0f GPU-hours lost, %d cycles",
		name, r.Jobs, r.Complete.Mean, first.Complete.Mean, r.Wait.Mean, first.Wait.Mean, r.Preempted, float64(r.Preempted)/float64(r.Jobs), r.PreemptedMost, r.Lost/3600, verdict.Violations), byGPUs(&r, &first))
	if verdict.Violations > 0 {
		b.Errorf("%s: %v", name, verdict.First)
	}
}

// byGPUs compares the results of a policy with those of FIFO + backfill, for jobs of each size.
func byGPUs(r, fifo *sim.Report) [][]string {
	rows := [][]string{{"GPUs", "jobs", "wait p99, s", "FIFO + backfill", "ratio", "delay p99, s", "FIFO + backfill", "ratio", "delay p50, s", "preemptions per job"}}
	for i := range r.ByGPUs {
		g, f := &r.ByGPUs[i], fifo.GPUsNamed(r.ByGPUs[i].Name)
		rows = append(rows, []string{
			sim.CountText(g.Name), fmt.Sprint(g.Jobs), fmt.Sprintf("%.0f", g.Wait.P99), fmt.Sprintf("%.0f", f.Wait.P99), fmt.Sprintf("%.2f", g.Wait.P99/f.Wait.P99),
			fmt.Sprintf("%.0f", g.Delay.P99), fmt.Sprintf("%.0f", f.Delay.P99), fmt.Sprintf("%.2f", g.Delay.P99/f.Delay.P99), fmt.Sprintf("%.0f", g.Delay.P50),
			fmt.Sprintf("%.3f", float64(g.Preempted)/float64(g.Jobs)),
		})
	}
	return rows
}

func print(b *testing.B, title string, rows [][]string) {
	b.Helper()
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}

// This function simulates a trace under a policy. If the parameter `judged` is true, every
// decision is checked against the engine's laws (invariants). One law forbids preemption cycles.
func replay(b *testing.B, policy string, trace *sim.Trace, judged bool) (sim.Report, *sim.LawReport) {
	b.Helper()
	p, err := sim.PolicyNamed(policy)
	if err != nil {
		b.Fatal(err)
	}
	w := sim.NewWorld(fleet(), p)
	if judged {
		w.CheckLaws(0)
	}
	if err := w.Run(trace, 0, nil); err != nil {
		b.Fatal(err)
	}
	r := w.Report()
	if r.Ended != r.Jobs {
		b.Fatalf("%s: %d of %d jobs have ended", policy, r.Ended, r.Jobs)
	}
	return r, w.LawReport()
}

// BenchmarkPublished replays the policies with published results.
func BenchmarkPublished(b *testing.B) {
	trace := read(b)
	for range b.N {
		table(b, trace, "placement bestfit", published)
	}
}

// BenchmarkOwn replays the policies with Ares's own placement.
func BenchmarkOwn(b *testing.B) {
	trace := read(b)
	for range b.N {
		table(b, trace, "Ares's own placement", own)
	}
}

func table(b *testing.B, trace *sim.Trace, placed string, lines []line) {
	b.Helper()
	machines := 0
	for _, n := range pools {
		machines += scaled(n)
	}
	rows := [][]string{{"", "mean completion, s", "published, s", "difference", "mean wait, s", "preemptions per job", "GPU-hours lost", "took"}}
	for _, l := range lines {
		p, err := sim.PolicyNamed(l.policy)
		if err != nil {
			b.Fatal(err)
		}
		p.Engine.Placement, p.EstimateError, p.CheckpointSeconds = l.placement, l.sigma, l.saving
		began := time.Now()
		w := sim.NewWorld(fleet(), p)
		if err := w.Run(trace, 0, nil); err != nil {
			b.Fatal(err)
		}
		took, r := time.Since(began), w.Report()
		if r.Ended != r.Jobs {
			b.Fatalf("%s: %d of %d jobs have ended", l.name, r.Ended, r.Jobs)
		}
		known, off := "-", ""
		if l.published > 0 {
			known, off = fmt.Sprintf("%.0f", l.published), fmt.Sprintf("%+.1f %%", 100*(r.Complete.Mean/l.published-1))
		}
		stops, lost := r.Preempted, r.Lost
		rows = append(rows, []string{
			l.name, fmt.Sprintf("%.0f", r.Complete.Mean), known, off, fmt.Sprintf("%.0f", r.Wait.Mean),
			fmt.Sprintf("%.3f", float64(stops)/float64(r.Jobs)), fmt.Sprintf("%.1f", lost/3600), fmt.Sprintf("%.1f s", took.Seconds()),
		})
	}
	print(b, fmt.Sprintf("%d jobs in %d pools of %d machines × 8 GPUs, %s", len(trace.Arrivals), len(pools), machines, placed), rows)
}
