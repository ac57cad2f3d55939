package order

import (
	"container/heap"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	ares "github.com/ares-scheduler/ares"
)

const (
	queued = 100_000
	plan   = 500 // what a decision places at most
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

// side is a waiting queue under test: jobs come in, and the first of them go
// out in plans. Each has jobs of its own, which are alike.
type side struct {
	name  string
	jobs  []*ranked
	push  func(it *ranked)
	pop   func(most int) // calls out with each
	gone  []*ranked      // by the last plan
	sum   uint64         // of the jobs that went, in their order
	moved int            // jobs in this round
	came  int64          // jobs that came again
	spent []float64      // ns a job, by round
}

func (s *side) out(owner int) {
	s.sum = s.sum*31 + uint64(owner)
	s.gone = append(s.gone, s.jobs[owner])
	s.moved++
}

func newSide(name string, jobs []*Item[int]) *side {
	s := &side{name: name, jobs: make([]*ranked, len(jobs))}
	for i, it := range jobs {
		s.jobs[i] = &ranked{Item: *it}
	}
	return s
}

func byHeap(jobs []*Item[int], cfg Config) *side {
	s := newSide("heap", jobs)
	h := make(rivals, 0, len(jobs))
	s.push = func(it *ranked) {
		it.rank = cfg.rankOf(it.Priority, it.Accepted)
		heap.Push(&h, it)
	}
	s.pop = func(most int) {
		s.gone = s.gone[:0]
		for n := 0; n < most && h.Len() > 0; n++ {
			s.out(heap.Pop(&h).(*ranked).Owner)
		}
	}
	return s
}

func byBareHeap(jobs []*Item[int], cfg Config) *side {
	s := newSide("bare-heap", jobs)
	h := make(bare, 0, len(jobs))
	s.push = func(it *ranked) {
		it.rank = cfg.rankOf(it.Priority, it.Accepted)
		heap.Push(&h, &it.Item)
	}
	s.pop = func(most int) {
		s.gone = s.gone[:0]
		for n := 0; n < most && h.Len() > 0; n++ {
			s.out(heap.Pop(&h).(*Item[int]).Owner)
		}
	}
	return s
}

// byOrder does all that a decision and the events after it do to the queue. What
// is taken is charged: one whole device.
func byOrder(jobs []*Item[int], cfg Config) *side {
	s := newSide("order", jobs)
	tree := New[int](cfg)
	tree.Capacity(Use{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
	grant := Grant{
		Use: Use{GPU: 1000, CPU: 8, Memory: 65_536}, Held: ares.Use{GPUs: 1, CPUs: 8, MemoryMB: 65_536, Jobs: 1},
		GPUs: []Part{{tree.Model("h100"), 1000}},
	}
	leaf := tree.Leaf("a", "")
	taken := make([]*Item[int], 0, plan)
	s.push = func(it *ranked) { leaf.Push(&it.Item) }
	s.pop = func(most int) {
		s.gone = s.gone[:0]
		taken = taken[:0]
		p := tree.Begin(noon)
		for len(taken) < most {
			it, ok := p.Next()
			if !ok {
				break
			}
			s.out(it.Owner)
			taken = append(taken, it)
			p.Take(grant)
		}
		p.End()
		for _, it := range taken {
			tree.Remove(it)
		}
	}
	return s
}

// BenchmarkQueue compares the queue of decisions with container/heap, as its
// documentation writes a queue and in its barest form, over the same 100,000
// jobs. In a drain all of them come, and then all go in plans of 500. In a flow
// that many wait all the time, and 500 come for each plan of 500 that goes. The
// sides take turns, and what counts is the CPU time of the thread: the machine
// may have other things to do. The figures are medians for one job in and out.
func BenchmarkQueue(b *testing.B) {
	for _, lines := range []int{1, 10, 300} {
		b.Run(fmt.Sprintf("drain/lines=%d", lines), func(b *testing.B) {
			jobs := crowd(queued, lines)
			compare(b, jobs, func(s *side) {
				for _, it := range s.jobs {
					s.push(it)
				}
				for range queued / plan {
					s.pop(plan)
				}
			})
		})
		b.Run(fmt.Sprintf("flow/lines=%d", lines), func(b *testing.B) {
			jobs := crowd(queued, lines)
			newest := *jobs[queued-1]
			compare(b, jobs, func(s *side) {
				if s.came == 0 { // the round that is not counted
					for _, it := range s.jobs {
						s.push(it)
					}
				}
				for range 40 {
					s.pop(plan)
					for _, it := range s.gone { // comes again, later than all others
						s.came++
						it.Revision = newest.Revision + s.came
						it.Accepted = newest.Accepted.Add(time.Duration(s.came) * time.Second / 5)
						s.push(it)
					}
				}
			})
		})
	}
}

// compare lets the sides take turns and prints what each takes for a job.
func compare(b *testing.B, jobs []*Item[int], round func(s *side)) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sides := []*side{byHeap(jobs, Defaults()), byBareHeap(jobs, Defaults()), byOrder(jobs, Defaults())}
	for _, s := range sides {
		round(s) // not counted: memory is new
	}
	for b.Loop() {
		for range 7 {
			for _, s := range sides {
				runtime.GC() // nobody pays for the room that others left
				s.moved = 0
				begin := threadTime(b)
				round(s)
				s.spent = append(s.spent, float64(threadTime(b)-begin)/float64(s.moved))
			}
		}
	}
	for _, s := range sides {
		if s.sum != sides[0].sum {
			b.Fatalf("%s pops other jobs than %s", s.name, sides[0].name)
		}
		slices.Sort(s.spent)
		b.ReportMetric(s.median(), s.name+"-ns/job")
	}
	b.ReportMetric(sides[0].median()/sides[2].median(), "times-heap")
	b.ReportMetric(sides[1].median()/sides[2].median(), "times-bare")
	b.ReportMetric(0, "ns/op")
}

func (s *side) median() float64 { return s.spent[len(s.spent)/2] }

// threadTime is the CPU time this thread has used.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
