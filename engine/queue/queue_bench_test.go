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
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

const plan = 500 // the maximum number of jobs that a decision places

// queued is the number of waiting jobs.
var queued = rounds.Sized(100_000, 2000)

// The type `job` is a waiting job in the benchmark. All compared queues get equal jobs. A job stores its index in
// the heap, so that it could be cancelled. The documentation of container/heap suggests this.
type job struct {
	Item[*job]
	place int
}

// heapQueue orders jobs like a leaf queue, but uses container/heap.
type heapQueue []*job

func (r heapQueue) Len() int           { return len(r) }
func (r heapQueue) Less(i, j int) bool { return r[i].before(&r[j].Item) }
func (r heapQueue) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

func (r *heapQueue) Push(x any) {
	it := x.(*job)
	it.place = len(*r)
	*r = append(*r, it)
}

func (r *heapQueue) Pop() any {
	old := *r
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*r = old[:len(old)-1]
	return last
}

// bareHeap is like heapQueue, but it does not store the index of each job, so it supports only push and pop.
type bareHeap []*job

func (r bareHeap) Len() int           { return len(r) }
func (r bareHeap) Less(i, j int) bool { return r[i].before(&r[j].Item) }
func (r bareHeap) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *bareHeap) Push(x any)        { *r = append(*r, x.(*job)) }
func (r *bareHeap) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}

// A `contestant` is one of the queues that the benchmark compares. The benchmark pushes jobs to the queue and pops
// the first ones in groups, called plans. Every queue under test has its own copies of the jobs.
type contestant struct {
	name  string
	jobs  []*job
	push  func(it *job)
	pop   func(most int) // pops up to most jobs and appends them to gone
	gone  []*job         // popped in this round
	came  int64          // jobs that were pushed again
	aside time.Duration  // time of this round that is not counted
	spent rounds.Figures // ns per job, by round
}

func newContestant(name string, jobs []*Item[int]) *contestant {
	s := &contestant{name: name, jobs: make([]*job, len(jobs)), gone: make([]*job, 0, len(jobs))}
	for i, it := range jobs {
		made := &job{Item: Item[*job]{ID: it.ID, Priority: it.Priority, Accepted: it.Accepted, Revision: it.Revision, Shape: it.Shape}}
		made.Owner = made
		s.jobs[i] = made
	}
	return s
}

func byHeap(jobs []*Item[int], cfg Config) *contestant {
	s := newContestant("heap", jobs)
	h := make(heapQueue, 0, len(jobs))
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

func byBareHeap(jobs []*Item[int], cfg Config) *contestant {
	s := newContestant("bare-heap", jobs)
	h := make(bareHeap, 0, len(jobs))
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

// byTree returns a contestant that performs all queue operations of a decision and of the events after it. If the
// parameter `accounts` is true, the contestant also charges each popped job to shares, limits and quotas. A heap
// does not do this.
func byTree(jobs []*Item[int], cfg Config, accounts bool) *contestant {
	s := newContestant("tree", jobs)
	tree := New[*job](cfg)
	tree.SetCapacity(Resources{GPU: 80_000_000, CPU: 1_000_000, Memory: 1 << 40})
	grant := Allocation{
		ForShare: Resources{GPU: 1000, CPU: 8, Memory: 65_536}, ForLimits: ares.Use{GPUs: 1, CPUs: 8, MemoryMB: 65_536, Jobs: 1},
		ForQuotas: []GPUAmount{{tree.ModelIndex("h100"), 1000}},
	}
	leaf := tree.Leaf("a", "")
	s.push = func(it *job) { leaf.Push(&it.Item) }
	s.pop = func(most int) {
		before := len(s.gone)
		p := tree.BeginRound(noon)
		for len(s.gone) < before+most {
			it, ok := p.Next()
			if !ok {
				break
			}
			s.gone = append(s.gone, it.Owner)
			if accounts {
				p.Allocate(grant)
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

// BenchmarkQueue compares a leaf queue with two queues based on container/heap: the queue from the package
// documentation and a minimal one. All queues get the same 100,000 jobs. The case "drain" pushes all jobs, and
// then pops them in plans of 500 jobs. The case "flow" keeps 100,000 jobs waiting. It pushes 500 jobs, pops a plan
// of 500 jobs, and repeats this. The queues are measured alternately. The CPU time of the thread is measured,
// because the machine may be busy with other work. The reported numbers are medians of the time to push and pop
// one job.
func BenchmarkQueue(b *testing.B) {
	rows := [][]string{{"", "shapes", "container/heap, ns", "bare, ns", "tree, ns", "and its accounts, ns", "times as fast", "as the bare one", "with accounts"}}
	for _, shapes := range []int{1, 10, 300} {
		b.Run(fmt.Sprintf("drain/shapes=%d", shapes), func(b *testing.B) {
			jobs := drawItems(queued, shapes)
			row := compare(b, jobs, func(s *contestant) {
				for _, it := range s.jobs {
					s.push(it)
				}
				for range queued / plan {
					s.pop(plan)
				}
			})
			rows = append(rows, append([]string{"drain", fmt.Sprint(shapes)}, row...))
		})
		b.Run(fmt.Sprintf("flow/shapes=%d", shapes), func(b *testing.B) {
			jobs := drawItems(queued, shapes)
			newest := *jobs[queued-1]
			row := compare(b, jobs, func(s *contestant) {
				if s.came == 0 { // the warm-up round
					for _, it := range s.jobs {
						s.push(it)
					}
				}
				for range 40 {
					s.pop(plan)
					again := s.gone[len(s.gone)-plan:]
					s.untimed(b, func() { // change the jobs, to push them again behind all others
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
			rows = append(rows, append([]string{"flow", fmt.Sprint(shapes)}, row...))
		})
	}
	if err := rounds.Table(os.Stdout, "One job pushed and popped, 100,000 waiting; thread CPU time, median of 7 rounds (range)", rows); err != nil {
		b.Fatal(err)
	}
}

// The function `compare` measures the contestants alternately and returns the time per job of each one.
func compare(b *testing.B, jobs []*Item[int], round func(s *contestant)) (row []string) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sides := []*contestant{byHeap(jobs, DefaultConfig()), byBareHeap(jobs, DefaultConfig()), byTree(jobs, DefaultConfig(), false), byTree(jobs, DefaultConfig(), true)}
	for _, s := range sides {
		round(s) // warm-up
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

// The method `untimed` calls a function and excludes its time from the measurement.
func (s *contestant) untimed(tb testing.TB, do func()) {
	tb.Helper()
	begin := threadTime(tb)
	do()
	s.aside += threadTime(tb) - begin
}

// threadTime returns the CPU time that this thread has used.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
