package cluster

// RoomGains are the nodes that grew since some shape with a want was refused, and
// may have room for a member of it. Shapes of many tenants share them.
type RoomGains struct {
	Known    bool
	Layout   int
	From, To int // of State.grown
	Nodes    []roomGain
}

// roomGain is a node that grew, and when.
type roomGain struct {
	At   int32
	When int // of State.grown
}

// maxGains is how many are kept. Where more nodes have room, trying costs less.
const maxGains = 256

// RefreshGains adds the nodes that grew since to the gains of a want. It is false when
// nothing is known of these.
func (c *Cluster) RefreshGains(w *Request) bool {
	g := &w.Gains
	if !g.Known || g.Layout != c.Layout || c.RoomChanges.HasGap(g.To) {
		g.Known = false
		return false
	}
	for i, at := range c.RoomChanges.Since(g.To) {
		g.Nodes = append(g.Nodes, roomGain{at, g.To + i + 1})
	}
	g.To = c.RoomChanges.Count
	return true
}

// PruneGains drops from the gains of all wants what has no room for them. Nothing may
// be taken: it could come back.
func (c *Cluster) PruneGains() {
	kept := c.UnschedulableRequests[:0]
	for _, w := range c.UnschedulableRequests {
		if w.Listed = false; w.Refs == 0 || !c.RefreshGains(w) {
			continue
		}
		left := w.Gains.Nodes[:0]
		for _, g := range w.Gains.Nodes {
			if n := c.Nodes[g.At]; n.Schedulable() && n.RoomFor(w) > 0 {
				left = append(left, g)
			}
		}
		if w.Gains.Nodes = left; len(left) > maxGains {
			w.Gains.Known = false
			continue
		}
		w.Listed = true
		kept = append(kept, w)
	}
	clear(c.UnschedulableRequests[len(kept):])
	c.UnschedulableRequests = kept
}
