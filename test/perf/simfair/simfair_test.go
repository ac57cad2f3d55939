package simfair

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/perf/rounds"
)

// The setting: the two months in which the trace is dense, the virtual clusters
// that are more than a handful of jobs, and one pool in which they ask for about
// nine tenths of what there is, so that they meet.
var (
	from = time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC)
	to   = time.Date(2017, 12, 1, 0, 0, 0, 0, time.UTC)
)

const (
	clusters = 11 // those with the most jobs; each of the other four has fewer than ten
	machines = 64
	gpus     = 8 // of a machine
)

// read is the jobs of the largest virtual clusters in the two months.
func read(b *testing.B) *sim.Trace {
	b.Helper()
	traces := os.Getenv("ARES_TRACES")
	if traces == "" {
		b.Fatal("ARES_TRACES does not say where the traces are: see docs/simulator.md")
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
	for i := range t.Arrivals {
		s := &t.Arrivals[i].Spec
		if s.GPUs > gpus { // more than a machine has: equal members on the fewest machines
			s.Members = (s.GPUs + gpus - 1) / gpus
			s.GPUs = (s.GPUs + s.Members - 1) / s.Members
		}
	}
	return t
}

// BenchmarkFair replays the trace with Ares's order: as it is by default, where
// jobs that have waited long rise into higher classes, and with ageing so slow
// that none does, where the poorest tenant that fits is always next.
func BenchmarkFair(b *testing.B) {
	trace := read(b)
	work := 0.0
	for i := range trace.Arrivals {
		a := &trace.Arrivals[i]
		work += float64(max(a.Spec.Members, 1)*a.Spec.GPUs) * a.Runs.Seconds()
	}
	fmt.Printf("%d jobs of %d virtual clusters in one pool of %d × %d GPUs; they ask for %.1f %% of it\n",
		len(trace.Arrivals), clusters, machines, gpus, 100*work/to.Sub(from).Seconds()/(machines*gpus))
	slow := engine.Default()
	slow.AgeingStep = engine.MaxAgeingStep
	for range b.N {
		for _, p := range []sim.Policy{{Name: "ares", Engine: engine.Default()}, {Name: "ares, no ageing", Engine: slow}} {
			replay(b, trace, p)
		}
	}
}

func replay(b *testing.B, trace *sim.Trace, p sim.Policy) {
	b.Helper()
	w := sim.NewWorld(&sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: machines, GPUs: gpus, CPUs: 64, MemoryMB: 512_000}}}, p)
	w.MeasureFairness()
	w.Judge(1000)
	var lap rounds.Lap
	var err error
	lap.Time(func() { err = w.Run(trace, 0, nil) })
	if err != nil {
		b.Fatal(err)
	}
	v, f := w.Verdict(), w.Fairness()
	fmt.Printf("\n%s: %d decisions with %d placings, %d times somebody preceded and did not fit; %d violations of the law of turns and, at %d decisions, of any law; %d not judged; %.1f s\n",
		p.Name, v.Decisions, v.Placings, v.Rivals, v.Violations, v.AllLaws, v.Unjudged, lap.Thread.Seconds())
	for _, what := range v.First {
		fmt.Println("  ", what)
	}
	fmt.Printf("Jain's index of shares: mean %.3f, least %.3f; of shares ÷ fair shares: mean %.3f, least %.3f\n", f.Jain.Mean, f.Jain.Min, f.Attained.Mean, f.Attained.Min)
	fmt.Printf("largest gap to progressive filling: %.1f %% of the pool (%s after %.1f days); the largest of a moment is %.1f %% on average\n",
		f.Gap, f.GapTenant, f.GapAt/86400, f.GapMean)
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
	if err := rounds.Table(os.Stdout, "over time", rows); err != nil {
		b.Fatal(err)
	}
	rows = [][]string{{"virtual cluster", "days it wanted something", "share, %", "fair share, %", "largest gap, %"}}
	for _, t := range f.ByTenant {
		rows = append(rows, []string{t.Name, fmt.Sprintf("%.1f", t.Seconds/86400), fmt.Sprintf("%.1f", t.Share), fmt.Sprintf("%.1f", t.Fair), fmt.Sprintf("%.1f", t.Gap)})
	}
	if err := rounds.Table(os.Stdout, "by virtual cluster", rows); err != nil {
		b.Fatal(err)
	}
}
