package window

import (
	"cmp"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// Window is an administrator's reservation with the set of its nodes. The set of nodes is computed again only when
// the positions or properties of nodes change.
type Window struct {
	*ares.Reservation

	layout  int // cluster layout of NodeSet
	seen    int // number of trait changes up to which NodeSet is current
	NodeSet cluster.Set
}

// byBeginning compares windows by their start, then by name.
func byBeginning(a, b *Window) int {
	return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
}

// windowNodes updates the nodes of a window and returns them.
func (c *Calendar) windowNodes(w *Window) *cluster.Set {
	update := func(n *cluster.Node) {
		var labels map[string]string
		if n.Record != nil {
			labels = n.Record.Labels
		}
		w.NodeSet.Put(n.Pos, w.Selects(labels, n.Place.In) || slices.Contains(w.Reservation.Nodes, n.ID))
	}
	switch {
	case w.layout != c.Cluster.Layout || c.Cluster.TraitChanges.HasGap(w.seen):
		w.layout = c.Cluster.Layout
		w.NodeSet.Resize(len(c.Cluster.Nodes))
		if len(w.Selector) > 0 || w.Domain != "" {
			for _, n := range c.Cluster.Nodes {
				update(n)
			}
		}
		for _, id := range w.Reservation.Nodes {
			if n := c.Cluster.NodesByID[id]; n != nil {
				w.NodeSet.Add(n.Pos)
			}
		}
	default:
		for _, at := range c.Cluster.TraitChanges.Since(w.seen) {
			update(c.Cluster.Nodes[at])
		}
	}
	w.seen = c.Cluster.TraitChanges.Count
	return &w.NodeSet
}
