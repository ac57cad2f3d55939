package engine

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// feasibleSet is the set of nodes that are to a taste, however busy. It is
// worked out once, and again only for nodes whose nature has changed since.
type feasibleSet struct {
	layout        int // State.layout as of which positions are right
	seen          int // changes of natures that were taken in
	nodes         set
	preferred     set  // of these, the ones nothing speaks against
	hasPreference bool // liked is smaller than nodes
}

// feasible says whether the node is what the want asks for, and whether nothing
// speaks against it either.
func (n *node) feasible(w *request) (suits, liked bool) {
	if n.record == nil || w.needsDevices() && w.deviceMask(n.typ) == 0 || !n.matchesLabels(w) || !n.inRegion(w) {
		return false, false
	}
	liked = true
	for _, t := range n.record.Taints {
		if w.tolerates(t) {
			continue
		}
		if t.Effect != ares.PreferNoSchedule {
			return false, false
		}
		liked = false
	}
	for i := range w.preferred {
		liked = liked && w.preferred[i].Holds(n.record.Labels)
	}
	return true, liked
}

// refreshFeasible brings the filter of the want's taste up to date.
func (c *Cluster) refreshFeasible(w *request) *feasibleSet {
	f := &w.constraints.feasible
	switch {
	case f.layout != c.layout || c.traitChanges.hasGap(f.seen):
		f.layout = c.layout
		f.nodes.resize(len(c.nodes))
		f.preferred.resize(len(c.nodes))
		for i, n := range c.nodes {
			f.update(i, n, w)
		}
	default:
		for _, at := range c.traitChanges.since(f.seen) {
			f.update(int(at), c.nodes[at], w)
		}
	}
	f.seen = c.traitChanges.count
	f.hasPreference = f.preferred.count < f.nodes.count
	return f
}

func (f *feasibleSet) update(at int, n *node, w *request) {
	suits, liked := n.feasible(w)
	f.nodes.put(at, suits)
	f.preferred.put(at, liked)
}

// matchesLabels says whether the node's labels are as the want asks.
func (n *node) matchesLabels(w *request) bool { return n.matchesSelector(w) && n.matchesAffinity(w) }

// matchesSelector says whether the node has the labels of the node selector.
func (n *node) matchesSelector(w *request) bool {
	for _, l := range w.selector {
		if v, ok := n.record.Labels[l.key]; !ok || v != l.value {
			return false
		}
	}
	return true
}

// matchesAffinity says whether the conditions on the node's labels hold.
func (n *node) matchesAffinity(w *request) bool {
	for i := range w.affinity {
		if !w.affinity[i].Holds(n.record.Labels) {
			return false
		}
	}
	return true
}

// inRegion says whether the node is in one of the regions asked for.
func (n *node) inRegion(w *request) bool {
	return len(w.regions) == 0 || slices.Contains(w.regions, n.place.Region)
}
