package placement

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The variable `waiting` is the length of the queue before the first measured
// decision.
var waiting = rounds.Sized(100_000, 4000)

// The variable `sizes` lists the numbers of nodes of the compared clusters.
var sizes = rounds.Sized([]int{100, 1000, 10_000}, []int{100, 150, 200})

var works = []struct {
	name string
	work Work
}{{"openb", Openb}, {"gangs of 8–64 GPUs", Gangs}}

func print(b *testing.B, title string, rows [][]string) {
	b.Helper()
	if err := rounds.Table(os.Stdout, fmt.Sprintf("%s; median of %d rounds (range)", title, rounds.Count), rows); err != nil {
		b.Fatal(err)
	}
}

// The type `side` collects the results of all rounds for one cluster size.
type side struct {
	placed                        int
	decide, threads, applied, cpu rounds.Figures // placements per second, and seconds
	scan, scanCPU                 rounds.Figures
}

// This method fills an empty cluster with the waiting jobs. It does so first
// with the engine and then with the linear scan. The scan stops when it has
// placed four fifths as many jobs as the engine. If the scan did not stop, it
// would check every node for thousands of jobs that fit nowhere.
func (r *side) round(b *testing.B, nodes int, work Work) {
	s := Fleet(nodes, waiting, work)
	f, err := Fill(s, waiting)
	if err != nil {
		b.Fatal(err)
	}
	r.placed = f.Placed
	r.decide.Rate(f.Placed, f.Decide.Thread)
	r.threads.Rate(f.Placed, f.Decide.Process)
	r.applied.Rate(f.Placed, f.Decide.Thread+f.Apply.Thread)
	r.cpu = append(r.cpu, (f.Decide.Process + f.Apply.Process).Seconds())
	requests := Requests(waiting, work)
	runtime.GC()
	var lap rounds.Lap
	n := 0
	lap.Time(func() { n = NewScan(nodes).Fill(requests, f.Placed*4/5) })
	r.scan.Rate(n, lap.Thread)
	r.scanCPU = append(r.scanCPU, lap.Process.Seconds())
}

// BenchmarkFill fills clusters of three sizes from 100,000 waiting jobs. The
// benchmark prints rates in placed jobs per second of processor time. Only the
// processor time of the thread that makes the decisions counts.
func BenchmarkFill(b *testing.B) {
	for _, w := range works {
		all := make([]side, len(sizes))
		for range rounds.Count {
			for k, nodes := range sizes {
				all[k].round(b, nodes, w.work)
			}
		}
		rows := [][]string{{"nodes", "placed", "decide, placements/s", "with the collector's threads", "with Apply", "CPU s", "linear scan/s", "CPU s", "Ares ÷ scan"}}
		for k := range all {
			r := &all[k]
			rows = append(rows, []string{
				fmt.Sprint(sizes[k]), fmt.Sprint(r.placed), r.decide.String(), r.threads.String(), r.applied.String(), r.cpu.Text(1, 2),
				r.scan.String(), r.scanCPU.Text(1, 2), r.decide.Over(r.scan).Text(1, 2),
			})
		}
		first, last := &all[0], &all[len(all)-1]
		rows = append(rows, []string{
			"growth of the cost", "", first.decide.Over(last.decide).Text(1, 2) + "×", "", first.applied.Over(last.applied).Text(1, 2) + "×", "",
			first.scan.Over(last.scan).Text(1, 1) + "×",
		})
		print(b, "Filling empty fleets of 8-GPU nodes: "+w.name+", 100,000 waiting", rows)
	}
}

// BenchmarkGrowth measures the same decisions on clusters of three sizes. Each
// cluster is a quarter full. The measured decisions are a plan for 500 jobs of
// the mix and the placement of one gang of 32 GPUs.
func BenchmarkGrowth(b *testing.B) {
	gang := Job(Gangs, 3, 4)
	gang.ID = "one-more"
	states := make([]*engine.State, len(sizes))
	for k, nodes := range sizes {
		states[k] = Fleet(nodes, waiting, Openb)
		if _, err := Fill(states[k], nodes*2); err != nil {
			b.Fatal(err)
		}
		states[k].Apply(ares.Batch{Revision: states[k].Revision() + 1, Events: []ares.Event{{Job: gang}}})
	}
	rows := [][]string{{"decision", "100 nodes", "1,000 nodes", "10,000 nodes", "growth"}}
	for _, c := range []struct {
		name   string
		decide func(s *engine.State) int
	}{
		{"a plan of 500, µs", func(s *engine.State) int { return len(engine.Decide(s, Now).Place) }},
		{"one gang of 4 × 8 GPUs, µs", func(s *engine.State) int { p, _ := engine.Place(s, gang, Now); return len(p.Seats) }},
	} {
		took := make([]rounds.Figures, len(sizes))
		for range rounds.Count {
			for k := range sizes {
				const times = 20
				done := 0
				var lap rounds.Lap
				c.decide(states[k])
				lap.Time(func() {
					for range times {
						done = c.decide(states[k])
					}
				})
				if done != config.MaxPlacings && done != 4 {
					b.Fatalf("%s on %d nodes: %d", c.name, sizes[k], done)
				}
				took[k].Each(times, lap.Thread)
			}
		}
		row := []string{c.name}
		for _, f := range took {
			row = append(row, f.Text(1000, 1))
		}
		rows = append(rows, append(row, took[len(took)-1].Over(took[0]).Text(1, 2)+"×"))
	}
	print(b, "The same decision on larger fleets, a quarter full, 100,000 waiting; thread CPU time", rows)
}

// BenchmarkIdle measures a scheduling cycle that places no job. The cluster of
// 10,000 nodes is full while more than 100,000 jobs of the mix wait. Ageing
// raises the priority of all waiting jobs. Nevertheless, a cycle one hour later
// must not cost more than the cycle before it. After jobs have waited for more
// than seven days, freed capacity is reserved for one of them. From then on, a
// cycle is more expensive.
func BenchmarkIdle(b *testing.B) {
	s := FleetWith(config.Default(), sizes[len(sizes)-1], 2*waiting, Openb)
	if _, err := Fill(s, 2*waiting); err != nil {
		b.Fatal(err)
	}
	var first, held rest
	for range rounds.Count {
		first.round(b, s, Now, time.Hour)
		held.round(b, s, Now.Add(8*24*time.Hour), time.Hour)
	}
	rows := [][]string{{"", "first two days, ms", "÷ without", "from the eighth day on, ms", "÷ without"}}
	rows = append(rows,
		[]string{"a cycle", first.still.Text(1e6, 3), "", held.still.Text(1e6, 3), ""},
		[]string{"a cycle an hour later", first.aged.Text(1e6, 3), first.aged.Over(first.still).Text(1, 2), held.aged.Text(1e6, 3), held.aged.Over(held.still).Text(1, 2)},
		[]string{"why one job waits", first.explained.Text(1e6, 3), "", held.explained.Text(1e6, 3), ""},
		[]string{"allocations of a cycle", fmt.Sprint(first.allocations), "", fmt.Sprint(held.allocations), ""},
		[]string{"CPU s of a round", first.cpu.Text(1, 2), "", held.cpu.Text(1, 2), ""})
	print(b, "Nothing to place: 10,000 full nodes, more than 100,000 waiting; thread CPU time", rows)
}

// The type `rest` collects the cost of cycles that place no job.
type rest struct {
	still, aged, explained, cpu rounds.Figures
	allocations                 float64
}

// This method measures pairs of cycles. The parameter `step` is the time between
// the two cycles of a pair.
func (r *rest) round(b *testing.B, s *engine.State, now time.Time, step time.Duration) {
	const times = 50
	var a, o, e rounds.Lap
	for range times {
		a.Time(func() { idle(b, s, now) })
		now = now.Add(step)
		o.Time(func() { idle(b, s, now) })
	}
	for _, id := range pending(s, times) {
		e.Time(func() {
			if x := engine.Explain(s, id, now); len(x.Blockers) == 0 {
				b.Fatalf("nothing keeps %s waiting", id)
			}
		})
	}
	r.still.Each(times, a.Thread)
	r.aged.Each(times, o.Thread)
	r.explained.Each(len(pending(s, times)), e.Thread)
	r.cpu = append(r.cpu, (a.Process + o.Process + e.Process).Seconds())
	r.allocations = testing.AllocsPerRun(5, func() { idle(b, s, now) })
}

// The function `pending` returns some of the jobs that wait, from the last one on. The order of the queue decides which
// jobs these are.
func pending(s *engine.State, count int) (ids []ares.JobID) {
	for i := 2*waiting - 1; i >= 0 && len(ids) < count; i-- {
		id := ares.JobID(fmt.Sprintf("job-%06d", i))
		if run, ok := s.Run(id); ok && run.Phase == ares.Pending {
			ids = append(ids, id)
		}
	}
	return ids
}

func idle(b *testing.B, s *engine.State, now time.Time) {
	if plan := engine.Decide(s, now); len(plan.Place) > 0 {
		b.Fatal("something was placed")
	}
}

// TestScanFillsTheFleet checks that the linear scan never allocates a device
// twice and leaves little capacity unused.
func TestScanFillsTheFleet(t *testing.T) {
	for _, w := range works {
		s := NewScan(50)
		placed := s.Fill(Requests(2000, w.work), 2000)
		f, err := Fill(Fleet(50, 2000, w.work), 2000)
		if err != nil {
			t.Fatal(err)
		}
		if placed < f.Placed*8/10 || placed > f.Placed*12/10 {
			t.Errorf("%s: the scan places %d, the engine %d", w.name, placed, f.Placed)
		}
		for i := range s.nodes {
			if b := &s.nodes[i]; min(b.cpus, b.memory, b.whole, b.milli, b.part) < 0 {
				t.Errorf("%s: node %d has %+v left", w.name, i, *b)
			}
		}
	}
}
