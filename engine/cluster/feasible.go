package cluster

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// FeasibleSet is the set of nodes that pass the static filters of a request, regardless of their allocations. The
// set is computed once, and later updated only for nodes whose traits changed.
type FeasibleSet struct {
	Layout        int // Cluster.Layout of the positions
	seen          int // count of Cluster.TraitChanges up to which the set is current
	Nodes         Set
	Preferred     Set  // nodes without an untolerated taint that meet every preference
	HasPreference bool // Preferred is smaller than Nodes
}

// Feasible reports whether the node passes every static filter, and whether it is also preferred. A node is preferred if
// the request tolerates all its taints and the node meets every preference.
func (n *Node) Feasible(w *Request) (feasible, preferred bool) {
	if n.Record == nil || w.NeedsDevices() && w.DeviceMask(n.Type) == 0 {
		return false, false
	}
	for i := range Filters {
		if f := &Filters[i]; f.static && f.rejects != nil && f.rejects(n, w) {
			return false, false
		}
	}
	preferred = true
	for _, t := range n.Record.Taints {
		preferred = preferred && w.Tolerates(t)
	}
	for i := range w.rules.preferred {
		preferred = preferred && w.rules.preferred[i].Holds(n.Record.Labels)
	}
	return true, preferred
}

// RefreshFeasible brings the feasible set of the request up to date and returns it.
func (c *Cluster) RefreshFeasible(w *Request) *FeasibleSet {
	f := &w.Constraints.Feasible
	switch {
	case f.Layout != c.Layout || c.TraitChanges.HasGap(f.seen):
		f.Layout = c.Layout
		f.Nodes.Resize(len(c.Nodes))
		f.Preferred.Resize(len(c.Nodes))
		for i, n := range c.Nodes {
			f.update(i, n, w)
		}
	default:
		for _, at := range c.TraitChanges.Since(f.seen) {
			f.update(int(at), c.Nodes[at], w)
		}
	}
	f.seen = c.TraitChanges.Count
	f.HasPreference = f.Preferred.Count < f.Nodes.Count
	return f
}

// The method `update` tests the node at the given position again, and updates the sets of
// feasible and preferred nodes.
func (f *FeasibleSet) update(at int, n *Node, w *Request) {
	feasible, preferred := n.Feasible(w)
	f.Nodes.Put(at, feasible)
	f.Preferred.Put(at, preferred)
}

// matchesSelector reports whether the node has all labels of the node selector.
func (n *Node) matchesSelector(w *Request) bool {
	for _, l := range w.rules.selector {
		if v, ok := n.Record.Labels[l.key]; !ok || v != l.value {
			return false
		}
	}
	return true
}

// matchesAffinity reports whether the node's labels meet every affinity condition.
func (n *Node) matchesAffinity(w *Request) bool {
	for i := range w.rules.affinity {
		if !w.rules.affinity[i].Holds(n.Record.Labels) {
			return false
		}
	}
	return true
}

// meetsRequirements reports whether the node's labels and its number of devices meet the requirements. If the request
// needs no devices but its requirements mention properties of devices, at least one device of the node must meet
// them.
func (n *Node) meetsRequirements(w *Request) bool {
	if !w.rules.requirements.MatchesNode(n.Record.ID, n.Record.Labels, len(n.Record.Devices)) {
		return false
	}
	return w.NeedsDevices() || !w.rules.requirements.OnDevices() || slices.ContainsFunc(n.Type.Devices, func(d DeviceSpec) bool {
		return w.rules.requirements.MatchesDevice(d.model, d.memory)
	})
}

// toleratedBy reports whether the request tolerates every taint of the node, except taints with effect
// PreferNoSchedule.
func (n *Node) toleratedBy(w *Request) bool {
	for _, t := range n.Record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.Tolerates(t) {
			return false
		}
	}
	return true
}
