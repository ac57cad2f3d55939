package queue

import (
	"container/heap"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/perf/rounds"
)

const (
	queued = 100_000
	plan   = 500 // what a decision places at most
)

// job is a record that waits, on every side the same. It knows its place in a
// heap, as the documentation of container/heap has it, so that it can be
// cancelled.
type job struct {
	Item[*job]
	place int
}

// rivals is the waiting queue over container/heap: the same order.
type rivals []*job

func (r rivals) Len() int           { return len(r) }
func (r rivals) Less(i, j int) bool { return r[i].before(&r[j].Item) }
func (r rivals) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

func (r *rivals) Push(x any) {
	it := x.(*job)
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
type bare []*job

func (r bare) Len() int           { return len(r) }
func (r bare) Less(i, j int) bool { return r[i].before(&r[j].Item) }
func (r bare) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *bare) Push(x any)        { *r = append(*r, x.(*job)) }
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
	jobs  []*job
	push  func(it *job)
	pop   func(most int) // and note who is gone
	gone  []*job         // in this round
	came  int64          // jobs that came again
	aside time.Duration  // not to be counted in this round
	spent rounds.Figures // ns a job, by round
}

func newSide(name string, jobs []*Item[int]) *side {
	s := &side{name: name, jobs: make([]*job, len(jobs)), gone: make([]*job, 0, len(jobs))}
	for i, it := range jobs {
		made := &job{Item: Item[*job]{ID: it.ID, Priority: it.Priority, Accepted: it.Accepted, Revision: it.Revision, Shape: it.Shape}}
		made.Owner = made
		s.jobs[i] = made
	}
	return s
}

func byHeap(jobs []*Item[int], cfg Config) *side {
	s := newSide("heap", jobs)
	h := make(rivals, 0, len(jobs))
	s.push = func(it *job) {
		it.orderKey = cfg.agedKey(it.Priority, it.Accepted)
		heap.Push(&h, it)
	}
	s.pop = func(most int) {
		for n := 0; n < most && h.Len() > 0; n++ {
			s.gone = append(s.gone, heap.Pop(&h).(*job))
		}
	}
	return s
}

func byBareHeap(jobs []*Item[int], cfg Config) *side {
	s := newSide("bare-heap", jobs)
	h := make(bare, 0, len(jobs))
	s.push = func(it *job) {
		it.orderKey = cfg.agedKey(it.Priority, it.Accepted)
		heap.Push(&h, it)
	}
	s.pop = func(most int) {
		for n := 0; n < most && h.Len() > 0; n++ {
			s.gone = append(s.gone, heap.Pop(&h).(*job))
		}
	}
	return s
}

// byOrder does all that a decision and the events after it do to the queue. With
// accounts, what is taken is charged to shares, limits and quotas too, which is
// no work of a queue: one whole device.
func byOrder(jobs []*Item[int], cfg Config, accounts bool) *side {
	s := newSide("order", jobs)
	tree := New[*job](cfg)
	tree.Capacity(Use{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
	grant := Grant{
		Use: Use{GPU: 1000, CPU: 8, Memory: 65_536}, Held: ares.Use{GPUs: 1, CPUs: 8, MemoryMB: 65_536, Jobs: 1},
		GPUs: []Part{{tree.Model("h100"), 1000}},
	}
	leaf := tree.Leaf("a", "")
	s.push = func(it *job) { leaf.Push(&it.Item) }
	s.pop = func(most int) {
		before := len(s.gone)
		p := tree.Begin(noon)
		for len(s.gone) < before+most {
			it, ok := p.Next()
			if !ok {
				break
			}
			s.gone = append(s.gone, it.Owner)
			if accounts {
				p.Take(grant)
			} else {
				p.Skip()
			}
		}
		p.End()
		for _, it := range s.gone[before:] {
			tree.Remove(&it.Item)
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
	rows := [][]string{{"", "lines", "container/heap, ns", "bare, ns", "order, ns", "and its accounts, ns", "times as fast", "as the bare one", "with accounts"}}
	for _, lines := range []int{1, 10, 300} {
		b.Run(fmt.Sprintf("drain/lines=%d", lines), func(b *testing.B) {
			jobs := crowd(queued, lines)
			row := compare(b, jobs, func(s *side) {
				for _, it := range s.jobs {
					s.push(it)
				}
				for range queued / plan {
					s.pop(plan)
				}
			})
			rows = append(rows, append([]string{"drain", fmt.Sprint(lines)}, row...))
		})
		b.Run(fmt.Sprintf("flow/lines=%d", lines), func(b *testing.B) {
			jobs := crowd(queued, lines)
			newest := *jobs[queued-1]
			row := compare(b, jobs, func(s *side) {
				if s.came == 0 { // the round that is not counted
					for _, it := range s.jobs {
						s.push(it)
					}
				}
				for range 40 {
					s.pop(plan)
					again := s.gone[len(s.gone)-plan:]
					s.untimed(b, func() { // they come again, later than all others
						for _, it := range again {
							s.came++
							it.Revision = newest.Revision + s.came
							it.Accepted = newest.Accepted.Add(time.Duration(s.came) * time.Second / 5)
						}
					})
					for _, it := range again {
						s.push(it)
					}
				}
			})
			rows = append(rows, append([]string{"flow", fmt.Sprint(lines)}, row...))
		})
	}
	if err := rounds.Table(os.Stdout, "One job into the queue of decisions and out of it, 100,000 waiting; thread CPU time, median of 7 rounds (range)", rows); err != nil {
		b.Fatal(err)
	}
}

// compare lets the sides take turns and tells what each takes for a job.
func compare(b *testing.B, jobs []*Item[int], round func(s *side)) (row []string) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sides := []*side{byHeap(jobs, Defaults()), byBareHeap(jobs, Defaults()), byOrder(jobs, Defaults(), false), byOrder(jobs, Defaults(), true)}
	for _, s := range sides {
		round(s) // not counted: its memory is new
	}
	for b.Loop() {
		for range 7 {
			for _, s := range sides {
				s.gone, s.aside = s.gone[:0], 0
				begin := threadTime(b)
				round(s)
				s.spent = append(s.spent, float64(threadTime(b)-begin-s.aside)/float64(len(s.gone)))
			}
			for _, s := range sides[1:] {
				if !slices.EqualFunc(s.gone, sides[0].gone, func(x, y *job) bool { return x.ID == y.ID }) {
					b.Fatalf("%s pops other jobs than %s", s.name, sides[0].name)
				}
			}
		}
	}
	for _, s := range sides {
		row = append(row, s.spent.String())
	}
	b.ReportMetric(0, "ns/op")
	return append(row, sides[0].spent.Over(sides[2].spent).Text(1, 1), sides[1].spent.Over(sides[2].spent).Text(1, 1),
		sides[0].spent.Over(sides[3].spent).Text(1, 1))
}

// untimed does what is no part of the queue.
func (s *side) untimed(tb testing.TB, do func()) {
	tb.Helper()
	begin := threadTime(tb)
	do()
	s.aside += threadTime(tb) - begin
}

// threadTime is the CPU time this thread has used.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
