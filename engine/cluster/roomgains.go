package cluster

// RoomGains lists the nodes that may have got more free capacity since a request fit
// nowhere. While none of them fits a member, jobs with the request need no new attempt.
type RoomGains struct {
	Known    bool
	Layout   int // Cluster.Layout of the positions
	From, To int // range of counts of Cluster.RoomChanges that Nodes covers
	Nodes    []roomGain
}

// roomGain is a node that may have got more free capacity.
type roomGain struct {
	At   int32 // position of the node
	When int   // count of Cluster.RoomChanges at that change
}

// maxGains is the maximum length of a list of gains. When more nodes fit the request, a
// new attempt costs less than the list.
const maxGains = 256

// RefreshGains adds the latest changes to the gains of a request. It returns false when
// the gains are not known.
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

// PruneGains removes the nodes that do not fit a member from the gains of all requests.
// No transaction may have taken anything: undoing it could make such a node fit.
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
