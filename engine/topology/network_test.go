package topology_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// TestNetworkIsPreferred compares choices on random topologies with all possible placements. No placement that is
// equal by the rules and by the moved members has more bandwidth, or the same bandwidth and a lower latency. The test
// computes bandwidth and latency from the declared topology, and not with the functions of the search.
func TestNetworkIsPreferred(t *testing.T) {
	t.Parallel()
	cases := 20_000
	if testing.Short() {
		cases = 2_000
	}
	compared := 0
	for seed := range cases {
		r := rand.New(rand.NewPCG(uint64(seed), 17))
		w := networkCluster(r)
		tree := w.tree()
		ask := w.ask
		picks, _, ok := tree.Choose(&ask, w)
		if !ok {
			continue
		}
		picks = slices.Clone(picks)
		chosen, _, _ := tree.Evaluate(&ask, w, picks)
		gbps, nanos := w.networkOf(picks)
		w.eachPlacement(func(other []topology.Assignment) {
			cost, _, allowed := tree.Evaluate(&ask, w, other)
			if !allowed || rulesOf(cost) != rulesOf(chosen) {
				return
			}
			compared++
			if g, n := w.networkOf(other); g > gbps || g == gbps && n < nanos {
				t.Fatalf("seed %d, %+v: %v has %d Gb/s and %d ns, but %v has %d Gb/s and %d ns", seed, ask, picks, gbps, nanos, other, g, n)
			}
		})
	}
	if compared < cases {
		t.Errorf("only %d placements were compared", compared)
	}
}

// rulesOf returns the parts of a cost that come before the network.
func rulesOf(c topology.PlacementCost) topology.PlacementCost {
	c.BandwidthLoss, c.NetworkNanos, c.Imbalance, c.InexactFill, c.ScoreLoss, c.Penalty, c.Nodes = 0, 0, 0, 0, 0, 0, 0
	return c
}

// eachPlacement calls f with every placement of at most the requested number of members.
func (w *cluster) eachPlacement(f func([]topology.Assignment)) {
	var try []topology.Assignment
	var walk func(node, left int)
	walk = func(node, left int) {
		if node == len(w.places) || left == 0 {
			if len(try) > 0 {
				f(try)
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
}

// networkCluster returns a random cluster in which every node has a zone, a spine and a leaf, and the switches differ.
func networkCluster(r *rand.Rand) *cluster {
	w := &cluster{topology: &ares.Topology{Switches: []ares.Switch{{Name: "near", Gbps: 100, LatencyNanos: 300}}}}
	class := func() string { return oneOf(r, "", "10GbE", "40GbE", "100GbE", "100GbE", "near") }
	w.topology.Domains = []ares.Domain{{Name: "z0", Level: ares.LevelZone, Switch: class()}}
	for i := range 2 {
		w.topology.Domains = append(w.topology.Domains, ares.Domain{Name: fmt.Sprintf("s%d", i), Level: ares.LevelSpine, Parent: "z0", Switch: class()})
	}
	for i := range 4 {
		w.topology.Domains = append(w.topology.Domains, ares.Domain{Name: fmt.Sprintf("l%d", i), Level: ares.LevelLeaf, Parent: fmt.Sprintf("s%d", i/2), Switch: class()})
	}
	w.ask = topology.Request{
		Members: 1 + r.IntN(4), DevicesPerMember: oneOf(r, 2, 4, 8), Strategy: oneOf(r, "", topology.Consolidated, topology.Distributed),
		CacheKey: r.IntN(2), RequiredLevel: oneOf(r, "", "", ares.LevelLeaf, ares.LevelSpine),
	}
	for range 7 {
		leaf := r.IntN(4)
		w.places = append(w.places, topology.Location{Zone: "z0", Spine: fmt.Sprintf("s%d", leaf/2), Leaf: fmt.Sprintf("l%d", leaf)})
	}
	slices.SortFunc(w.places, topology.CompareLocations)
	for i := range w.places {
		w.total, w.history = append(w.total, 8), append(w.history, 1000)
		w.free, w.room, w.waste = append(w.free, 0), append(w.room, 0), append(w.waste, 0)
		w.setFree(r, i)
	}
	return w
}

// networkOf returns the lowest bandwidth and the highest latency of the network between the leaves of a placement.
func (w *cluster) networkOf(picks []topology.Assignment) (gbps, nanos int) {
	leaves, spines := map[string]bool{}, map[string]bool{}
	for _, p := range picks {
		leaves[w.places[p.Node].Leaf], spines[w.places[p.Node].Spine] = true, true
	}
	path := slices.Collect(maps.Keys(leaves)) // the switches between the leaves
	switch {
	case len(spines) > 1:
		path = append(append(path, slices.Collect(maps.Keys(spines))...), "z0")
		nanos = w.latencyOf("z0")
	case len(leaves) > 1:
		path = append(path, slices.Collect(maps.Keys(spines))...)
		nanos = w.latencyOf(path[len(path)-1])
	default:
		nanos = w.latencyOf(path[0])
	}
	gbps = 1 << 30
	for _, name := range path {
		g, _ := w.switchOf(name)
		gbps = min(gbps, g)
	}
	return gbps, nanos
}

// latencyOf returns the latency of a domain: that of its switch, and twice that of its slowest subdomain with nodes.
func (w *cluster) latencyOf(name string) int {
	slowest := 0
	for _, p := range w.places {
		switch name {
		case p.Zone:
			slowest = max(slowest, w.latencyOf(p.Spine))
		case p.Spine:
			slowest = max(slowest, w.latencyOf(p.Leaf))
		}
	}
	_, nanos := w.switchOf(name)
	return nanos + 2*slowest
}

// switchOf returns the bandwidth and the latency of a domain's own switch.
func (w *cluster) switchOf(name string) (gbps, nanos int) {
	for _, d := range w.topology.Domains {
		for _, s := range append(ares.DefaultSwitches(), w.topology.Switches...) {
			if d.Name == name && d.Switch == s.Name {
				return s.Gbps, s.LatencyNanos
			}
		}
	}
	return 0, ares.AssumedHopNanos
}
