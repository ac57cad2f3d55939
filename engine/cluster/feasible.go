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

// Feasible says whether the node is what the want asks for, and whether nothing
// speaks against it either.
func (n *Node) Feasible(w *Request) (suits, liked bool) {
	if n.Record == nil || w.NeedsDevices() && w.DeviceMask(n.Type) == 0 || !n.matchesLabels(w) || !n.inRegion(w) {
		return false, false
	}
	liked = true
	for _, t := range n.Record.Taints {
		if w.Tolerates(t) {
			continue
		}
		if t.Effect != ares.PreferNoSchedule {
			return false, false
		}
		liked = false
	}
	for i := range w.preferred {
		liked = liked && w.preferred[i].Holds(n.Record.Labels)
	}
	return true, liked
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

// matchesLabels says whether the node's labels are as the want asks.
func (n *Node) matchesLabels(w *Request) bool { return n.matchesSelector(w) && n.matchesAffinity(w) }

// matchesSelector says whether the node has the labels of the node selector.
func (n *Node) matchesSelector(w *Request) bool {
	for _, l := range w.selector {
		if v, ok := n.Record.Labels[l.key]; !ok || v != l.value {
			return false
		}
	}
	return true
}

// matchesAffinity says whether the conditions on the node's labels hold.
func (n *Node) matchesAffinity(w *Request) bool {
	for i := range w.affinity {
		if !w.affinity[i].Holds(n.Record.Labels) {
			return false
		}
	}
	return true
}

// inRegion says whether the node is in one of the regions asked for.
func (n *Node) inRegion(w *Request) bool {
	return len(w.Regions) == 0 || slices.Contains(w.Regions, n.Place.Region)
}
