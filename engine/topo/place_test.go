package topo_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topo"
)

func TestPlaceOf(t *testing.T) {
	t.Parallel()
	atlas := topo.NewAtlas(&ares.Topology{Domains: []ares.Domain{
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
		want   topo.Place
	}{
		{"listed", nil, topo.Place{Region: "north", Zone: "n1", Spine: "s1", Leaf: "l1"}},
		{"listed", labels{"leaf": "l2", "zone": "n9"}, topo.Place{Region: "north", Zone: "n1", Spine: "s1", Leaf: "l1"}},
		{"a", labels{"leaf": "l1"}, topo.Place{Region: "north", Zone: "n1", Spine: "s1", Leaf: "l1"}},
		{"a", labels{"rack": "l2", "spine": "s7"}, topo.Place{Region: "north", Zone: "n1", Spine: "s7", Leaf: "l2"}},
		{"a", labels{"zone": "n1"}, topo.Place{Region: "north", Zone: "n1"}},
		{"a", labels{"leaf": "s1"}, topo.Place{Leaf: "s1"}},
		{"a", labels{"region": "south", "zone": "x", "leaf": "y"}, topo.Place{Region: "south", Zone: "x", Leaf: "y"}},
		{"a", nil, topo.Place{}},
	} {
		if got := atlas.PlaceOf(c.node, c.labels); got != c.want {
			t.Errorf("%s %v: got %+v, want %+v", c.node, c.labels, got, c.want)
		}
	}
	if got := topo.NewAtlas(nil).PlaceOf("listed", labels{"rack": "7"}); got != (topo.Place{Leaf: "7"}) {
		t.Errorf("without a topology: got %+v", got)
	}
}

// TestUnsaidPlaces: a level that nobody names divides nothing; where some name
// it, a node that does not is alone.
func TestUnsaidPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		places []topo.Place
		leaf   bool // two nodes count as of one leaf
		zone   bool
	}{
		{"nobody says anything", []topo.Place{{}, {}}, true, true},
		{"zones only", []topo.Place{{Zone: "z"}, {Zone: "z"}}, true, true},
		{"two zones", []topo.Place{{Zone: "a"}, {Zone: "b"}}, false, false},
		{"one leaf", []topo.Place{{Leaf: "l"}, {Leaf: "l"}}, true, true},
		{"the same name elsewhere", []topo.Place{{Zone: "a", Leaf: "l"}, {Zone: "b", Leaf: "l"}}, false, false},
		{"others name leaves", []topo.Place{{Zone: "z"}, {Zone: "z"}, {Zone: "z", Leaf: "closed"}}, false, true},
		{"others name zones", []topo.Place{{}, {}, {Zone: "closed"}}, false, false},
		{"a leaf in no zone is in one", []topo.Place{{Leaf: "l"}, {Leaf: "l"}, {Zone: "closed", Leaf: "m"}}, true, true},
	} {
		tree := topo.Build(c.places, nil)
		w := &world{room: []int{1, 1, 0}, waste: []int{0, 0, 0}}
		for i, free := range []int{8, 8, -1}[:len(c.places)] {
			tree.Set(i, free, 8)
		}
		_, _, leaf := tree.Choose(&topo.Ask{Members: 2, Devices: 8, Required: ares.LevelLeaf}, w)
		_, _, zone := tree.Choose(&topo.Ask{Members: 2, Devices: 8, Required: ares.LevelZone}, w)
		_, _, any := tree.Choose(&topo.Ask{Members: 2, Devices: 8}, w)
		if leaf != c.leaf || zone != c.zone || !any {
			t.Errorf("%s: one leaf %v, one zone %v, fits %v", c.name, leaf, zone, any)
		}
	}
}
