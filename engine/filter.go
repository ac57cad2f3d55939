package engine

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// filter is the set of nodes that are to a taste, however busy. It is
// worked out once, and again only for nodes whose nature has changed since.
type filter struct {
	layout int // State.layout as of which positions are right
	seen   int // changes of natures that were taken in
	nodes  set
	liked  set  // of these, the ones nothing speaks against
	soft   bool // liked is smaller than nodes
}

// suits says whether the node is what the want asks for, and whether nothing
// speaks against it either.
func (n *node) suits(w *want) (suits, liked bool) {
	if n.record == nil || w.devices() && w.mask(n.profile) == 0 || !n.labelled(w) || !n.within(w) {
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

// sift brings the filter of the want's taste up to date.
func (s *State) sift(w *want) *filter {
	f := &w.taste.filter
	switch {
	case f.layout != s.layout || s.natures.lost(f.seen):
		f.layout = s.layout
		f.nodes.resize(len(s.nodes))
		f.liked.resize(len(s.nodes))
		for i, n := range s.nodes {
			f.look(i, n, w)
		}
	default:
		for _, at := range s.natures.since(f.seen) {
			f.look(int(at), s.nodes[at], w)
		}
	}
	f.seen = s.natures.count
	f.soft = f.liked.count < f.nodes.count
	return f
}

func (f *filter) look(at int, n *node, w *want) {
	suits, liked := n.suits(w)
	f.nodes.put(at, suits)
	f.liked.put(at, liked)
}

// labelled says whether the node's labels are as the want asks.
func (n *node) labelled(w *want) bool { return n.chosen(w) && n.conditioned(w) }

// chosen says whether the node has the labels of the node selector.
func (n *node) chosen(w *want) bool {
	for _, l := range w.selector {
		if v, ok := n.record.Labels[l.key]; !ok || v != l.value {
			return false
		}
	}
	return true
}

// conditioned says whether the conditions on the node's labels hold.
func (n *node) conditioned(w *want) bool {
	for i := range w.conditions {
		if !w.conditions[i].Holds(n.record.Labels) {
			return false
		}
	}
	return true
}

// within says whether the node is in one of the regions asked for.
func (n *node) within(w *want) bool {
	return len(w.regions) == 0 || slices.Contains(w.regions, n.place.Region)
}

// changes is a short memory of nodes by position, so that whoever looks rarely
// needs to look only at what has changed.
type changes struct {
	count int // since the beginning
	last  []int32
}

// remembered is how many changes are kept.
const remembered = 4096

func (c *changes) note(at int) {
	if len(c.last) == 2*remembered {
		c.last = c.last[:copy(c.last, c.last[remembered:])]
	}
	c.last = append(c.last, int32(at))
	c.count++
}

// lost says whether some change after the first seen ones is forgotten.
func (c *changes) lost(seen int) bool { return c.count-seen > len(c.last) }

// since lists the changes after the first seen ones.
func (c *changes) since(seen int) []int32 { return c.last[len(c.last)-(c.count-seen):] }

// forget drops the memory: the positions mean other nodes now.
func (c *changes) forget() {
	c.last = c.last[:0]
	c.count++ // so that nobody seems to have seen everything
}
