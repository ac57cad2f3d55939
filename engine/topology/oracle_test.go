package topology_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// A `cluster` is a random cluster together with a request. The type also implements topology.NodeEvaluator.
type cluster struct {
	places   []topology.Location
	topology *ares.Topology
	free     []int
	total    []int
	history  []int
	room     []int
	waste    []int
	ask      topology.Request
	queries  int // number of calls of Capacity
}

func (w *cluster) Capacity(node int) int {
	w.queries++
	return w.room[node]
}

func (w *cluster) Penalty(node int) int { return w.waste[node] }

func (w *cluster) tree() *topology.Tree {
	t := topology.NewTree(w.places, w.topology)
	for i := range w.places {
		t.SetFree(i, w.free[i], w.total[i])
		t.SetHistory(i, w.history[i])
	}
	return t
}

// bruteForce evaluates all placements and returns the best one.
func (w *cluster) bruteForce(t *topology.Tree) (best topology.PlacementCost, picks []topology.Assignment, ok bool) {
	var try []topology.Assignment
	var walk func(node, left int)
	walk = func(node, left int) {
		if node == len(w.places) || left == 0 {
			if len(try) == 0 {
				return
			}
			v, _, allowed := t.Evaluate(&w.ask, w, try)
			if allowed && (!ok || v.Compare(&best) < 0) {
				best, ok = v, true
				picks = append(picks[:0], try...)
			}
			return
		}
		walk(node+1, left)
		for n := 1; n <= min(left, w.room[node]); n++ {
			try = append(try, topology.Assignment{Node: node, Members: n})
			walk(node+1, left-n)
			try = try[:len(try)-1]
		}
	}
	walk(0, w.ask.Members)
	return best, picks, ok
}

// oneOf returns one of its arguments at random.
func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomCluster returns a random cluster with no more than the given numbers of leaves, nodes and members.
func randomCluster(r *rand.Rand, leaves, nodes, members int) *cluster {
	w := &cluster{topology: &ares.Topology{}}
	w.placeNodes(r, 2+r.IntN(leaves-1), nodes-r.IntN(nodes/2+1))
	a := &w.ask
	a.Members = min(members, oneOf(r, 1, 2, 3, 4, 4, 4, 5, 6))
	a.DevicesPerMember = oneOf(r, 0, 1, 2, 4, 4, 8, 8, 8)
	a.Strategy = oneOf(r, "", topology.Balanced, topology.Consolidated, topology.Distributed)
	if r.IntN(6) == 0 {
		a.MinMembers = 1 + r.IntN(a.Members)
	}
	if r.IntN(6) == 0 {
		a.RequiredLevel = oneOf(r, ares.Levels()...)
	}
	if r.IntN(5) == 0 {
		a.PreferredLevel = oneOf(r, ares.Levels()...)
	}
	if r.IntN(4) == 0 {
		a.PreferredDomain = oneOf(r, "r0", "z0", "z1", "s0", "s1", "l0", "l1", "l2", "elsewhere")
	}
	if r.IntN(8) == 0 {
		a.MinGbps = oneOf(r, 10, 40, 100)
	}
	a.LatencySensitive = r.IntN(4) == 0
	a.CacheKey = r.IntN(2)
	for i := range w.places {
		w.total = append(w.total, oneOf(r, 8, 8, 8, 4))
		w.history = append(w.history, oneOf(r, 1000, 1000, 1000, 500, r.IntN(1001)))
		w.free, w.room, w.waste = append(w.free, 0), append(w.room, 0), append(w.waste, 0)
		w.setFree(r, i)
		if r.IntN(8) == 0 {
			a.PreviousNodes = append(a.PreviousNodes, i)
		}
	}
	return w
}

// setFree draws random values for the free devices, the capacity and the waste of node i.
func (w *cluster) setFree(r *rand.Rand, i int) {
	w.free[i] = r.IntN(w.total[i]+2) - 1
	if r.IntN(3) == 0 {
		w.free[i] = w.total[i]
	}
	room := 0
	if w.free[i] >= 0 && w.ask.DevicesPerMember == 0 {
		room = r.IntN(4)
	} else if w.free[i] > 0 {
		room = w.free[i] / w.ask.DevicesPerMember
	}
	if r.IntN(8) == 0 {
		room = r.IntN(room + 1)
	}
	w.room[i] = room
	w.waste[i] = r.IntN(oneOf(r, 1, 3, 9)) - 2
}

// placeNodes declares a topology with several leaves, and assigns a location to each node.
func (w *cluster) placeNodes(r *rand.Rand, leaves, nodes int) {
	t := w.topology
	t.Domains = []ares.Domain{
		{Name: "r0", Level: ares.LevelRegion, Switch: oneOf(r, "", "40GbE")},
		{Name: "z0", Level: ares.LevelZone, Parent: oneOf(r, "", "r0"), Switch: oneOf(r, "", "100GbE")},
		{Name: "z1", Level: ares.LevelZone, Parent: "r0"},
		{Name: "s0", Level: ares.LevelSpine, Parent: oneOf(r, "", "z0"), Switch: oneOf(r, "", "40GbE", "400GbE")},
		{Name: "s1", Level: ares.LevelSpine, Parent: oneOf(r, "z0", "z1"), Switch: oneOf(r, "", "100GbE")},
	}
	parents := oneOf(r, []string{"s0"}, []string{"s0", "s1"}, []string{"s0", "s0", "s1", "z1", ""})
	for l := range leaves {
		d := ares.Domain{
			Name: fmt.Sprintf("l%d", l), Level: ares.LevelLeaf, Parent: oneOf(r, parents...),
			Switch: oneOf(r, "", "10GbE", "40GbE", "100GbE", "100GbE"),
		}
		for o := range l {
			if r.IntN(3) == 0 {
				d.Adjacent = append(d.Adjacent, fmt.Sprintf("l%d", o))
			}
		}
		t.Domains = append(t.Domains, d)
	}
	if r.IntN(4) == 0 {
		t.MaxNodesPerLeaf = 1 + r.IntN(3)
	}
	if r.IntN(4) == 0 {
		t.MaxGPUsPerLeaf = 1 + r.IntN(16)
	}
	if r.IntN(3) == 0 {
		t.Weights = oneOf(r, ares.Weights{Availability: 1000}, ares.Weights{Utilization: 500, History: 500}, ares.Weights{Alignment: 1000})
	}
	atlas := topology.NewLocator(t)
	nameless := r.IntN(8) == 0
	for range nodes {
		labels := map[string]string{"leaf": fmt.Sprintf("l%d", r.IntN(leaves))}
		if nameless || r.IntN(20) == 0 {
			labels = map[string]string{"zone": oneOf(r, "", "z0")}
		}
		w.places = append(w.places, atlas.Locate("", labels))
	}
	slices.SortFunc(w.places, topology.CompareLocations)
}

// checkBest compares the result of Choose with that of brute force.
func (w *cluster) checkBest(t *topology.Tree) error {
	want, wanted, ok := w.bruteForce(t)
	picks, _, found := t.Choose(&w.ask, w)
	switch {
	case ok != found:
		return fmt.Errorf("%w: found %v %v, but there is %v", errWrongAnswer, found, picks, wanted)
	case !ok:
		return nil
	}
	got, _, allowed := t.Evaluate(&w.ask, w, slices.Clone(picks))
	if !allowed {
		return fmt.Errorf("%w: %v is not allowed", errWrongAnswer, picks)
	}
	if got.Compare(&want) != 0 {
		return fmt.Errorf("chose %v\n%+v\nbut %v is better\n%+v", picks, got, wanted, want)
	}
	return nil
}

var errWrongAnswer = errors.New("wrong answer")

// changeSome changes the free devices of some nodes and updates the tree.
func (w *cluster) changeSome(r *rand.Rand, t *topology.Tree) {
	for i := range w.places {
		if r.IntN(3) == 0 {
			w.setFree(r, i)
			t.SetFree(i, w.free[i], w.total[i])
		}
	}
}

// TestChoiceIsBest compares Choose with brute force on small trees that change between two searches.
func TestChoiceIsBest(t *testing.T) {
	t.Parallel()
	worlds := 50_000
	if testing.Short() {
		worlds = 2_000
	}
	worse, wrong := 0, 0
	for seed := range worlds {
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		w := randomCluster(r, 4, 8, 4)
		tree := w.tree()
		for step := range 2 {
			if step > 0 {
				w.changeSome(r, tree)
			}
			err := w.checkBest(tree)
			if err == nil {
				continue
			}
			if worse++; errors.Is(err, errWrongAnswer) {
				wrong++
			}
			if worse <= 3 {
				t.Logf("seed %d step %d: %v\nask %+v\nplaces %v\nfree %v room %v waste %v\ntopology %+v",
					seed, step, err, w.ask, w.places, w.free, w.room, w.waste, *w.topology)
			}
		}
	}
	t.Logf("%d of %d choices were not the best", worse, 2*worlds)
	if wrong > 0 {
		t.Errorf("%d choices were no answer: a fit was missed, or a rule broken", wrong)
	}
	if worse*10_000 > 2*worlds {
		t.Errorf("%d of %d choices were not the best: more than one in 10,000", worse, 2*worlds)
	}
}

// uniformCluster returns a cluster with many leaves that have equal bounds. Only some leaves can hold the job, so the
// number of searched leaves affects the result.
func uniformCluster(r *rand.Rand) *cluster {
	w := &cluster{topology: &ares.Topology{}, ask: topology.Request{Members: 1 + r.IntN(4), DevicesPerMember: 8}}
	size := 1 + r.IntN(3)
	for i := range 120 {
		w.places = append(w.places, topology.Location{Spine: fmt.Sprintf("s%02d", i/size/3), Leaf: fmt.Sprintf("l%03d", i/size)})
		w.free, w.total, w.history = append(w.free, 8), append(w.total, 8), append(w.history, 1000)
		w.room, w.waste = append(w.room, r.IntN(3)/2), append(w.waste, r.IntN(50))
	}
	return w
}

// TestCacheDoesNotChangeChoice compares two trees: one that has already answered other requests, and a new one. A
// replay has seen fewer requests than the live server, and must still make the same choice.
func TestCacheDoesNotChangeChoice(t *testing.T) {
	t.Parallel()
	worlds := 2_000
	if testing.Short() {
		worlds = 200
	}
	for seed := range worlds {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		w := largeCluster(r)
		if seed%2 == 0 {
			w = uniformCluster(r)
		}
		w.ask.CacheKey, w.ask.MinGbps = 1, oneOf(r, 0, 0, 0, 40)
		old := w.tree()
		ask := w.ask
		for range 4 {
			w.ask.Members = 1 + r.IntN(ask.Members)
			w.ask.MinMembers = 0
			w.ask.RequiredLevel = oneOf(r, "", ares.LevelLeaf, ares.LevelSpine, ares.LevelZone)
			old.Choose(&w.ask, w)
			if r.IntN(2) == 0 {
				w.changeSome(r, old)
			}
			w.ask = ask
			got, _, _ := old.Choose(&w.ask, w)
			want, _, _ := w.tree().Choose(&w.ask, w)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: an old tree says %v, a new one %v: ask %+v", seed, got, want, w.ask)
			}
		}
	}
}
