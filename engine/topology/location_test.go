package topology_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	atlas := topology.NewLocator(&ares.Topology{Domains: []ares.Domain{
		{Name: "north", Level: ares.LevelRegion},
		{Name: "n1", Level: ares.LevelZone, Parent: "north"},
		{Name: "s1", Level: ares.LevelSpine, Parent: "n1"},
		{Name: "l1", Level: ares.LevelLeaf, Parent: "s1", Nodes: []string{"listed"}},
		{Name: "l2", Level: "rack", Parent: "n1"},
	}})
	type labels = map[string]string
	for _, c := range []struct {
		node   string
		labels labels
		want   topology.Location
	}{
		{"listed", nil, topology.Location{Region: "north", Zone: "n1", Spine: "s1", Leaf: "l1"}},
		{"listed", labels{"leaf": "l2", "zone": "n9"}, topology.Location{Region: "north", Zone: "n1", Spine: "s1", Leaf: "l1"}},
		{"a", labels{"leaf": "l1"}, topology.Location{Region: "north", Zone: "n1", Spine: "s1", Leaf: "l1"}},
		{"a", labels{"rack": "l2", "spine": "s7"}, topology.Location{Region: "north", Zone: "n1", Spine: "s7", Leaf: "l2"}},
		{"a", labels{"zone": "n1"}, topology.Location{Region: "north", Zone: "n1"}},
		{"a", labels{"leaf": "s1"}, topology.Location{Leaf: "s1"}},
		{"a", labels{"region": "south", "zone": "x", "leaf": "y"}, topology.Location{Region: "south", Zone: "x", Leaf: "y"}},
		{"a", nil, topology.Location{}},
	} {
		if got := atlas.Locate(c.node, c.labels); got != c.want {
			t.Errorf("%s %v: got %+v, want %+v", c.node, c.labels, got, c.want)
		}
	}
	if got := topology.NewLocator(nil).Locate("listed", labels{"rack": "7"}); got != (topology.Location{Leaf: "7"}) {
		t.Errorf("without a topology: got %+v", got)
	}
}

// TestMissingLocations checks a level at which no node names a domain. Such a level must not divide the
// nodes. It also checks that a node is alone in its domain if it names no domain at a level where other nodes
// name one.
func TestMissingLocations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		places []topology.Location
		leaf   bool // the first two nodes are in one leaf
		zone   bool // the first two nodes are in one zone
	}{
		{"nobody says anything", []topology.Location{{}, {}}, true, true},
		{"zones only", []topology.Location{{Zone: "z"}, {Zone: "z"}}, true, true},
		{"two zones", []topology.Location{{Zone: "a"}, {Zone: "b"}}, false, false},
		{"one leaf", []topology.Location{{Leaf: "l"}, {Leaf: "l"}}, true, true},
		{"the same name elsewhere", []topology.Location{{Zone: "a", Leaf: "l"}, {Zone: "b", Leaf: "l"}}, false, false},
		{"others name leaves", []topology.Location{{Zone: "z"}, {Zone: "z"}, {Zone: "z", Leaf: "closed"}}, false, true},
		{"others name zones", []topology.Location{{}, {}, {Zone: "closed"}}, false, false},
		{"a leaf in no zone is in one", []topology.Location{{Leaf: "l"}, {Leaf: "l"}, {Zone: "closed", Leaf: "m"}}, true, true},
	} {
		tree := topology.NewTree(c.places, nil)
		w := &cluster{room: []int{1, 1, 0}, waste: []int{0, 0, 0}}
		for i, free := range []int{8, 8, -1}[:len(c.places)] {
			tree.SetFree(i, free, 8)
		}
		_, _, leaf := tree.Choose(&topology.Request{Members: 2, DevicesPerMember: 8, RequiredLevel: ares.LevelLeaf}, w)
		_, _, zone := tree.Choose(&topology.Request{Members: 2, DevicesPerMember: 8, RequiredLevel: ares.LevelZone}, w)
		_, _, any := tree.Choose(&topology.Request{Members: 2, DevicesPerMember: 8}, w)
		if leaf != c.leaf || zone != c.zone || !any {
			t.Errorf("%s: one leaf %v, one zone %v, fits %v", c.name, leaf, zone, any)
		}
	}
}
