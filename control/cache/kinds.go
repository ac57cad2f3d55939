package cache

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// Kinds returns a function that looks up the model and region of a device. The model and region are empty if the node
// no longer exists.
func (v *View) Kinds() history.Kinds {
	return func(node, device string) history.Kind {
		v.mu.RLock()
		defer v.mu.RUnlock()
		n := v.nodes[node]
		if n == nil {
			return history.Kind{}
		}
		k := history.Kind{Region: v.regionOf(&n.Node)}
		if i := slices.IndexFunc(n.Node.Devices, func(d ares.Device) bool { return d.ID == device }); i >= 0 {
			k.Model = n.Node.Devices[i].Model
		}
		return k
	}
}

// regionOf returns the region that the topology has for a node. If the topology has none, regionOf returns the region
// in the node's label.
func (v *View) regionOf(n *ares.Node) string {
	if v.topology == nil {
		return n.Labels[string(ares.LevelRegion)]
	}
	domains := v.topology.Domains
	at := slices.IndexFunc(domains, func(d ares.Domain) bool { return slices.Contains(d.Nodes, n.ID) })
	if at < 0 {
		leaf := n.Labels[string(ares.LevelLeaf)]
		at = slices.IndexFunc(domains, func(d ares.Domain) bool { return leaf != "" && d.Level == ares.LevelLeaf && d.Name == leaf })
	}
	for range len(ares.Levels()) { // a parent always has a wider level
		if at < 0 {
			break
		}
		if domains[at].Level == ares.LevelRegion {
			return domains[at].Name
		}
		parent := domains[at].Parent
		at = slices.IndexFunc(domains, func(d ares.Domain) bool { return parent != "" && d.Name == parent })
	}
	return n.Labels[string(ares.LevelRegion)]
}
