package score

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// ScoreCache holds the cost of each node for one request. It is updated when a job
// with the request is placed, and only for nodes that changed since. So a decision
// costs little more on 10,000 nodes than on 100, and still finds the best of all
// nodes.
type ScoreCache struct {
	Layout int     // cluster layout that the positions are of
	Mix    int     // ID of the mix that the costs are of
	seen   int     // changes of capacity up to which it is current
	Costs  []int64 // by node position
	Least  []int64 // lowest cost of each block of 64 nodes
	used   bool    // since the clock hand passed
}

// scoreCachePool holds a bounded number of score caches and the request of each. There
// can be as many requests as jobs: when the pool is full, a request takes the cache
// that was not used for the longest time, approximately (clock algorithm).
type scoreCachePool struct {
	caches    []*ScoreCache
	Requests  []*cluster.Request // by slot; Request.ScoreSlot is the slot plus 1
	clockHand int                // last slot that the clock algorithm looked at
	MaxCells  int                // limit on costs in all caches together; 0 means maxScoreCells
}

// Limits on the score caches of a cluster.
const (
	maxScoreCells  = 1 << 22 // costs in all caches together: 32 MB
	MinScoreCaches = 8       // whatever the number of nodes
)

// Of returns the cache of a request, nil for none.
func (p *scoreCachePool) Of(r *cluster.Request) *ScoreCache {
	if r.ScoreSlot == 0 {
		return nil
	}
	return p.caches[r.ScoreSlot-1]
}

// assignScoreCache gives a request a cache: a new one, or that of another request when
// the pool is full.
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

// clear drops all caches, because nodes have new positions.
func (p *scoreCachePool) clear() {
	for _, r := range p.Requests {
		r.ScoreSlot = 0
	}
	*p = scoreCachePool{MaxCells: p.MaxCells}
}

// RefreshScores updates the cache of a request and returns it. The request gets a
// cache if it has none.
func (sc *Scorer) RefreshScores(r *cluster.Request) *ScoreCache {
	c := sc.ScoreCaches.Of(r)
	if c == nil || c.Layout != sc.cluster.Layout || c.Mix != sc.Demand.Mix.ID || sc.cluster.CapacityChanges.HasGap(c.seen) {
		c = sc.RescoreAll(r)
	} else {
		first := sc.cluster.CapacityChanges.Count - len(sc.cluster.CapacityChanges.Since(c.seen))
		for i, at := range sc.cluster.CapacityChanges.Since(c.seen) {
			if sc.cluster.LastCapacityChange[at] == first+i { // otherwise a later entry of the log covers it
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

// idleNode is an idle node of a type and its cost for the current request.
type idleNode struct {
	node *cluster.Node
	cost int64
}

// cachedIdleCost returns the cost of a node. Idle nodes of one type mostly cost the
// same, so the cost of the last one is reused where nothing differs.
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

// set changes the cost of one node, and keeps Least right.
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

// cheapest returns the position of the cheapest allowed node from lo up to hi, the
// first of several; -1 when the request fits on none.
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

// BestNode returns the best node for one member among the allowed nodes from lo up to
// hi; nil when it fits on none.
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
