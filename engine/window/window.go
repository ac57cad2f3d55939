package window

import (
	"cmp"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// Window is an administrator's reservation with the nodes it is of, by position.
// They are found once, and again only where a node's nature has changed since.
type Window struct {
	*ares.Reservation

	layout  int // State.layout as of which positions are right
	seen    int // changes of natures that were taken in
	NodeSet cluster.Set
}

func byBeginning(a, b *Window) int {
	return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
}

// windowNodes is the nodes of a window, as the nodes are now.
func (c *Calendar) windowNodes(w *Window) *cluster.Set {
	look := func(n *cluster.Node) {
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
				look(n)
			}
		}
		for _, id := range w.Reservation.Nodes {
			if n := c.Cluster.NodesByID[id]; n != nil {
				w.NodeSet.Add(n.Pos)
			}
		}
	default:
		for _, at := range c.Cluster.TraitChanges.Since(w.seen) {
			look(c.Cluster.Nodes[at])
		}
	}
	w.seen = c.Cluster.TraitChanges.Count
	return &w.NodeSet
}
