package cache_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
)

func TestRegionsOfNodes(t *testing.T) {
	v := cache.NewView(time.Now)
	top := &ares.Topology{Domains: []ares.Domain{
		{Name: "eu", Level: ares.LevelRegion}, {Name: "z1", Level: ares.LevelZone, Parent: "eu"}, {Name: "l1", Level: ares.LevelLeaf, Parent: "z1", Nodes: []string{"a"}},
	}}
	node := func(id string, labels map[string]string) ares.Event {
		return ares.Event{Node: &ares.Node{ID: id, Labels: labels, Devices: []ares.Device{{ID: "d", Model: "H100"}}}}
	}
	v.Apply(ares.Batch{Revision: 1, Events: []ares.Event{node("a", nil), node("b", map[string]string{"region": "us"}), node("c", map[string]string{"leaf": "l1"})}})
	kinds := v.Kinds()
	for _, c := range []struct{ node, before string }{{"a", ""}, {"b", "us"}, {"c", ""}} {
		if got := kinds(c.node, "d"); got != (history.Kind{Model: "H100", Region: c.before}) {
			t.Errorf("%s without a topology: %v", c.node, got)
		}
	}
	v.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Topology: top}}})
	for _, c := range []struct{ node, after string }{{"a", "eu"}, {"b", "us"}, {"c", "eu"}} {
		if got := kinds(c.node, "d"); got.Region != c.after {
			t.Errorf("%s is in %q, want %q", c.node, got.Region, c.after)
		}
	}
	if got := kinds("gone", "d"); got != (history.Kind{}) {
		t.Errorf("a node that is gone: %v", got)
	}
}
