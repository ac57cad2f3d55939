package score

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// ScoreCache is what each node would cost a want. It is brought up to date when the
// want is looked for a place, and only for nodes that have changed since: so a
// decision costs little more on 10,000 nodes than on 100, and yet finds the
// best of all.
type ScoreCache struct {
	Layout int // State.layout as of which positions are right
	Mix    int // the one the costs are by
	seen   int // changes of nodes that were taken in
	Costs  []int64
	Least  []int64 // of each 64 nodes
	used   bool    // since the hand of the rack passed
}

// scoreCachePool has the score caches that are kept, and the request of each. Jobs
// may ask for as many different things as there are jobs: beyond the pool's room
// the cache that was not used for longest, by and large, goes to the next request.
type scoreCachePool struct {
	caches    []*ScoreCache
	Requests  []*cluster.Request
	clockHand int
	MaxCells  int // costs in all caches together, maxScoreCells if it is 0
}

// Limits on the score caches of a cluster.
const (
	maxScoreCells  = 1 << 22 // costs in all caches together: 32 MB
	MinScoreCaches = 8       // however many nodes there are
)

// Of is the cache of a request, nil for none.
func (p *scoreCachePool) Of(r *cluster.Request) *ScoreCache {
	if r.ScoreSlot == 0 {
		return nil
	}
	return p.caches[r.ScoreSlot-1]
}

// assignScoreCache gives the request a cache, if need be that of another.
func (sc *Scorer) assignScoreCache(r *cluster.Request) *ScoreCache {
	p, nodes := &sc.ScoreCaches, len(sc.cluster.Nodes)
	if len(p.Requests) < max(cmp.Or(p.MaxCells, maxScoreCells)/max(nodes, 1), MinScoreCaches) {
		p.Requests = append(p.Requests, r)
		p.caches = append(p.caches, &ScoreCache{Costs: make([]int64, 0, nodes), Least: make([]int64, 0, nodes/64+1)})
		r.ScoreSlot = len(p.Requests)
		return p.Of(r)
	}
	for {
		p.clockHand = (p.clockHand + 1) % len(p.Requests)
		if c := p.caches[p.clockHand]; c.used {
			c.used = false
			continue
		}
		p.Requests[p.clockHand].ScoreSlot = 0
		p.Requests[p.clockHand], r.ScoreSlot = r, p.clockHand+1
		return p.Of(r)
	}
}

// clear takes all caches away: the nodes are others.
func (p *scoreCachePool) clear() {
	for _, r := range p.Requests {
		r.ScoreSlot = 0
	}
	*p = scoreCachePool{MaxCells: p.MaxCells}
}

// RefreshScores brings the want's board up to date.
func (sc *Scorer) RefreshScores(r *cluster.Request) *ScoreCache {
	c := sc.ScoreCaches.Of(r)
	if c == nil || c.Layout != sc.cluster.Layout || c.Mix != sc.Demand.Mix.ID || sc.cluster.CapacityChanges.HasGap(c.seen) {
		c = sc.RescoreAll(r)
	} else {
		first := sc.cluster.CapacityChanges.Count - len(sc.cluster.CapacityChanges.Since(c.seen))
		for i, at := range sc.cluster.CapacityChanges.Since(c.seen) {
			if sc.cluster.LastCapacityChange[at] == first+i { // else it changed again later
				c.set(int(at), sc.FragmentationCost(r, sc.cluster.Nodes[at]))
			}
		}
	}
	c.seen, c.used = sc.cluster.CapacityChanges.Count, true
	return c
}

// RescoreAll works out what every node costs the request.
func (sc *Scorer) RescoreAll(r *cluster.Request) *ScoreCache {
	c := sc.ScoreCaches.Of(r)
	if c == nil {
		c = sc.assignScoreCache(r)
	}
	c.Layout, c.Mix, c.Costs, c.Least = sc.cluster.Layout, sc.Demand.Mix.ID, c.Costs[:0], c.Least[:0]
	sc.idleScratch = slices.Grow(sc.idleScratch[:0], len(sc.cluster.NodeTypes.All))[:len(sc.cluster.NodeTypes.All)]
	clear(sc.idleScratch)
	for k := range sc.cluster.BlockMaxes {
		least, high := int64(NoFit), sc.cluster.BlockMaxAt(k).ExceededBy(r)
		for _, n := range sc.cluster.Nodes[64*k : min(64*k+64, len(sc.cluster.Nodes))] {
			cost := int64(NoFit)
			if !high {
				cost = sc.cachedIdleCost(r, n)
			}
			c.Costs = append(c.Costs, cost)
			least = min(least, cost)
		}
		c.Least = append(c.Least, least)
	}
	return c
}

// idleNode is a node with nothing on it, and what it costs the want at hand.
type idleNode struct {
	node *cluster.Node
	cost int64
}

// cachedIdleCost is what the node costs. Most nodes of a fleet that comes up are alike.
func (sc *Scorer) cachedIdleCost(r *cluster.Request, n *cluster.Node) int64 {
	if n.Seats > 0 || !n.Schedulable() {
		return sc.FragmentationCost(r, n)
	}
	like := &sc.idleScratch[n.Type.ID]
	if o := like.node; o == nil || o.Free != n.Free || o.Usable != n.Usable || o.HistoryScore() != n.HistoryScore() || *sc.capacityOf(o) != *sc.capacityOf(n) {
		*like = idleNode{n, sc.FragmentationCost(r, n)}
	}
	return like.cost
}

// set changes the cost of one node.
func (c *ScoreCache) set(at int, cost int64) {
	before, least := c.Costs[at], &c.Least[at/64]
	c.Costs[at] = cost
	switch {
	case cost <= *least:
		*least = cost
	case before == *least:
		*least = NoFit
		for _, other := range c.Costs[at/64*64 : min(at/64*64+64, len(c.Costs))] {
			*least = min(*least, other)
		}
	}
}

// cheapest is the cheapest of the allowed nodes from lo up to hi, the first of
// several; -1 when none has room.
func (c *ScoreCache) cheapest(allowed *cluster.Set, lo, hi int) int {
	best, least := -1, int64(NoFit)
	for k := lo / 64; k < len(c.Least) && 64*k < hi; k++ {
		if c.Least[k] >= least {
			continue
		}
		for m := allowed.Words[k]; m != 0; m &= m - 1 {
			if i := 64*k + bits.TrailingZeros64(m); c.Costs[i] < least && i >= lo && i < hi {
				best, least = i, c.Costs[i]
			}
		}
	}
	return best
}

// BestNode finds the best node for one member among the allowed ones from lo up to
// hi, nil when none has room.
func (sc *Scorer) BestNode(r *cluster.Request, allowed *cluster.Set, lo, hi int) *cluster.Node {
	switch {
	case r.AnyNodeDoes:
		return sc.cluster.AnyNode(r, allowed, lo, hi)
	case sc.policy != nil:
		return sc.bestNodeByPolicy(r, allowed, lo, hi)
	}
	if r.ScoreSlot == 0 && sc.cluster.FitsNowhere(r) {
		return nil
	}
	if at := sc.RefreshScores(r).cheapest(allowed, lo, hi); at >= 0 {
		return sc.cluster.Nodes[at]
	}
	return nil
}
