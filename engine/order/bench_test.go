package order

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/perf/rounds"
)

// ranked is a waiting job in the standard library's heap, as its documentation
// writes one: it knows its place, so that it can be cancelled.
type ranked struct {
	Item[int]
	place int
}

// rivals is the waiting queue over container/heap: the same order.
type rivals []*ranked

func (r rivals) Len() int           { return len(r) }
func (r rivals) Less(i, j int) bool { return r[i].before(&r[j].Item) }
func (r rivals) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

func (r *rivals) Push(x any) {
	it := x.(*ranked)
	it.place = len(*r)
	*r = append(*r, it)
}

func (r *rivals) Pop() any {
	old := *r
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*r = old[:len(old)-1]
	return last
}

// bare is the same without a place: nothing but push and pop.
type bare []*Item[int]

func (r bare) Len() int           { return len(r) }
func (r bare) Less(i, j int) bool { return r[i].before(r[j]) }
func (r bare) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *bare) Push(x any)        { *r = append(*r, x.(*Item[int])) }
func (r *bare) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}

// crowd is n jobs as they arrive over six hours, one in ten in a batch with the
// one before it, with a spread of priorities and shapes.
func crowd(n, shapes int) []*Item[int] {
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

// queues are the three ways to push and pop the same jobs. Each looks at the
// owner of what it popped.
type queues struct {
	items []*Item[int]
	olds  []*ranked
	cfg   Config
	tree  *Tree[int]
	leaf  *Leaf[int]
	taken []*Item[int]
	sum   int
}

func newQueues(jobs, shapes int) *queues {
	q := &queues{items: crowd(jobs, shapes), cfg: Defaults(), taken: make([]*Item[int], 0, 500)}
	for _, it := range q.items {
		q.olds = append(q.olds, &ranked{Item: *it})
	}
	q.tree = New[int](q.cfg)
	q.tree.Capacity(Use{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
	q.leaf = q.tree.Leaf("a", "default")
	return q
}

// documented is container/heap as its documentation has it.
func (q *queues) documented() {
	h := make(rivals, 0, len(q.olds))
	for _, it := range q.olds {
		it.rank = q.cfg.rankOf(it.Priority, it.Accepted)
		heap.Push(&h, it)
	}
	for h.Len() > 0 {
		q.sum += heap.Pop(&h).(*ranked).Owner
	}
}

// barest is container/heap with nothing but push and pop.
func (q *queues) barest() {
	h := make(bare, 0, len(q.items))
	for _, it := range q.items {
		it.rank = q.cfg.rankOf(it.Priority, it.Accepted)
		heap.Push(&h, it)
	}
	for h.Len() > 0 {
		q.sum += heap.Pop(&h).(*Item[int]).Owner
	}
}

// order is the tree as decisions use it: push, and then in plans of 500 begin,
// offer, take, end, and remove what the plan placed.
func (q *queues) order() {
	for _, it := range q.items {
		q.leaf.Push(it)
	}
	for {
		p := q.tree.Begin(noon)
		q.taken = q.taken[:0]
		for it, ok := p.Next(); ok && len(q.taken) < cap(q.taken); it, ok = p.Next() {
			q.sum += it.Owner
			p.Take(Grant{})
			q.taken = append(q.taken, it)
		}
		p.End()
		if len(q.taken) == 0 {
			return
		}
		for _, it := range q.taken {
			q.tree.Remove(it)
		}
	}
}

// BenchmarkQueue pushes and pops 100,000 jobs: through container/heap as its
// documentation has it, through the barest one, and through the tree as
// decisions do, in turns.
func BenchmarkQueue(b *testing.B) {
	const jobs = 100_000
	rows := [][]string{{"lines", "container/heap, ns a job", "bare, without places", "order", "order ÷ container/heap, speed", "÷ bare"}}
	for _, shapes := range []int{1, 10, 300} {
		q := newQueues(jobs, shapes)
		sides := []func(){q.documented, q.barest, q.order}
		took := make([]rounds.Figures, len(sides))
		for range 2 * rounds.Count {
			for k, side := range sides {
				var lap rounds.Lap
				lap.Time(side)
				took[k].Each(jobs, lap.Thread)
			}
		}
		rows = append(rows, []string{
			fmt.Sprint(shapes), took[0].String(), took[1].String(), took[2].String(), took[0].Over(took[2]).Text(1, 1), took[1].Over(took[2]).Text(1, 1),
		})
	}
	title := fmt.Sprintf("Push and pop of 100,000 waiting jobs; thread CPU time, median of %d rounds (range)", 2*rounds.Count)
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPass is a decision over 100,000 jobs in 300 lines of 20 tenants with
// three queues each: one in which nothing finds a place, and what taking one
// job costs when all do.
func BenchmarkPass(b *testing.B) {
	tree := New[int](Defaults())
	tree.Capacity(Use{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
	for i, it := range crowd(100_000, 5) {
		l := tree.Leaf(fmt.Sprintf("t%02d", i%20), fmt.Sprintf("q%d", i%3))
		l.Push(it)
		if i%100 == 0 {
			l.Running(Use{GPU: 1000, CPU: 4}, dawn, 1)
			l.Ran(Use{GPU: 1000, CPU: 4}, dawn.Add(-50*time.Hour), dawn, 1)
		}
	}
	items, lines := tree.Waiting()
	b.Run("nothing-fits", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := tree.Begin(noon)
			for _, ok := p.Next(); ok; _, ok = p.Next() {
				p.Refuse()
			}
			p.End()
		}
		b.ReportMetric(float64(lines), "lines")
	})
	b.Run("all-fit", func(b *testing.B) {
		b.ReportAllocs()
		g := Grant{Use: Use{GPU: 1000, CPU: 8, Memory: 65_536}}
		for b.Loop() {
			p := tree.Begin(noon)
			for _, ok := p.Next(); ok; _, ok = p.Next() {
				p.Take(g)
			}
			p.End()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/job")
	})
	b.Run("before", func(b *testing.B) {
		it := tree.Leaf("t07", "q1").lines[2].first()
		for b.Loop() {
			tree.Before(it, noon)
		}
	})
}
