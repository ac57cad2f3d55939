package engine

// roomGains are the nodes that grew since some shape with a want was refused, and
// may have room for a member of it. Shapes of many tenants share them.
type roomGains struct {
	known    bool
	layout   int
	from, to int // of State.grown
	nodes    []roomGain
}

// roomGain is a node that grew, and when.
type roomGain struct {
	at   int32
	when int // of State.grown
}

// maxGains is how many are kept. Where more nodes have room, trying costs less.
const maxGains = 256

// refreshGains adds the nodes that grew since to the gains of a want. It is false when
// nothing is known of these.
func (c *Cluster) refreshGains(w *request) bool {
	g := &w.gains
	if !g.known || g.layout != c.layout || c.roomChanges.hasGap(g.to) {
		g.known = false
		return false
	}
	for i, at := range c.roomChanges.since(g.to) {
		g.nodes = append(g.nodes, roomGain{at, g.to + i + 1})
	}
	g.to = c.roomChanges.count
	return true
}

// pruneGains drops from the gains of all wants what has no room for them. Nothing may
// be taken: it could come back.
func (c *Cluster) pruneGains() {
	kept := c.unschedulableRequests[:0]
	for _, w := range c.unschedulableRequests {
		if w.listed = false; w.refs == 0 || !c.refreshGains(w) {
			continue
		}
		left := w.gains.nodes[:0]
		for _, g := range w.gains.nodes {
			if n := c.nodes[g.at]; n.schedulable() && n.roomFor(w) > 0 {
				left = append(left, g)
			}
		}
		if w.gains.nodes = left; len(left) > maxGains {
			w.gains.known = false
			continue
		}
		w.listed = true
		kept = append(kept, w)
	}
	clear(c.unschedulableRequests[len(kept):])
	c.unschedulableRequests = kept
}
