package cluster

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// feasibleSet is the set of nodes that are to a taste, however busy. It is
// worked out once, and again only for nodes whose nature has changed since.
type feasibleSet struct {
	Layout        int // State.layout as of which positions are right
	seen          int // changes of natures that were taken in
	Nodes         Set
	Preferred     Set  // of these, the ones nothing speaks against
	HasPreference bool // liked is smaller than nodes
}

// Feasible says whether the node passes every static filter, and whether it is
// preferred: it has no taint and misses no preference that speaks against it.
func (n *Node) Feasible(w *Request) (feasible, preferred bool) {
	if n.Record == nil || w.NeedsDevices() && w.DeviceMask(n.Type) == 0 {
		return false, false
	}
	for i := range Filters {
		if f := &Filters[i]; f.Static && f.Rejects != nil && f.Rejects(n, w) {
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

// RefreshFeasible brings the filter of the want's taste up to date.
func (c *Cluster) RefreshFeasible(w *Request) *feasibleSet {
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

func (f *feasibleSet) update(at int, n *Node, w *Request) {
	suits, liked := n.Feasible(w)
	f.Nodes.Put(at, suits)
	f.Preferred.Put(at, liked)
}

// matchesSelector says whether the node has the labels of the node selector.
func (n *Node) matchesSelector(w *Request) bool {
	for _, l := range w.rules.selector {
		if v, ok := n.Record.Labels[l.key]; !ok || v != l.value {
			return false
		}
	}
	return true
}

// matchesAffinity says whether the conditions on the node's labels hold.
func (n *Node) matchesAffinity(w *Request) bool {
	for i := range w.rules.affinity {
		if !w.rules.affinity[i].Holds(n.Record.Labels) {
			return false
		}
	}
	return true
}

// meetsRequirements says whether the node meets what is required of its labels and of
// the number of its devices. A job without devices also needs one device there that
// meets all that is required of devices, if anything is.
func (n *Node) meetsRequirements(w *Request) bool {
	if !w.rules.requirements.MatchesNode(n.Record.Labels, len(n.Record.Devices)) {
		return false
	}
	return w.NeedsDevices() || !w.rules.requirements.OnDevices() || slices.ContainsFunc(n.Type.Devices, func(d DeviceSpec) bool {
		return w.rules.requirements.MatchesDevice(d.model, d.memory)
	})
}

// toleratedBy says whether the request tolerates every taint of the node that keeps
// jobs off.
func (n *Node) toleratedBy(w *Request) bool {
	for _, t := range n.Record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.Tolerates(t) {
			return false
		}
	}
	return true
}
