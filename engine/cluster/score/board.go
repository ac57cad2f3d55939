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
func (r *scoreCachePool) Of(w *cluster.Request) *ScoreCache {
	if w.ScoreSlot == 0 {
		return nil
	}
	return r.caches[w.ScoreSlot-1]
}

// assignScoreCache gives the request a cache, if need be that of another.
func (sc *Scorer) assignScoreCache(w *cluster.Request) *ScoreCache {
	r, nodes := &sc.ScoreCaches, len(sc.cluster.Nodes)
	if len(r.Requests) < max(cmp.Or(r.MaxCells, maxScoreCells)/max(nodes, 1), MinScoreCaches) {
		r.Requests = append(r.Requests, w)
		r.caches = append(r.caches, &ScoreCache{Costs: make([]int64, 0, nodes), Least: make([]int64, 0, nodes/64+1)})
		w.ScoreSlot = len(r.Requests)
		return r.Of(w)
	}
	for {
		r.clockHand = (r.clockHand + 1) % len(r.Requests)
		if c := r.caches[r.clockHand]; c.used {
			c.used = false
			continue
		}
		r.Requests[r.clockHand].ScoreSlot = 0
		r.Requests[r.clockHand], w.ScoreSlot = w, r.clockHand+1
		return r.Of(w)
	}
}

// clear takes all caches away: the nodes are others.
func (r *scoreCachePool) clear() {
	for _, w := range r.Requests {
		w.ScoreSlot = 0
	}
	*r = scoreCachePool{MaxCells: r.MaxCells}
}

// RefreshScores brings the want's board up to date.
func (sc *Scorer) RefreshScores(w *cluster.Request) *ScoreCache {
	b := sc.ScoreCaches.Of(w)
	if b == nil || b.Layout != sc.cluster.Layout || b.Mix != sc.Demand.Mix.ID || sc.cluster.CapacityChanges.HasGap(b.seen) {
		b = sc.RescoreAll(w)
	} else {
		first := sc.cluster.CapacityChanges.Count - len(sc.cluster.CapacityChanges.Since(b.seen))
		for i, at := range sc.cluster.CapacityChanges.Since(b.seen) {
			if sc.cluster.LastCapacityChange[at] == first+i { // else it changed again later
				b.set(int(at), sc.FragmentationCost(w, sc.cluster.Nodes[at]))
			}
		}
	}
	b.seen, b.used = sc.cluster.CapacityChanges.Count, true
	return b
}

// RescoreAll works out what every node costs the request.
func (sc *Scorer) RescoreAll(w *cluster.Request) *ScoreCache {
	b := sc.ScoreCaches.Of(w)
	if b == nil {
		b = sc.assignScoreCache(w)
	}
	b.Layout, b.Mix, b.Costs, b.Least = sc.cluster.Layout, sc.Demand.Mix.ID, b.Costs[:0], b.Least[:0]
	sc.idleScratch = slices.Grow(sc.idleScratch[:0], len(sc.cluster.NodeTypes.All))[:len(sc.cluster.NodeTypes.All)]
	clear(sc.idleScratch)
	for k := range sc.cluster.BlockMaxes {
		least, high := int64(NoFit), sc.cluster.BlockMaxAt(k).ExceededBy(w)
		for _, n := range sc.cluster.Nodes[64*k : min(64*k+64, len(sc.cluster.Nodes))] {
			cost := int64(NoFit)
			if !high {
				cost = sc.cachedIdleCost(w, n)
			}
			b.Costs = append(b.Costs, cost)
			least = min(least, cost)
		}
		b.Least = append(b.Least, least)
	}
	return b
}

// idleNode is a node with nothing on it, and what it costs the want at hand.
type idleNode struct {
	node *cluster.Node
	cost int64
}

// cachedIdleCost is what the node costs. Most nodes of a fleet that comes up are alike.
func (sc *Scorer) cachedIdleCost(w *cluster.Request, n *cluster.Node) int64 {
	if n.Seats > 0 || !n.Schedulable() {
		return sc.FragmentationCost(w, n)
	}
	like := &sc.idleScratch[n.Type.ID]
	if o := like.node; o == nil || o.Free != n.Free || o.Usable != n.Usable || o.HistoryScore() != n.HistoryScore() || *sc.capacityOf(o) != *sc.capacityOf(n) {
		*like = idleNode{n, sc.FragmentationCost(w, n)}
	}
	return like.cost
}

// set changes the cost of one node.
func (b *ScoreCache) set(at int, cost int64) {
	before, least := b.Costs[at], &b.Least[at/64]
	b.Costs[at] = cost
	switch {
	case cost <= *least:
		*least = cost
	case before == *least:
		*least = NoFit
		for _, c := range b.Costs[at/64*64 : min(at/64*64+64, len(b.Costs))] {
			*least = min(*least, c)
		}
	}
}

// cheapest is the cheapest of the allowed nodes from lo up to hi, the first of
// several; -1 when none has room.
func (b *ScoreCache) cheapest(allowed *cluster.Set, lo, hi int) int {
	best, least := -1, int64(NoFit)
	for k := lo / 64; k < len(b.Least) && 64*k < hi; k++ {
		if b.Least[k] >= least {
			continue
		}
		for m := allowed.Words[k]; m != 0; m &= m - 1 {
			if i := 64*k + bits.TrailingZeros64(m); b.Costs[i] < least && i >= lo && i < hi {
				best, least = i, b.Costs[i]
			}
		}
	}
	return best
}

// BestNode finds the best node for one member among the allowed ones from lo up to
// hi, nil when none has room.
func (sc *Scorer) BestNode(w *cluster.Request, allowed *cluster.Set, lo, hi int) *cluster.Node {
	switch {
	case w.AnyNodeDoes:
		return sc.cluster.AnyNode(w, allowed, lo, hi)
	case sc.policy != nil:
		return sc.bestNodeByPolicy(w, allowed, lo, hi)
	}
	if w.ScoreSlot == 0 && sc.cluster.FitsNowhere(w) {
		return nil
	}
	if at := sc.RefreshScores(w).cheapest(allowed, lo, hi); at >= 0 {
		return sc.cluster.Nodes[at]
	}
	return nil
}
