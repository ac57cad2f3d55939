package queue

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// treeSpec describes a random tree, so that a test can build it twice.
type treeSpec struct {
	tenants []ares.Tenant
	queues  []ares.Queue
	items   []Item[int]
	where   [][2]string
	grants  []Allocation
	periods []usagePeriod
}

func drawTreeSpec(t *rapid.T) treeSpec {
	var s treeSpec
	tenants := []string{"a", "b", "c"}
	queues := []string{"p", "q", "r", DefaultQueue}
	for _, id := range tenants {
		if rapid.Bool().Draw(t, "declared") {
			s.tenants = append(s.tenants, ares.Tenant{
				ID: id, Weight: float64(rapid.IntRange(0, 3).Draw(t, "weight")), Limits: ares.NoLimits(),
				Quotas: quotas("", rapid.IntRange(0, 30).Draw(t, "nominal"), 5, 5),
			})
		}
		for _, q := range queues {
			if rapid.Bool().Draw(t, "declared") {
				s.queues = append(s.queues, ares.Queue{
					Tenant: id, Name: q, Parent: rapid.SampledFrom([]string{"", "p", "q", "r", "nowhere"}).Draw(t, "parent"),
					Weight: float64(rapid.IntRange(0, 3).Draw(t, "weight")), Limits: ares.NoLimits(),
				})
			}
		}
	}
	for i := range rapid.IntRange(0, 60).Draw(t, "items") {
		s.items = append(s.items, Item[int]{
			Owner: i, ID: fmt.Sprintf("j%d", i), Shape: rapid.IntRange(0, 3).Draw(t, "shape"),
			Priority: rapid.SampledFrom([]int{0, 100, 500, 500, 1000, 2000}).Draw(t, "priority"),
			Accepted: dawn.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "accepted")) * time.Second),
			Revision: rapid.Int64Range(1, 20).Draw(t, "revision"),
		})
		s.where = append(s.where, [2]string{rapid.SampledFrom(tenants).Draw(t, "tenant"), rapid.SampledFrom(queues).Draw(t, "queue")})
		s.grants = append(s.grants, drawGrant(t))
	}
	for range rapid.IntRange(0, 5).Draw(t, "stays") {
		start := dawn.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "start")) * time.Second)
		s.periods = append(s.periods, usagePeriod{rapid.SampledFrom(queues).Draw(t, "queue"), Resources{GPU: 1000, CPU: 5}, start, start.Add(time.Hour)})
	}
	return s
}

func drawGrant(t *rapid.T) Allocation {
	n := rapid.IntRange(0, 8).Draw(t, "gpus")
	return Allocation{
		ForShare: Resources{int64(n) * 1000, int64(n), 7}, ForLimits: ares.Use{GPUs: n, Jobs: 1},
		ForQuotas: []GPUAmount{{rapid.IntRange(0, 1).Draw(t, "model"), int64(n) * 1000}},
	}
}

// The method `build` returns a new tree. It adds all tenants, queues and items in the given order. If the
// parameter `order` is nil, the method uses the order of the description.
func (s *treeSpec) build(order []int) (*Tree[int], []*Item[int]) {
	tree := New[int](Config{AgeingStep: 10 * time.Second, HalfLife: time.Hour})
	tree.SetCapacity(Resources{GPU: 100_000, CPU: 1000, Memory: 100_000})
	tree.ModelIndex("h100")
	tree.ModelIndex("l4")
	items := make([]*Item[int], len(s.items))
	var steps []func()
	for i := range s.tenants {
		steps = append(steps, func() { tree.SetTenant(s.tenants[i].ID, &s.tenants[i]) })
	}
	for i := range s.queues {
		steps = append(steps, func() { tree.SetQueue(&s.queues[i]) })
	}
	for i := range s.items {
		it := s.items[i]
		items[i] = &it
		steps = append(steps, func() {
			l := tree.Leaf(s.where[i][0], s.where[i][1])
			l.Push(&it)
			l.Charge(s.grants[i], 1)
		})
	}
	for _, st := range s.periods {
		steps = append(steps, func() {
			tree.Leaf("a", st.queue).AddEnded(st.use, st.start, st.end, 1)
			tree.Leaf("a", st.queue).AddRunning(st.use, st.start, 1)
		})
	}
	for i, step := range steps {
		if order != nil {
			step = steps[order[i%len(order)]%len(steps)]
		}
		step()
	}
	return tree, items
}

// The function `normalize` removes differences that have no meaning: spare buffers, and whether an item is still
// among the arrivals.
func normalize(tree *Tree[int]) {
	tree.rebuild()
	var visit func(n *node[int])
	visit = func(n *node[int]) {
		if len(n.heap) == 0 {
			n.heap = nil
		}
		if len(n.children) == 0 {
			n.children = nil
		}
		if l := n.leaf; l != nil {
			if len(l.cursors)+len(l.tournament) == 0 {
				l.cursors, l.tournament = nil, nil
			}
			if len(l.heldByModel) == 0 {
				l.heldByModel = nil
			}
			for _, of := range l.shapeQueues {
				of.sortArrivals()
				of.arrivals, of.fullArrivals = nil, nil
				for i := range of.chunks {
					tree.sortChunk(&of.chunks[i])
				}
			}
		}
		for _, k := range n.children {
			visit(k)
		}
	}
	visit(tree.root)
	tree.spareBuffers, tree.sortScratch = nil, nil
	tree.round = Round[int]{tree: tree}
}

// TestUndo runs a round of random allocations and refusals. After the round, the tree must equal a second tree that
// had no round.
func TestUndo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawTreeSpec(t)
		tree, _ := s.build(nil)
		twin, _ := s.build(nil)
		p := tree.BeginRound(dawn.Add(3 * time.Hour))
		for rapid.IntRange(0, 20).Draw(t, "go on") > 0 {
			if _, ok := p.Next(); !ok {
				break
			}
			if rapid.Bool().Draw(t, "take") {
				p.Allocate(drawGrant(t))
			} else {
				p.SkipShape()
			}
		}
		p.End()
		if tree.round.open || len(tree.round.charged)+len(tree.round.path) != 0 || tree.round.contested {
			t.Fatalf("the round is still open: %+v", tree.round)
		}
		normalize(tree)
		normalize(twin)
		if !reflect.DeepEqual(tree, twin) {
			t.Fatal("the round left a trace")
		}
	})
}

// TestAnyOrder checks that the order in which tenants, queues and items are added does not matter. Both trees must
// offer the same items, even if the parents of queues form cycles.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawTreeSpec(t)
		n := len(s.tenants) + len(s.queues) + len(s.items) + len(s.periods)
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		order = rapid.Permutation(order).Draw(t, "order")
		tree, _ := s.build(nil)
		other, _ := s.build(order)
		now := dawn.Add(3 * time.Hour)
		a, b := names(allOffers(tree, now)), names(allOffers(other, now))
		if !slices.Equal(a, b) || len(a) != len(s.items) {
			t.Fatalf("%v\n%v", a, b)
		}
		if !reflect.DeepEqual(tree.Shares(now), other.Shares(now)) || !reflect.DeepEqual(tree.pools, other.pools) {
			t.Fatalf("%+v\n%+v", tree.Shares(now), other.Shares(now))
		}
	})
}

// TestCountAhead runs a round that allocates nothing. For each item, it compares the result of CountAhead with the
// order of this round.
func TestCountAhead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawTreeSpec(t)
		tree, _ := s.build(nil)
		now := dawn.Add(3 * time.Hour)
		all := allOffers(tree, now)
		first := map[string]*Item[int]{}
		for i, it := range all {
			own, head, others := tree.CountAhead(it, now)
			if own+others != i {
				t.Fatalf("%s: %d of its own and %d others are ahead of it, want %d in all (%v)", it.ID, own, others, i, names(all))
			}
			if head != first[it.Leaf().Tenant()] {
				t.Fatalf("%s: first of its tenant is %v, want %v", it.ID, head, first[it.Leaf().Tenant()])
			}
			if first[it.Leaf().Tenant()] == nil {
				first[it.Leaf().Tenant()] = it
			}
		}
	})
}

// TestStarvation checks a queue that is overloaded with jobs of priority 1999: in each ageing step, two
// jobs arrive and one job runs. A job of priority 0 must wait only for jobs that were accepted within 1999
// ageing steps after it.
func TestStarvation(t *testing.T) {
	t.Parallel()
	const top = 1999
	cfg := Config{AgeingStep: time.Second}
	w := newTestCluster(cfg, Resources{GPU: 1})
	least := w.job("a", "", Resources{GPU: 1}, 0, 1, dawn)
	served := 0
	for step := 0; ; step++ {
		now := dawn.Add(time.Duration(step) * time.Second)
		w.job("a", "", Resources{GPU: 1}, top, 1, now)
		w.job("a", "", Resources{GPU: 1}, top, 2, now)
		first := w.runRound(now)[0]
		served++
		w.tree.Remove(first)
		if first == least {
			break
		}
		if served > 2*(top+1) {
			t.Fatalf("still waits after %d others", served)
		}
	}
	if served < top {
		t.Errorf("went before %d others: the stream did not hold it up at all", served)
	}
}

// TestStarvationBetweenTenants checks a job of priority 0 while other tenants submit jobs of class high without end.
// The tenant of the job has no allocations. After 1000 steps, ageing has raised the job to class high, and it must
// be offered first.
func TestStarvationBetweenTenants(t *testing.T) {
	t.Parallel()
	cfg := Config{AgeingStep: time.Second}
	w := newTestCluster(cfg, Resources{GPU: 10})
	least := w.job("z", "", Resources{GPU: 1}, 0, 1, dawn)
	for step := range 1001 {
		now := dawn.Add(time.Duration(step) * time.Second)
		for _, tenant := range []string{"a", "b"} {
			w.job(tenant, "", Resources{GPU: 1}, 1999, 1, now)
			w.tree.Leaf(tenant, "").Charge(Allocation{ForShare: Resources{GPU: 1}}, 1)
		}
		if first := w.runRound(now)[0]; (first == least) != (step == 1000) {
			t.Fatalf("at step %d %s is first", step, first.ID)
		}
	}
}

// TestReparent checks that a queue keeps its allocations when it is moved below another queue.
func TestReparent(t *testing.T) {
	t.Parallel()
	tree := New[int](Config{})
	tree.SetCapacity(Resources{GPU: 100})
	tree.SetQueue(&ares.Queue{Tenant: "a", Name: "x", Limits: ares.NoLimits()})
	tree.Leaf("a", "y").Charge(Allocation{ForShare: Resources{GPU: 10}}, 1)
	held := func(queue string) Resources {
		for _, s := range tree.Shares(dawn) {
			if s.Queue == queue {
				return s.Allocated
			}
		}
		return Resources{}
	}
	if held("x") != (Resources{}) {
		t.Errorf("x holds %v", held("x"))
	}
	tree.SetQueue(&ares.Queue{Tenant: "a", Name: "y", Parent: "x", Limits: ares.NoLimits()})
	if held("x") != (Resources{GPU: 10}) || held("") != (Resources{GPU: 10}) {
		t.Errorf("x holds %v, the tenant %v", held("x"), held(""))
	}
	tree.DropQueue("a", "y")
	if held("x") != (Resources{}) || held("y") != (Resources{GPU: 10}) {
		t.Errorf("after the drop x holds %v and y %v", held("x"), held("y"))
	}
}
