package score

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// ScoreCache holds the cost of each node for one request. The cache is updated when a job with this request is about
// to be placed, and only for nodes that changed since the last update. With this cache, a decision takes little
// longer on 10,000 nodes than on 100, and still finds the best of all nodes.
type ScoreCache struct {
	Layout int     // cluster layout of the positions
	Mix    int     // ID of the mix of the costs
	seen   int     // number of capacity changes up to which it is current
	Costs  []int64 // by node position
	Least  []int64 // lowest cost of each block of 64 nodes
	used   bool    // used since the clock hand last passed
}

// scoreCachePool holds a bounded number of score caches, and records which request each cache belongs to. The number
// of score caches is bounded, because there can be as many different requests as jobs. When the pool is full, the
// clock algorithm selects a request that was not used recently. The cache of that request is given to the new
// request.
type scoreCachePool struct {
	caches    []*ScoreCache
	Requests  []*cluster.Request // by slot; Request.ScoreSlot is the slot plus 1
	clockHand int                // last slot that the clock algorithm looked at
	MaxCells  int                // limit on costs in all caches together; 0 means maxScoreCells
}

// These constants limit the size and number of score caches.
const (
	maxScoreCells  = 1 << 22 // costs in all caches together: 32 MB
	MinScoreCaches = 8       // minimum number of caches, whatever the number of nodes
)

// Of returns the score cache of a request, or nil if the request has none.
func (p *scoreCachePool) Of(r *cluster.Request) *ScoreCache {
	if r.ScoreSlot == 0 {
		return nil
	}
	return p.caches[r.ScoreSlot-1]
}

// assignScoreCache assigns a score cache to a request. If the pool of caches is full, the request gets the cache of
// another request.
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

// The method `clear` drops all caches when the nodes get new positions.
func (p *scoreCachePool) clear() {
	for _, r := range p.Requests {
		r.ScoreSlot = 0
	}
	*p = scoreCachePool{MaxCells: p.MaxCells}
}

// RefreshScores updates the cache of a request and returns it. If the request has no cache, RefreshScores assigns
// one.
func (sc *Scorer) RefreshScores(r *cluster.Request) *ScoreCache {
	c := sc.ScoreCaches.Of(r)
	if c == nil || c.Layout != sc.cluster.Layout || c.Mix != sc.Demand.Mix.ID || sc.cluster.CapacityChanges.HasGap(c.seen) {
		c = sc.RescoreAll(r)
	} else {
		first := sc.cluster.CapacityChanges.Count - len(sc.cluster.CapacityChanges.Since(c.seen))
		for i, at := range sc.cluster.CapacityChanges.Since(c.seen) {
			if sc.cluster.LastCapacityChange[at] == first+i { // skip it if a later entry of the log covers it
				c.set(int(at), sc.FragmentationCost(r, sc.cluster.Nodes[at]))
			}
		}
	}
	c.seen, c.used = sc.cluster.CapacityChanges.Count, true
	return c
}

// RescoreAll computes the cost of every node for a request.
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

// idleNode is an idle node of one node type and its cost for the current request.
type idleNode struct {
	node *cluster.Node
	cost int64
}

// cachedIdleCost returns the cost of placing one member on a node. Idle nodes of the same type usually have the same
// cost. If the node does not differ from the last idle node of the same type, cachedIdleCost reuses the cost of that
// idle node.
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

// The method `set` stores the cost of one node and updates the lowest cost in the node's block.
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

// The method `cheapest` searches the positions p with lo <= p < hi, and returns the position of the allowed node
// with the lowest cost. If the request fits on no such node, the method returns -1. If several nodes have the
// lowest cost, the method returns the first one.
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

// BestNode returns the best node for one member among the allowed nodes at positions p with lo <= p < hi. BestNode
// returns nil if the member fits on no such node.
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
