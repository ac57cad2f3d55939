package queue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// drawItems returns n jobs that arrive over six hours. The jobs have various priorities, and their Item.Shape is
// drawn from the given number of shapes. One job in ten arrives at the same time as the job before it.
func drawItems(n, shapes int) []*Item[int] {
	rng := rand.New(rand.NewPCG(1, uint64(shapes)))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	priorities := []int{0, 100, 300, 500, 500, 500, 500, 700, 1000, 1500, 2000, 2500}
	items := make([]*Item[int], n)
	revision := int64(1_000_000)
	for i := range items {
		if rng.IntN(10) > 0 {
			revision += int64(1 + rng.IntN(5))
		}
		items[i] = &Item[int]{
			Owner: i, ID: fmt.Sprintf("job-%016x", rng.Uint64()), Shape: rng.IntN(shapes),
			Priority: priorities[rng.IntN(len(priorities))] + rng.IntN(3)*rng.IntN(50),
			Accepted: start.Add(6 * time.Hour * time.Duration(i) / time.Duration(n)),
			Revision: revision,
		}
	}
	return items
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// BenchmarkRound measures a decision over 100,000 jobs of 20 tenants with three queues each. The jobs of a queue
// have 5 or 300 different values of Item.Shape. BenchmarkRound measures two kinds of rounds. In one nothing
// fits, and in the other everything fits. For the second kind, it reports the cost per job.
func BenchmarkRound(b *testing.B) {
	for _, shapes := range []int{5, 300} {
		b.Run(fmt.Sprintf("shapequeues=%d", 60*shapes), func(b *testing.B) { benchmarkRound(b, shapes) })
	}
}

func benchmarkRound(b *testing.B, shapes int) {
	b.Helper()
	tree := New[int](DefaultConfig())
	tree.SetCapacity(Resources{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
	for i, it := range drawItems(queued, shapes) {
		l := tree.Leaf(fmt.Sprintf("t%02d", i%20), fmt.Sprintf("q%d", i%3))
		l.Push(it)
		if i%100 == 0 {
			l.AddRunning(Resources{GPU: 1000, CPU: 4}, dawn, 1)
			l.AddEnded(Resources{GPU: 1000, CPU: 4}, dawn.Add(-50*time.Hour), dawn, 1)
		}
	}
	items, shapeQueues := tree.CountWaiting()
	b.Run("nothing-fits", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := tree.BeginRound(noon)
			for _, ok := p.Next(); ok; _, ok = p.Next() {
				p.SkipShape()
			}
			p.End()
		}
		b.ReportMetric(float64(shapeQueues), "shapequeues")
	})
	b.Run("all-fit", func(b *testing.B) {
		b.ReportAllocs()
		g := Allocation{ForShare: Resources{GPU: 1000, CPU: 8, Memory: 65_536}}
		for b.Loop() {
			p := tree.BeginRound(noon)
			for _, ok := p.Next(); ok; _, ok = p.Next() {
				p.Allocate(g)
			}
			p.End()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/job")
	})
	b.Run("before", func(b *testing.B) {
		it := tree.Leaf("t07", "q1").heads[2].item
		for b.Loop() {
			tree.CountAhead(it, noon)
		}
	})
}

// BenchmarkAgeing alternates between a round at one time and a round an hour later. It has 100,000 jobs with 300
// different values of Item.Shape. Between the two rounds all jobs age, which needs no work, so both rounds cost the
// same.
func BenchmarkAgeing(b *testing.B) {
	tree := New[int](DefaultConfig())
	tree.SetCapacity(Resources{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
	for _, it := range drawItems(queued, 300) {
		tree.Leaf("a", "").Push(it)
	}
	times := []time.Time{noon, noon.Add(time.Hour)}
	spent := make([][]float64, len(times))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		for i, now := range times {
			begin := threadTime(b)
			p := tree.BeginRound(now)
			for range plan {
				p.Next()
				p.Allocate(Allocation{})
			}
			p.End()
			spent[i] = append(spent[i], float64(threadTime(b)-begin))
		}
	}
	for i, unit := range []string{"ns/round", "ns/round-an-hour-later"} {
		slices.Sort(spent[i])
		b.ReportMetric(spent[i][len(spent[i])/2], unit)
	}
	b.ReportMetric(0, "ns/op")
}
