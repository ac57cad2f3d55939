package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// parseCluster parses a cluster of nodes with 8 devices each. Each line has the form "leaf [spine [zone]]: free
// devices of its nodes".
func parseCluster(t *testing.T, declared *ares.Topology, lines ...string) *cluster {
	t.Helper()
	w := &cluster{topology: declared}
	for _, line := range lines {
		place, nodes, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("no nodes in %q", line)
		}
		names := append(strings.Fields(place), "", "")
		p := topology.Location{Region: "r", Zone: names[2], Spine: names[1], Leaf: names[0]}
		for field := range strings.FieldsSeq(nodes) {
			free := int(field[0] - '0')
			w.places = append(w.places, p)
			w.free, w.total, w.history = append(w.free, free), append(w.total, 8), append(w.history, topology.DefaultHistory)
			w.waste = append(w.waste, 0)
		}
	}
	if !slices.IsSortedFunc(w.places, topology.CompareLocations) {
		t.Fatal("the leaves are not in order")
	}
	return w
}

// The method `choose` returns the number of members on each node, grouped by leaf, such as "a:1+1 c:2".
func (w *cluster) choose(t *testing.T, a topology.Request) (string, ares.PlacementScore) {
	t.Helper()
	w.ask, w.room = a, nil
	for _, free := range w.free {
		w.room = append(w.room, free/max(a.DevicesPerMember, 1))
	}
	picks, merit, ok := w.tree().Choose(&a, w)
	if !ok {
		return "none", merit
	}
	var out []string
	last := ""
	for _, p := range picks {
		if l := w.places[p.Node].Leaf; l != last {
			out = append(out, fmt.Sprintf("%s:%d", l, p.Members))
			last = l
			continue
		}
		out[len(out)-1] += fmt.Sprintf("+%d", p.Members)
	}
	return strings.Join(out, " "), merit
}

// leafDomain declares a leaf with a switch class and adjacent leaves.
func leafDomain(name, class string, adjacent ...string) ares.Domain {
	return ares.Domain{Name: name, Level: ares.LevelLeaf, Switch: class, Adjacent: adjacent}
}

func TestLeafRules(t *testing.T) {
	t.Parallel()
	fours := []string{"a: 8 8 8 8", "b: 8 8 8 8", "c: 8 8 8 8", "d: 8 8 8 8", "e: 8 8 8 8", "f: 8 8 8 8"}
	pair := &ares.Topology{Domains: []ares.Domain{leafDomain("b", "", "e"), leafDomain("e", "")}}
	chain := &ares.Topology{Domains: []ares.Domain{leafDomain("b", "", "c"), leafDomain("c", "", "e"), leafDomain("e", "", "f"), leafDomain("f", "")}}
	spines := []string{"a s: 8 8 0", "b s: 8 8 0", "c s: 8 8 0", "d t: 8 8 8", "e u: 8 8 8"}
	for _, c := range []struct {
		name     string
		topology *ares.Topology
		leaves   []string
		members  int
		want     string
	}{
		{"one node goes to the busiest leaf that has one", nil, []string{"a: 8 8 8", "b: 8 2 0", "c: 8 0 0 0"}, 1, "c:1"},
		{"two nodes share a leaf", nil, []string{"a: 8 0 0", "b: 8 0 0", "c: 8 8 8"}, 2, "c:1+1"},
		{"two nodes leave a full leaf whole", nil, []string{"a: 8 8 8 8", "b: 8 8 8 0"}, 2, "b:1+1"},
		{"four nodes take a complete leaf", nil, []string{"a: 8 8 8 8 8 8", "b: 8 8 8 8", "c: 8 8 8 8 8 0"}, 4, "b:1+1+1+1"},
		{"four nodes fill what is left exactly", nil, []string{"a: 8 8 8 8 8", "b: 8 8 8 8 0 0 0"}, 4, "b:1+1+1+1"},
		{"eight nodes take two adjacent leaves", pair, fours, 8, "b:1+1+1+1 e:1+1+1+1"},
		{"eight nodes without adjacency take the first two", nil, fours, 8, "a:1+1+1+1 b:1+1+1+1"},
		{"sixteen nodes take four connected leaves", chain, fours, 16, "b:1+1+1+1 c:1+1+1+1 e:1+1+1+1 f:1+1+1+1"},
		{"six nodes take as few leaves as can be", nil, []string{"a: 8 8 0", "b: 8 8 8", "c: 8 8 0", "d: 8 8 8"}, 6, "b:1+1+1 d:1+1+1"},
		{"five nodes are even before they are exact", nil, []string{"a: 8 8 8 8", "b: 8 0 0 0", "c: 8 8 8 0"}, 5, "a:1+1 c:1+1+1"},
		{"a spine is nearer than fewer leaves", nil, spines, 6, "a:1+1 b:1+1 c:1+1"},
		{"what no spine holds spans them", nil, spines, 12, "a:1+1 b:1+1 c:1+1 d:1+1+1 e:1+1+1"},
		{"too many", nil, spines, 13, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := parseCluster(t, c.topology, c.leaves...)
			if got, _ := w.choose(t, topology.Request{Members: c.members, DevicesPerMember: 8}); got != c.want {
				t.Errorf("%d nodes: got %s, want %s", c.members, got, c.want)
			}
		})
	}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		strategy, want string
		leaves         []string
	}{
		{topology.Consolidated, "a:4", []string{"a: 2 2 8", "b: 2 2 2"}},
		{topology.Balanced, "b:1+1+1+1", []string{"a: 2 2 8", "b: 2 2 2 2"}},
		{topology.Distributed, "a:1+1 b:1+1", []string{"a: 8 8", "b: 8 8"}},
		{topology.Distributed, "a:1+1 b:1+1", []string{"a: 8 8 8", "b: 8 8 8 8"}},
		{topology.Distributed, "a:1 b:1 c:1 d:1", []string{"a: 8 8", "b: 8", "c: 8 8", "d: 8"}},
		{topology.Consolidated, "b:4", []string{"a: 8 8", "b: 8", "c: 8 8", "d: 8"}},
	} {
		w := parseCluster(t, nil, c.leaves...)
		if got, _ := w.choose(t, topology.Request{Members: 4, DevicesPerMember: 2, Strategy: c.strategy}); got != c.want {
			t.Errorf("%s in %q: got %s, want %s", c.strategy, c.leaves, got, c.want)
		}
	}
}

// TestBalancedSparesEmptyNodes checks that a balanced placement avoids empty nodes, because using one
// wastes capacity.
func TestBalancedSparesEmptyNodes(t *testing.T) {
	t.Parallel()
	w := parseCluster(t, nil, "a: 8 4 4 8")
	w.waste = []int{4, 0, 0, 4}
	if got, _ := w.choose(t, topology.Request{Members: 2, DevicesPerMember: 4}); got != "a:1+1" {
		t.Errorf("balanced: got %s, want the two half-empty nodes", got)
	}
	if got, _ := w.choose(t, topology.Request{Members: 2, DevicesPerMember: 4, Strategy: topology.Consolidated}); got != "a:2" {
		t.Errorf("consolidated: got %s, want one node", got)
	}
}

func TestConstraints(t *testing.T) {
	t.Parallel()
	net := &ares.Topology{Domains: []ares.Domain{
		leafDomain("a", "10GbE"), leafDomain("b", "100GbE"), leafDomain("c", "100GbE"), leafDomain("d", ""),
		{Name: "s", Level: ares.LevelSpine, Switch: "40GbE"},
		{Name: "t", Level: ares.LevelSpine},
	}}
	floor := []string{"a s y: 8 8 0", "b s y: 8 8 8", "c s y: 8 8 8", "d t z: 8 8 8 8"}
	small := &ares.Topology{MaxNodesPerLeaf: 2}
	gpus := &ares.Topology{MaxGPUsPerLeaf: 16}
	for _, c := range []struct {
		name     string
		topology *ares.Topology
		ask      topology.Request
		want     string
	}{
		{"nothing asked: the fastest leaf", net, topology.Request{Members: 2}, "b:1+1"},
		{"nothing asked and nothing declared: the leaf that it fills", nil, topology.Request{Members: 2}, "a:1+1"},
		{"the fastest leaves of a spine", net, topology.Request{Members: 5}, "b:1+1 c:1+1+1"},
		{"bandwidth in a leaf", net, topology.Request{Members: 2, MinGbps: 100}, "b:1+1"},
		{"bandwidth over the spine", net, topology.Request{Members: 6, MinGbps: 40}, "b:1+1+1 c:1+1+1"},
		{"the spine is too narrow", net, topology.Request{Members: 6, MinGbps: 100}, "none"},
		{"an unknown switch is none", net, topology.Request{Members: 4, MinGbps: 40, PreferredDomain: "d"}, "b:1+1 c:1+1"},
		{"one node needs no network", net, topology.Request{Members: 1, MinGbps: 400, PreferredDomain: "d"}, "d:1"},
		{"required level", net, topology.Request{Members: 5, RequiredLevel: ares.LevelLeaf}, "none"},
		{"required spine", net, topology.Request{Members: 8, RequiredLevel: ares.LevelSpine}, "a:1+1 b:1+1+1 c:1+1+1"},
		{"required node", net, topology.Request{Members: 2, RequiredLevel: ares.LevelNode}, "none"},
		{"preferred domain", net, topology.Request{Members: 2, PreferredDomain: "z"}, "d:1+1"},
		{"preferred domain is too small", net, topology.Request{Members: 3, PreferredDomain: "a"}, "b:1+1+1"},
		{"preferred level of a spread", net, topology.Request{Members: 3, Strategy: topology.Distributed, PreferredLevel: ares.LevelLeaf}, "b:1+1+1"},
		{"spread", net, topology.Request{Members: 4, Strategy: topology.Distributed}, "a:1 b:1 c:1 d:1"},
		{"latency", net, topology.Request{Members: 2, LatencySensitive: true}, "b:1+1"},
		{"nodes of a leaf", small, topology.Request{Members: 3, RequiredLevel: ares.LevelSpine}, "a:1 b:1+1"},
		{"devices of a leaf", gpus, topology.Request{Members: 4}, "a:1+1 b:1+1"},
		{"elastic", net, topology.Request{Members: 6, MinMembers: 2, RequiredLevel: ares.LevelLeaf}, "d:1+1+1+1"},
		{"not elastic enough", net, topology.Request{Members: 6, MinMembers: 5, RequiredLevel: ares.LevelLeaf}, "none"},
		{"the nodes of before", net, topology.Request{Members: 2, PreviousNodes: []int{4, 6}}, "b:1+1"},
		{"back to the leaf of before", net, topology.Request{Members: 3, PreviousNodes: []int{2, 6, 7}}, "c:1+1+1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := parseCluster(t, c.topology, floor...)
			c.ask.DevicesPerMember = 8
			if got, _ := w.choose(t, c.ask); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	w := parseCluster(t, nil, "a s z: 8 0", "b s z: 8 8 8 0")
	_, got := w.choose(t, topology.Request{Members: 2, DevicesPerMember: 8})
	want := ares.PlacementScore{Level: ares.LevelLeaf, Domain: "b", Availability: 666, Alignment: 1000, Utilization: 250, History: 1000, Weighted: 716, NetworkLatencyNanos: 5000}
	if got != want {
		t.Errorf("in a leaf: got %+v, want %+v", got, want)
	}
	_, got = w.choose(t, topology.Request{Members: 4, DevicesPerMember: 8})
	want = ares.PlacementScore{Level: ares.LevelSpine, Domain: "s", Availability: 1000, Alignment: 750, Utilization: 333, History: 1000, Weighted: 791, NetworkLatencyNanos: 15000}
	if got != want {
		t.Errorf("in a spine: got %+v, want %+v", got, want)
	}
	_, got = w.choose(t, topology.Request{Members: 2, DevicesPerMember: 4, Strategy: topology.Consolidated})
	if got.Level != ares.LevelNode {
		t.Errorf("on a node: got %+v", got)
	}
}
