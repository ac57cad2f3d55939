package cluster

// RoomGains lists the nodes whose free capacity may have grown since the scheduler found that a request fits on no
// node. As long as a member fits on none of these nodes, the scheduler need not try jobs with this request again.
type RoomGains struct {
	Known    bool
	Layout   int // Cluster.Layout of the positions
	From, To int // range of counts of Cluster.RoomChanges that Nodes covers
	Nodes    []roomGain
}

// roomGain is a node whose free capacity may have grown.
type roomGain struct {
	At   int32 // position of the node
	When int   // count of Cluster.RoomChanges at that change
}

// maxGains is the maximum number of nodes in the list of gains. If the request may fit on more than maxGains
// nodes, trying the request again costs less than checking the list.
const maxGains = 256

// RefreshGains adds the latest changes to the list of nodes where a request may fit again. RefreshGains returns false
// if the list is incomplete, so that the request must be tried again.
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

// PruneGains shortens the gains of all requests: it removes the nodes on which a member still does not fit.
// PruneGains must run before any transaction takes capacity. Otherwise undoing the transaction later could make a
// member fit on a node that was removed from the gains.
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
