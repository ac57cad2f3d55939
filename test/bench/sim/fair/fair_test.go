package fair

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The replay covers the two months in which the trace has the most jobs. The
// virtual clusters with more than a handful of jobs become tenants of one pool.
// The first pool has as many machines as all pools of package philly together.
// In the second pool, demand is about 90 % of capacity, so that the tenants
// compete all the time.
var (
	from = time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC)
	to   = time.Date(2017, 12, 1, 0, 0, 0, 0, time.UTC)
)

const (
	clusters = 11 // those with the most jobs; each of the other four has fewer than ten
	gpus     = 8  // per machine
)

// The variable `machines` holds the number of machines in each of the two pools.
var machines = []int{111, 64}

// The function `read` returns the jobs that the largest virtual clusters submitted
// in the two months.
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
	defer file.Close()
	t, err := sim.Read("philly", file)
	if err != nil {
		b.Fatal(err)
	}
	jobs := map[string]int{}
	for i := range t.Arrivals {
		jobs[t.Arrivals[i].Spec.Tenant]++
	}
	largest := slices.SortedFunc(maps.Keys(jobs), func(a, b string) int { return cmp.Or(jobs[b]-jobs[a], cmp.Compare(a, b)) })[:clusters]
	t.Arrivals = slices.DeleteFunc(t.Arrivals, func(a sim.Arrival) bool {
		at := time.Unix(0, 0).Add(a.At)
		return at.Before(from) || !at.Before(to) || !slices.Contains(largest, a.Spec.Tenant)
	})
	return t
}

// BenchmarkFair replays the trace with Ares's queue order, in two settings. With
// the default ageing, long-waiting jobs move up into higher priority classes.
// With very slow ageing, no job moves up. Each decision then starts a job that
// fits, from the tenant with the smallest weighted usage.
func BenchmarkFair(b *testing.B) {
	trace := read(b)
	work := 0.0
	for i := range trace.Arrivals {
		a := &trace.Arrivals[i]
		work += float64(max(a.Spec.Members, 1)*a.Spec.GPUs) * a.Runs.Seconds()
	}
	slow := config.Default()
	slow.AgeingStep = config.MaxAgeingStep
	for range b.N {
		for _, n := range machines {
			rows := [][]string{{
				"policy", "decisions", "placings", "rivals that did not fit", "held against all laws", "violations",
				"Jain: mean", "least", "share ÷ fair: mean", "least", "gap, %: mean", "largest", "of", "on day", "CPU s",
			}}
			for _, p := range []sim.Policy{{Name: "ares", Engine: config.Default()}, {Name: "ares, no ageing", Engine: slow}} {
				rows = append(rows, replay(b, trace, n, p))
			}
			if err := rounds.Table(os.Stdout, fmt.Sprintf("%d jobs of %d virtual clusters in one pool of %d × %d GPUs, of which they ask for %.1f %%",
				len(trace.Arrivals), clusters, n, gpus, 100*work/to.Sub(from).Seconds()/float64(n*gpus)), rows); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// This function replays the trace and prints how fair the schedule is over
// time.
func replay(b *testing.B, trace *sim.Trace, machines int, p sim.Policy) []string {
	b.Helper()
	w := sim.NewWorld(&sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: machines, GPUs: gpus, CPUs: 64, MemoryMB: 512_000}}}, p)
	w.MeasureFairness()
	w.CheckLaws(500)
	var lap rounds.Lap
	var err error
	lap.Time(func() { err = w.Run(trace, 0, nil) })
	if err != nil {
		b.Fatal(err)
	}
	v, f := w.LawReport(), w.Fairness()
	for _, what := range v.First {
		fmt.Println("  ", what)
	}
	if rounds.Details() {
		overTime(b, f, p.Name, machines)
	}
	return []string{
		p.Name, fmt.Sprint(v.Decisions), fmt.Sprint(v.Placings), fmt.Sprint(v.Ahead), fmt.Sprint(v.AllLaws), fmt.Sprint(v.Violations),
		fmt.Sprintf("%.3f", f.Jain.Mean), fmt.Sprintf("%.3f", f.Jain.Min), fmt.Sprintf("%.3f", f.Attained.Mean), fmt.Sprintf("%.3f", f.Attained.Min),
		fmt.Sprintf("%.1f", f.GapMean), fmt.Sprintf("%.1f", f.Gap), f.GapTenant, fmt.Sprintf("%.1f", f.GapAt/86400), fmt.Sprintf("%.1f", lap.Thread.Seconds()),
	}
}

// overTime prints two tables. One has a row for each week, and the other has a row
// for each tenant.
func overTime(b *testing.B, f *sim.Fairness, policy string, machines int) {
	b.Helper()
	rows := [][]string{{"week", "Jain", "share ÷ fair", "largest gap, %"}}
	const week = 7 * 86400
	for start := 0.0; start < f.Series[len(f.Series)-1].At; start += week {
		var n, jain, attained, gap float64
		for _, point := range f.Series {
			if point.At >= start && point.At < start+week {
				n, jain, attained, gap = n+1, jain+point.Jain, attained+point.Attained, max(gap, point.Gap)
			}
		}
		rows = append(rows, []string{fmt.Sprint(1 + int(start/week)), fmt.Sprintf("%.3f", jain/n), fmt.Sprintf("%.3f", attained/n), fmt.Sprintf("%.1f", gap)})
	}
	if err := rounds.Table(os.Stdout, fmt.Sprintf("%s, %d machines, over time", policy, machines), rows); err != nil {
		b.Fatal(err)
	}
	rows = [][]string{{"virtual cluster", "days it wanted something", "share, %", "fair share, %", "largest gap, %"}}
	for _, t := range f.ByTenant {
		rows = append(rows, []string{t.Name, fmt.Sprintf("%.1f", t.Seconds/86400), fmt.Sprintf("%.1f", t.Share), fmt.Sprintf("%.1f", t.Fair), fmt.Sprintf("%.1f", t.Gap)})
	}
	if err := rounds.Table(os.Stdout, fmt.Sprintf("%s, %d machines, by virtual cluster", policy, machines), rows); err != nil {
		b.Fatal(err)
	}
}
