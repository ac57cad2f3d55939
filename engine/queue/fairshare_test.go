package queue

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// testCluster is a tree together with the free resources of a cluster. Tests use testCluster to place jobs without
// nodes.
type testCluster struct {
	tree *Tree[Resources]
	free Resources
	next int
}

func newTestCluster(cfg Config, capacity Resources) *testCluster {
	w := &testCluster{tree: New[Resources](cfg), free: capacity}
	w.tree.SetCapacity(capacity)
	return w
}

func (w *testCluster) job(tenant, queue string, asks Resources, priority, shape int, at time.Time) *Item[Resources] {
	w.next++
	it := &Item[Resources]{
		Owner: asks, ID: fmt.Sprintf("j%06d", w.next), Priority: priority, Accepted: at,
		Revision: int64(w.next), Shape: shape,
	}
	w.tree.Leaf(tenant, queue).Push(it)
	return it
}

func fits(u, free Resources) bool {
	return u.GPU <= free.GPU && u.CPU <= free.CPU && u.Memory <= free.Memory
}

// runRound runs a round that allocates every item that fits. runRound returns the allocated items in order, and does
// not change the cluster.
func (w *testCluster) runRound(now time.Time) []*Item[Resources] {
	var out []*Item[Resources]
	free := w.free
	p := w.tree.BeginRound(now)
	for {
		it, ok := p.Next()
		if !ok {
			break
		}
		if !fits(it.Owner, free) {
			p.SkipShape()
			continue
		}
		free = free.Add(it.Owner, -1)
		p.Allocate(Allocation{ForShare: it.Owner})
		out = append(out, it)
	}
	p.End()
	return out
}

// The method `apply` makes the allocations of a round permanent.
func (w *testCluster) apply(items []*Item[Resources]) {
	for _, it := range items {
		l := it.Leaf()
		w.tree.Remove(it)
		l.Charge(Allocation{ForShare: it.Owner}, 1)
		w.free = w.free.Add(it.Owner, -1)
	}
}

func count(items []*Item[Resources], tenants map[string]string) map[string]int {
	out := map[string]int{}
	for _, it := range items {
		out[tenants[it.ID]]++
	}
	return out
}

// TestDRFPaperExample checks the example from the paper that introduced dominant resource fairness. The cluster has 9
// CPUs and 18 GB. Each task of tenant A needs 1 CPU and 4 GB, and each task of tenant B needs 3 CPUs and 1 GB. Tenant
// A must get three tasks, and tenant B must get two.
func TestDRFPaperExample(t *testing.T) {
	t.Parallel()
	w := newTestCluster(Config{}, Resources{CPU: 9, Memory: 18})
	of := map[string]string{}
	for range 10 {
		of[w.job("A", "", Resources{CPU: 1, Memory: 4}, 500, 1, dawn).ID] = "A"
		of[w.job("B", "", Resources{CPU: 3, Memory: 1}, 500, 1, dawn).ID] = "B"
	}
	if got := count(w.runRound(dawn), of); got["A"] != 3 || got["B"] != 2 {
		t.Errorf("A has %d tasks and B %d, want 3 and 2", got["A"], got["B"])
	}
}

// drfSolver computes the result of progressive filling in exact fractions. The tenant with the smallest
// weighted dominant share gets the next task, until no tenant's next task fits.
type drfSolver struct {
	capacity Resources
	asks     []Resources
	weights  []int64
}

func (f drfSolver) share(i, tasks int) *big.Rat {
	best := new(big.Rat)
	caps := f.capacity.vector()
	for r, n := range f.asks[i].vector() {
		if caps[r] == 0 {
			continue
		}
		x := big.NewRat(n*int64(tasks)*1000, caps[r]*f.weights[i])
		if x.Cmp(best) > 0 {
			best = x
		}
	}
	return best
}

func (f drfSolver) fill(most int) []int {
	got := make([]int, len(f.asks))
	out := make([]bool, len(f.asks))
	free := f.capacity
	for {
		best := -1
		for i := range f.asks {
			if !out[i] && got[i] < most && (best < 0 || f.share(i, got[i]).Cmp(f.share(best, got[best])) < 0) {
				best = i
			}
		}
		if best < 0 {
			return got
		}
		if !fits(f.asks[best], free) {
			out[best] = true
			continue
		}
		free = free.Add(f.asks[best], -1)
		got[best]++
	}
}

// TestProgressiveFilling compares rounds with the exact solver.
func TestProgressiveFilling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity := Resources{
			GPU: rapid.Int64Range(1, 40).Draw(t, "gpus"), CPU: rapid.Int64Range(1, 40).Draw(t, "cpus"),
			Memory: rapid.Int64Range(1, 40).Draw(t, "memory"),
		}
		f := drfSolver{capacity: capacity}
		w := newTestCluster(Config{}, capacity)
		of := map[string]string{}
		const jobs = 12
		for i := range rapid.IntRange(1, 4).Draw(t, "tenants") {
			ask := Resources{
				GPU: rapid.Int64Range(0, 6).Draw(t, "gpu"), CPU: rapid.Int64Range(0, 6).Draw(t, "cpu"),
				Memory: rapid.Int64Range(0, 6).Draw(t, "mb"),
			}
			weight := rapid.SampledFrom([]float64{0, 1, 2, 0.5, 3, 0.3}).Draw(t, "weight")
			id := fmt.Sprintf("t%d", i)
			w.tree.SetTenant(id, &ares.Tenant{ID: id, Weight: weight, Limits: ares.NoLimits()})
			f.asks, f.weights = append(f.asks, ask), append(f.weights, weightMilli(weight))
			for range jobs {
				of[w.job(id, "", ask, 500, i, dawn).ID] = id
			}
		}
		got := count(w.runRound(dawn), of)
		for i, want := range f.fill(jobs) {
			if id := fmt.Sprintf("t%d", i); got[id] != want {
				t.Fatalf("%s got %d tasks, want %d (asks %v, weights %v, fleet %v)", id, got[id], want, f.asks, f.weights, capacity)
			}
		}
	})
}

// TestShareGuarantee checks the shares of n tenants that have endless small jobs. Each tenant must get a share
// of at least 1/n minus the size of one job.
func TestShareGuarantee(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity := Resources{GPU: 10_000, CPU: 10_000, Memory: 10_000}
		w := newTestCluster(Config{}, capacity)
		n := rapid.IntRange(1, 6).Draw(t, "tenants")
		largest := int64(0)
		for i := range n {
			ask := Resources{rapid.Int64Range(1, 100).Draw(t, "g"), rapid.Int64Range(1, 100).Draw(t, "c"), rapid.Int64Range(1, 100).Draw(t, "m")}
			most := max(ask.GPU, ask.CPU, ask.Memory)
			largest = max(largest, most)
			for range 10_000/most + 1 {
				w.job(fmt.Sprintf("t%d", i), "", ask, 500, i, dawn)
			}
		}
		w.apply(w.runRound(dawn))
		for _, s := range w.tree.Shares(dawn) {
			if s.Queue != "" {
				continue
			}
			// Shares are in ten-thousandths, and each share may be too small by the size of one job.
			if got := s.DominantShare / 100; got < int64(10_000/n)-largest-1 {
				t.Fatalf("%s has a share of %d of 10000 among %d, with jobs of up to %d", s.Tenant, got, n, largest)
			}
		}
	})
}

// TestHierarchicalShares checks that capacity is divided level by level: first among tenants, and then among the
// queues of each tenant. Capacity that a queue does not use goes to its siblings before it goes to other tenants.
func TestHierarchicalShares(t *testing.T) {
	t.Parallel()
	w := newTestCluster(Config{}, Resources{GPU: 120})
	w.tree.SetTenant("a", &ares.Tenant{ID: "a", Weight: 2, Limits: ares.NoLimits()})
	for _, q := range []ares.Queue{
		{Tenant: "a", Name: "train", Weight: 3},
		{Tenant: "a", Name: "big", Parent: "train", Weight: 1},
		{Tenant: "a", Name: "small", Parent: "train", Weight: 2},
		{Tenant: "a", Name: "serve", Weight: 1},
	} {
		q.Limits = ares.NoLimits()
		w.tree.SetQueue(&q)
	}
	of := map[string]string{}
	for range 120 {
		for _, q := range []string{"a/big", "a/small", "a/serve", "b/x", "b/y"} {
			of[w.job(q[:1], q[2:], Resources{GPU: 1}, 500, 1, dawn).ID] = q
		}
	}
	got := count(w.runRound(dawn), of)
	want := map[string]int{"a/big": 20, "a/small": 40, "a/serve": 20, "b/x": 20, "b/y": 20}
	for q, n := range want {
		if got[q] != n {
			t.Errorf("%s got %d, want %d (all: %v)", q, got[q], n, got)
		}
	}
}

// TestQueueWithOwnJobsAndChildren checks a queue that has both its own jobs and child queues. The queue's own jobs
// must count as one more child queue.
func TestQueueWithOwnJobsAndChildren(t *testing.T) {
	t.Parallel()
	w := newTestCluster(Config{}, Resources{GPU: 40})
	w.tree.SetQueue(&ares.Queue{Tenant: "a", Name: "down", Parent: "up", Weight: 3, Limits: ares.NoLimits()})
	of := map[string]string{}
	for range 40 {
		of[w.job("a", "up", Resources{GPU: 1}, 500, 1, dawn).ID] = "up"
		of[w.job("a", "down", Resources{GPU: 1}, 500, 1, dawn).ID] = "down"
	}
	if got := count(w.runRound(dawn), of); got["up"] != 10 || got["down"] != 30 {
		t.Errorf("got %v, want 10 up and 30 down", got)
	}
}

// TestClasses checks the order of jobs of two tenants. The tenant with a small share has jobs of class low, and
// the tenant with a large share has jobs of class high. The jobs of class high must come first, until ageing has
// raised the other jobs.
func TestClasses(t *testing.T) {
	t.Parallel()
	cfg := Config{AgeingStep: 10 * time.Second}
	w := newTestCluster(cfg, Resources{GPU: 100})
	w.tree.Leaf("rich", "").Charge(Allocation{ForShare: Resources{GPU: 50}}, 1)
	low := w.job("poor", "", Resources{GPU: 1}, 100, 1, dawn)
	for _, c := range []struct {
		after time.Duration
		first string
		class ares.Class
	}{
		{0, "rich", ares.Low},
		{3999 * time.Second, "rich", ares.Low},
		{4000 * time.Second, "rich", ares.Normal},
		{8999 * time.Second, "rich", ares.Normal},
		{9000 * time.Second, "poor", ares.High},
		{1000 * time.Hour, "poor", ares.High},
	} {
		now := dawn.Add(c.after)
		high := w.job("rich", "", Resources{GPU: 1}, 1000, 1, now)
		if got := w.tree.Class(low, now); got != c.class {
			t.Errorf("after %v the low job is %s, want %s", c.after, got, c.class)
		}
		if first := w.runRound(now)[0].Leaf().Tenant(); first != c.first {
			t.Errorf("after %v %s is first, want %s", c.after, first, c.first)
		}
		w.tree.Remove(high)
	}
	critical := w.job("rich", "", Resources{GPU: 1}, 2000, 1, dawn.Add(1000*time.Hour))
	if first := w.runRound(dawn.Add(1000 * time.Hour))[0]; first != critical {
		t.Errorf("an aged job went before a critical one")
	}
}

// TestSmallestShareFirst checks the order of offers in random queue trees. When a job is offered, no remaining job
// may have a higher class. Among the jobs of the same class, none may belong to a tenant with a smaller share.
// Among the queues of one tenant, the queue with the smallest share must also come first.
func TestSmallestShareFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{AgeingStep: 10 * time.Second, HalfLife: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "half")}
		capacity := Resources{GPU: 64_000, CPU: 512, Memory: 4096}
		w := newTestCluster(cfg, capacity)
		now := dawn.Add(3 * time.Hour)
		left := map[string]*Item[Resources]{}
		paths := []string{"a", "b", "c"}
		for _, id := range paths {
			w.tree.SetTenant(id, &ares.Tenant{ID: id, Weight: float64(rapid.IntRange(1, 5).Draw(t, "weight")), Limits: ares.NoLimits()})
			w.tree.Leaf(id, "").Charge(Allocation{ForShare: Resources{GPU: rapid.Int64Range(0, 5000).Draw(t, "held")}}, 1)
			w.tree.Leaf(id, "").AddEnded(Resources{CPU: rapid.Int64Range(0, 100).Draw(t, "ran")}, dawn, dawn.Add(time.Hour), 1)
		}
		for range rapid.IntRange(1, 80).Draw(t, "jobs") {
			shape := rapid.IntRange(0, 5).Draw(t, "shape")
			it := w.job(rapid.SampledFrom(paths).Draw(t, "tenant"), rapid.SampledFrom([]string{"", "x"}).Draw(t, "queue"),
				Resources{GPU: int64(shape) * 2000, CPU: 8, Memory: int64(6-shape) * 50}, rapid.SampledFrom([]int{0, 400, 500, 1000, 2000}).Draw(t, "priority"), shape,
				dawn.Add(time.Duration(rapid.IntRange(0, 10_000).Draw(t, "accepted"))*time.Second))
			left[it.ID] = it
		}
		share := func(tenant, queue string) *big.Rat { return w.exactShare(tenant, queue, now) }
		p := w.tree.BeginRound(now)
		for {
			it, ok := p.Next()
			if !ok {
				break
			}
			class := ares.ClassOf(cfg.AgedPriority(it.Priority, it.Accepted, now)).Rank()
			mine := it.Leaf()
			for _, other := range left {
				its := ares.ClassOf(cfg.AgedPriority(other.Priority, other.Accepted, now)).Rank()
				if its > class {
					t.Fatalf("%s offered while %s of a higher class waits", it.ID, other.ID)
				}
				if its < class {
					continue
				}
				l := other.Leaf()
				switch {
				case l.Tenant() != mine.Tenant():
					if share(l.Tenant(), "").Cmp(share(mine.Tenant(), "")) < 0 {
						t.Fatalf("%s of %s offered while %s with a smaller share waits", it.ID, mine.Tenant(), l.Tenant())
					}
				case l != mine:
					if share(l.Tenant(), l.Name()).Cmp(share(mine.Tenant(), mine.Name())) < 0 {
						t.Fatalf("%s of queue %s offered while %s with a smaller share waits", it.ID, mine.Name(), l.Name())
					}
				case precedes(cfg, other, it):
					t.Fatalf("%s offered before %s of the same queue", it.ID, other.ID)
				}
			}
			if rapid.Bool().Draw(t, "take") {
				p.Allocate(Allocation{ForShare: it.Owner})
				delete(left, it.ID)
				continue
			}
			p.SkipShape()
			for id, other := range left { // the whole shape queue is skipped
				if other.Leaf() == mine && other.Shape == it.Shape {
					delete(left, id)
				}
			}
		}
		p.End()
		if len(left) != 0 {
			t.Fatalf("%d jobs were never offered", len(left))
		}
	})
}

// The function `precedes` reports whether a comes before b in their leaf queue.
func precedes(cfg Config, a, b *Item[Resources]) bool {
	x, y := cfg.agedKey(a.Priority, a.Accepted), cfg.agedKey(b.Priority, b.Accepted)
	return x < y || x == y && a.Revision < b.Revision
}

// exactShare returns the weighted share, computed with big integers at the precision
// of internal shares.
func (w *testCluster) exactShare(tenant, queue string, now time.Time) *big.Rat {
	of := w.tree.tenants[tenant]
	var use Resources
	weight := of.node.weight
	node := of.node
	if queue != "" {
		node = of.queues[queue].node
		weight = node.weight
	}
	for name, q := range of.queues {
		if queue == "" || name == queue {
			use = use.Add(q.leaf.node.allocated, 1) // includes the allocations of the round
		}
	}
	if w.tree.cfg.HalfLife > 0 {
		use = use.Add(node.history.averageAt(w.tree.cfg.momentOf(now)), 1)
	}
	best := new(big.Int)
	caps := w.tree.capacity.vector()
	for r, n := range use.vector() {
		x := new(big.Int).Mul(big.NewInt(n), new(big.Int).Lsh(big.NewInt(1000), 38))
		x.Div(x, big.NewInt(caps[r]))
		if x.Cmp(best) > 0 {
			best = x
		}
	}
	return new(big.Rat).SetInt(best.Div(best, big.NewInt(weight)))
}

// TestJain checks Jain's fairness index for allocations with a known result.
func TestJain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shares []int64
		want   int
	}{
		{nil, 1000},
		{[]int64{7}, 1000},
		{[]int64{5, 5, 5}, 1000},
		{[]int64{9, 0, 0}, 333},
		{[]int64{1, 2, 3}, 857},
		{[]int64{1 << 32, 1 << 32, 1 << 32, 1 << 32}, 1000},
		{[]int64{0, 0}, 1000},
		{[]int64{1 << 32, 0}, 500},
	} {
		var shares []Share
		for _, s := range c.shares {
			shares = append(shares, Share{Tenant: "t", WeightedShare: s, Waiting: 1})
		}
		shares = append(shares, Share{Tenant: "t", Queue: "q", WeightedShare: 3, Waiting: 1}, Share{Tenant: "idle"})
		if got := JainIndex(shares); got != c.want {
			t.Errorf("Jain of %v is %d, want %d", c.shares, got, c.want)
		}
	}
}

// TestShares checks all numbers that Shares returns for a small tree.
func TestShares(t *testing.T) {
	t.Parallel()
	w := newTestCluster(Config{}, Resources{GPU: 8000, CPU: 100, Memory: 1000})
	w.tree.SetTenant("a", &ares.Tenant{ID: "a", Weight: 3, Limits: ares.NoLimits()})
	w.tree.Leaf("a", "x").Charge(Allocation{ForShare: Resources{GPU: 2000, CPU: 50}}, 1)
	w.job("b", "", Resources{GPU: 1}, 500, 1, dawn)
	w.tree.SetTenant("c", nil)
	got := w.tree.Shares(dawn)
	want := []Share{
		{Tenant: "a", Weight: 3000, EffectiveWeight: 3000, Allocated: Resources{GPU: 2000, CPU: 50}, DominantShare: 500_000, DominantResource: CPU, WeightedShare: 166_666, FairShare: 750_000},
		{Tenant: "a", Queue: "x", Depth: 1, Weight: 1000, EffectiveWeight: 1000, Allocated: Resources{GPU: 2000, CPU: 50}, DominantShare: 500_000, DominantResource: CPU, WeightedShare: 500_000, FairShare: 750_000},
		{Tenant: "b", Weight: 1000, EffectiveWeight: 1000, Waiting: 1, DominantResource: GPU, FairShare: 250_000},
		{Tenant: "b", Queue: "default", Depth: 1, Weight: 1000, EffectiveWeight: 1000, Waiting: 1, DominantResource: GPU, FairShare: 250_000},
		{Tenant: "c", Weight: 1000, EffectiveWeight: 1000, DominantResource: GPU},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
