package order

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// rivals is the waiting queue as the standard library would have it: the same
// order, from the same fields.
type rivals []*Item[int]

func (r rivals) Len() int      { return len(r) }
func (r rivals) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r rivals) Less(i, j int) bool {
	a, b := r[i], r[j]
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if a.Revision != b.Revision {
		return a.Revision < b.Revision
	}
	return a.ID < b.ID
}
func (r *rivals) Push(x any) { *r = append(*r, x.(*Item[int])) }
func (r *rivals) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}

// crowd is n jobs as they arrive over six hours, in batches that share a
// revision, with a spread of priorities and shapes.
func crowd(n, shapes int) []*Item[int] {
	rng := rand.New(rand.NewPCG(1, uint64(shapes)))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	priorities := []int{0, 100, 300, 500, 500, 500, 500, 700, 1000, 1500, 2000, 2500}
	items := make([]*Item[int], n)
	revision := int64(1_000_000)
	for i := range items {
		if rng.IntN(4) == 0 {
			revision += int64(rng.IntN(5))
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

// BenchmarkQueue pushes and pops 100,000 jobs: through container/heap, and
// through the tree as a decision does, with the shares kept and every job
// removed afterwards. An operation is one push and one pop.
func BenchmarkQueue(b *testing.B) {
	const jobs = 100_000
	for _, shapes := range []int{1, 10, 300} {
		items := crowd(jobs, shapes)
		var perHeap float64
		b.Run(fmt.Sprintf("lines=%d/container-heap", shapes), func(b *testing.B) {
			cfg := Defaults()
			rounds := 0
			for b.Loop() {
				var h rivals
				for _, it := range items {
					it.rank = cfg.rankOf(it.Priority, it.Accepted)
					heap.Push(&h, it)
				}
				for h.Len() > 0 {
					heap.Pop(&h)
				}
				rounds++
			}
			perHeap = float64(b.Elapsed().Nanoseconds()) / float64(rounds*jobs)
			b.ReportMetric(perHeap, "ns/job")
		})
		b.Run(fmt.Sprintf("lines=%d/order", shapes), func(b *testing.B) {
			tree := New[int](Defaults())
			tree.Capacity(Use{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
			leaf := tree.Leaf("a", "default")
			rounds := 0
			for b.Loop() {
				for _, it := range items {
					leaf.Push(it)
				}
				drain(tree, Grant{}, items)
				rounds++
			}
			per := float64(b.Elapsed().Nanoseconds()) / float64(rounds*jobs)
			b.ReportMetric(per, "ns/job")
			b.ReportMetric(perHeap/per, "x-faster")
		})
	}
}

// drain takes everything in a pass, then removes it.
func drain(tree *Tree[int], g Grant, items []*Item[int]) {
	p := tree.Begin(noon)
	taken := make([]*Item[int], 0, len(items))
	for {
		it, ok := p.Next()
		if !ok {
			break
		}
		p.Take(g)
		taken = append(taken, it)
	}
	p.End()
	for _, it := range taken {
		tree.Remove(it)
	}
}
