package topology_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// TestFitIsFound checks the search in clusters that are too large for brute force. The search must place as many
// members as fit in the largest allowed domain. The test itself counts the members that fit there, and does not
// use the search for this.
func TestFitIsFound(t *testing.T) {
	t.Parallel()
	worlds := 3_000
	if testing.Short() {
		worlds = 300
	}
	for seed := range worlds {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		w := largeCluster(r)
		tree := w.tree()
		for step := range 2 {
			if step > 0 {
				w.changeSome(r, tree)
			}
			most := min(w.largestCapacity(), w.ask.Members)
			picks, _, ok := tree.Choose(&w.ask, w)
			placed := 0
			for _, p := range picks {
				placed += p.Members
			}
			if want := most >= max(w.ask.MinMembers, 1); ok != want || ok && placed != most {
				t.Fatalf("seed %d step %d: placed %d, %d fit: ask %+v, topology %+v", seed, step, placed, most, w.ask, *w.topology)
			}
			if !ok {
				continue
			}
			if _, _, allowed := tree.Evaluate(&w.ask, w, slices.Clone(picks)); !allowed {
				t.Fatalf("seed %d step %d: %v is not allowed: ask %+v", seed, step, picks, w.ask)
			}
		}
	}
}

// largeCluster returns a cluster with named leaves of up to 60 nodes. Many nodes of the cluster are closed to
// the job, although their devices are free.
func largeCluster(r *rand.Rand) *cluster {
	w := &cluster{topology: &ares.Topology{}}
	leaves, size := 1+r.IntN(12), 1+r.IntN(60)
	names := map[string]bool{}
	declare := func(name string, level ares.Level) string {
		if !names[name] {
			names[name] = true
			w.topology.Domains = append(w.topology.Domains, ares.Domain{Name: name, Level: level, Switch: oneOf(r, "", "40GbE", "100GbE", "100GbE")})
		}
		return name
	}
	for l := range leaves {
		p := topology.Location{
			Region: declare("r", ares.LevelRegion), Zone: declare(fmt.Sprintf("z%d", l/6), ares.LevelZone),
			Spine: declare(fmt.Sprintf("s%d", l/3), ares.LevelSpine), Leaf: declare(fmt.Sprintf("l%d", l), ares.LevelLeaf),
		}
		for range 1 + r.IntN(size) {
			w.places = append(w.places, p)
		}
	}
	slices.SortFunc(w.places, topology.CompareLocations)
	if r.IntN(3) == 0 {
		w.topology.MaxNodesPerLeaf = 1 + r.IntN(6)
	}
	if r.IntN(3) == 0 {
		w.topology.MaxGPUsPerLeaf = 1 + r.IntN(64)
	}
	members := 1 + r.IntN(40)
	w.ask = topology.Request{
		Members: members, MinMembers: 1 + r.IntN(members), DevicesPerMember: oneOf(r, 0, 1, 2, 4, 8, 8), CacheKey: r.IntN(2),
		RequiredLevel: oneOf(r, "", ares.LevelRegion, ares.LevelZone, ares.LevelSpine, ares.LevelLeaf, ares.LevelNode),
		Strategy:      oneOf(r, topology.Balanced, topology.Consolidated, topology.Distributed), MinGbps: oneOf(r, 0, 0, 40, 100),
		LatencySensitive: r.IntN(4) == 0,
	}
	for i := range w.places {
		w.total, w.history = append(w.total, 8), append(w.history, 1000)
		w.free, w.room, w.waste = append(w.free, 0), append(w.room, 0), append(w.waste, 0)
		w.setFree(r, i)
		if r.IntN(2) == 0 {
			w.room[i] = 0
		}
	}
	return w
}

// largestCapacity returns how many members fit in the largest allowed domain.
func (w *cluster) largestCapacity() int {
	gbps := map[string]int{}
	for _, d := range w.topology.Domains {
		gbps[d.Name] = map[string]int{"40GbE": 40, "100GbE": 100}[d.Switch]
	}
	wide := func(name string) bool { return gbps[name] >= w.ask.MinGbps }
	rooms := map[topology.Location][]int{}
	most := 0
	for i, p := range w.places {
		rooms[p] = append(rooms[p], w.room[i])
		most = max(most, min(w.room[i], w.maxMembersPerLeaf()))
	}
	held := map[string]int{}
	for p, list := range rooms {
		slices.SortFunc(list, func(a, b int) int { return b - a })
		if n := w.topology.MaxNodesPerLeaf; n > 0 {
			list = list[:min(n, len(list))]
		}
		room := 0
		for _, n := range list {
			room += n
		}
		room = min(room, w.maxMembersPerLeaf())
		narrow := false // a switch on the way up to this domain is too slow
		for depth, name := range []string{p.Leaf, p.Spine, p.Zone, p.Region} {
			narrow = narrow || w.ask.MinGbps > 0 && !wide(name)
			if ares.LevelLeaf.Rank()-depth >= w.ask.RequiredLevel.Rank() && !narrow {
				held[name] += room
			}
		}
		if w.ask.RequiredLevel == "" && w.ask.MinGbps == 0 {
			held["all"] += room
		}
	}
	for _, n := range held {
		most = max(most, n)
	}
	return most
}

// maxMembersPerLeaf returns how many members of one job may be placed in one leaf.
func (w *cluster) maxMembersPerLeaf() int {
	if w.topology.MaxGPUsPerLeaf == 0 || w.ask.DevicesPerMember == 0 {
		return 1 << 20
	}
	return w.topology.MaxGPUsPerLeaf / w.ask.DevicesPerMember
}

// TestFewNodesAreQueried checks that a search in a large leaf does not query
// every node.
func TestFewNodesAreQueried(t *testing.T) {
	t.Parallel()
	w := &cluster{ask: topology.Request{Members: 4, DevicesPerMember: 8}}
	for range 10_000 {
		w.places = append(w.places, topology.Location{})
		w.free, w.total, w.history = append(w.free, 8), append(w.total, 8), append(w.history, 1000)
		w.room, w.waste = append(w.room, 1), append(w.waste, 0)
	}
	tree := w.tree()
	if _, _, ok := tree.Choose(&w.ask, w); !ok || w.queries > 50 {
		t.Errorf("found %v, asked %d of 10,000 nodes", ok, w.queries)
	}
}

// TestLastNodeIsFound checks that a job is placed even if it fits only on the last of many similar nodes.
func TestLastNodeIsFound(t *testing.T) {
	t.Parallel()
	w := &cluster{topology: &ares.Topology{MaxNodesPerLeaf: 1}, ask: topology.Request{Members: 8, DevicesPerMember: 1}}
	for range 200 {
		w.places = append(w.places, topology.Location{})
		w.free, w.total, w.history = append(w.free, 8), append(w.total, 8), append(w.history, 1000)
		w.room, w.waste = append(w.room, 1), append(w.waste, 0)
	}
	w.room[199] = 8
	picks, _, ok := w.tree().Choose(&w.ask, w)
	if !ok || !slices.Equal(picks, []topology.Assignment{{Node: 199, Members: 8}}) {
		t.Errorf("found %v: %v", ok, picks)
	}
}

// TestInfeasibleLeavesAreCached repeats requests of one kind. It checks that the search does not query the same
// nodes again until a node changes.
func TestInfeasibleLeavesAreCached(t *testing.T) {
	t.Parallel()
	w := &cluster{ask: topology.Request{Members: 2, DevicesPerMember: 8, RequiredLevel: ares.LevelLeaf, CacheKey: 7}}
	for i := range 400 {
		w.places = append(w.places, topology.Location{Leaf: fmt.Sprintf("l%03d", i/4)})
		w.free, w.total, w.history = append(w.free, 8), append(w.total, 8), append(w.history, 1000)
		w.room, w.waste = append(w.room, 0), append(w.waste, 0)
	}
	tree := w.tree()
	if _, _, ok := tree.Choose(&w.ask, w); ok || w.queries != 400 {
		t.Fatalf("found %v, asked %d", ok, w.queries)
	}
	w.queries = 0
	if _, _, ok := tree.Choose(&w.ask, w); ok || w.queries != 0 {
		t.Fatalf("asked %d nodes again, found %v", w.queries, ok)
	}
	w.room[201], w.room[202] = 1, 1
	tree.SetFree(201, 8, 8)
	if picks, _, ok := tree.Choose(&w.ask, w); !ok || w.queries > 12 {
		t.Errorf("picks %v, asked %d after a change", picks, w.queries)
	}
}

func TestChoosingDoesNotAllocate(t *testing.T) {
	for _, leaf := range []int{32, 4, 0} {
		tree, m := benchCluster(1_000, leaf, 50)
		m.devices = 8
		asks := []topology.Request{
			{Members: 8, DevicesPerMember: 8},
			{Members: 12, DevicesPerMember: 8, Strategy: topology.Distributed},
			{Members: 8, DevicesPerMember: 8, Strategy: topology.Consolidated, LatencySensitive: true, PreviousNodes: []int{3, 77}},
		}
		for i := range asks {
			if n := testing.AllocsPerRun(20, func() { tree.Choose(&asks[i], m) }); n > 0 {
				t.Errorf("leaves of %d, ask %d: %v allocations", leaf, i, n)
			}
		}
	}
}
