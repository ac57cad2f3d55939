package engine

// unschedulableMark is what is known of a shape that found no place: as long as no node
// has gained room for one of its members, it will find none.
type unschedulableMark struct {
	known  bool
	layout int
	seen   int // of State.grown
	ban    uint64
}

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

// rememberUnschedulable remembers that the shape found no place in the state as it is. What the
// decision under way has taken by then may come free again: those nodes count as
// grown when it ends.
func (pl *Placer) rememberUnschedulable(sh *shape, ban uint64) {
	if len(sh.affinity)+len(sh.antiAffinity) > 0 { // other jobs' places count too
		return
	}
	w := sh.request
	if !pl.cluster.refreshGains(w) {
		w.gains = roomGains{known: true, layout: pl.cluster.layout, from: pl.cluster.roomChanges.count, to: pl.cluster.roomChanges.count, nodes: w.gains.nodes[:0]}
		if !w.listed {
			w.listed = true
			pl.cluster.unschedulableRequests = append(pl.cluster.unschedulableRequests, w)
		}
	}
	sh.unschedulable = unschedulableMark{true, pl.cluster.layout, pl.cluster.roomChanges.count, ban}
	pl.unschedulableNoted = true
}

// knownUnschedulable says whether the shape is known to find no place.
func (b *backfillRound) knownUnschedulable(sh *shape, ban uint64) bool {
	r := &sh.unschedulable
	if r.known = r.known && r.layout == b.cluster.layout && r.ban&^ban == 0 && b.cluster.refreshGains(sh.request) && r.seen >= sh.request.gains.from; !r.known {
		return false
	}
	for _, g := range sh.request.gains.nodes {
		if n := b.cluster.nodes[g.at]; g.when > r.seen && n.schedulable() && b.roomIgnoringHolds(n, sh.request) > 0 {
			r.known = false
			return false
		}
	}
	return true
}

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

// noteReturnedRoom lets the nodes from which a decision took something count as grown: it
// gives that back now.
func (pl *Placer) noteReturnedRoom() {
	if !pl.unschedulableNoted {
		return
	}
	pl.unschedulableNoted = false
	for i := range pl.txn.deltas {
		if n := pl.txn.deltas[i].node; i == 0 || pl.txn.deltas[i-1].node != n {
			pl.cluster.roomChanges.add(n.pos)
		}
	}
}
