package engine

import (
	"cmp"
	"math/bits"
	"slices"
)

// scoreCache is what each node would cost a want. It is brought up to date when the
// want is looked for a place, and only for nodes that have changed since: so a
// decision costs little more on 10,000 nodes than on 100, and yet finds the
// best of all.
type scoreCache struct {
	layout int // State.layout as of which positions are right
	mix    int // the one the costs are by
	seen   int // changes of nodes that were taken in
	costs  []int64
	least  []int64 // of each 64 nodes
	used   bool    // since the hand of the rack passed
}

// scoreCachePool has the wants whose boards are kept. Jobs may ask for as many different
// things as there are jobs: beyond the rack's room the board that was not used
// for longest, by and large, goes to the next want.
type scoreCachePool struct {
	requests  []*request
	clockHand int
	maxCells  int // costs in all boards together, boardCells if it is 0
}

// Limits on the boards of a state.
const (
	maxScoreCells  = 1 << 22 // costs in all boards together: 32 MB
	minScoreCaches = 8       // however many nodes there are
)

// assignScoreCache gives the want a board, if need be that of another.
func (s *State) assignScoreCache(w *request) {
	r := &s.scoreCaches
	if len(r.requests) < max(cmp.Or(r.maxCells, maxScoreCells)/max(len(s.nodes), 1), minScoreCaches) {
		r.requests = append(r.requests, w)
		w.scores.costs, w.scores.least = make([]int64, 0, len(s.nodes)), make([]int64, 0, len(s.nodes)/64+1)
		return
	}
	for {
		r.clockHand = (r.clockHand + 1) % len(r.requests)
		last := r.requests[r.clockHand]
		if last.scores.used {
			last.scores.used = false
			continue
		}
		w.scores, last.scores = last.scores, scoreCache{}
		r.requests[r.clockHand] = w
		return
	}
}

// clear takes all boards away: the fleet is another.
func (r *scoreCachePool) clear() {
	for _, w := range r.requests {
		w.scores = scoreCache{}
	}
	*r = scoreCachePool{maxCells: r.maxCells}
}

// refreshScores brings the want's board up to date.
func (s *State) refreshScores(w *request) *scoreCache {
	b := &w.scores
	if b.costs == nil || b.layout != s.layout || b.mix != s.demand.mix.id || s.capacityChanges.hasGap(b.seen) {
		s.rescoreAll(w)
	} else {
		first := s.capacityChanges.count - len(s.capacityChanges.since(b.seen))
		for i, at := range s.capacityChanges.since(b.seen) {
			if s.lastCapacityChange[at] == first+i { // else it changed again later
				b.set(int(at), s.fragmentationCost(w, s.nodes[at]))
			}
		}
	}
	b.seen, b.used = s.capacityChanges.count, true
	return b
}

func (s *State) rescoreAll(w *request) {
	b := &w.scores
	if b.costs == nil {
		s.assignScoreCache(w)
	}
	b.layout, b.mix, b.costs, b.least = s.layout, s.demand.mix.id, b.costs[:0], b.least[:0]
	s.idleScratch = slices.Grow(s.idleScratch[:0], len(s.nodeTypes.all))[:len(s.nodeTypes.all)]
	clear(s.idleScratch)
	for k := range s.blockMaxes {
		least, high := int64(noFit), s.blockMaxAt(k).exceededBy(w)
		for _, n := range s.nodes[64*k : min(64*k+64, len(s.nodes))] {
			cost := int64(noFit)
			if !high {
				cost = s.cachedIdleCost(w, n)
			}
			b.costs = append(b.costs, cost)
			least = min(least, cost)
		}
		b.least = append(b.least, least)
	}
}

// idleNode is a node with nothing on it, and what it costs the want at hand.
type idleNode struct {
	node *node
	cost int64
}

// cachedIdleCost is what the node costs. Most nodes of a fleet that comes up are alike.
func (s *State) cachedIdleCost(w *request, n *node) int64 {
	if n.seats > 0 || !n.schedulable() {
		return s.fragmentationCost(w, n)
	}
	like := &s.idleScratch[n.typ.id]
	if o := like.node; o == nil || o.free != n.free || o.usable != n.usable || o.historyPenalty != n.historyPenalty || o.capacity != n.capacity {
		*like = idleNode{n, s.fragmentationCost(w, n)}
	}
	return like.cost
}

// set changes the cost of one node.
func (b *scoreCache) set(at int, cost int64) {
	before, least := b.costs[at], &b.least[at/64]
	b.costs[at] = cost
	switch {
	case cost <= *least:
		*least = cost
	case before == *least:
		*least = noFit
		for _, c := range b.costs[at/64*64 : min(at/64*64+64, len(b.costs))] {
			*least = min(*least, c)
		}
	}
}

// cheapest is the cheapest of the allowed nodes from lo up to hi, the first of
// several; -1 when none has room.
func (b *scoreCache) cheapest(allowed *set, lo, hi int) int {
	best, least := -1, int64(noFit)
	for k := lo / 64; k < len(b.least) && 64*k < hi; k++ {
		if b.least[k] >= least {
			continue
		}
		for m := allowed.words[k]; m != 0; m &= m - 1 {
			if i := 64*k + bits.TrailingZeros64(m); b.costs[i] < least && i >= lo && i < hi {
				best, least = i, b.costs[i]
			}
		}
	}
	return best
}

// bestNode finds the best node for one member among the allowed ones from lo up to
// hi, nil when none has room.
func (s *State) bestNode(w *request, allowed *set, lo, hi int) *node {
	switch {
	case w.anyNodeDoes:
		return s.anyNode(w, allowed, lo, hi)
	case s.cfg.Placement != PolicyDefault:
		return s.bestNodeByPolicy(s.cfg.Placement, w, allowed, lo, hi)
	}
	if w.scores.costs == nil && s.fitsNowhere(w) {
		return nil
	}
	if at := s.refreshScores(w).cheapest(allowed, lo, hi); at >= 0 {
		return s.nodes[at]
	}
	return nil
}

// anyNode finds a node with room, without a board.
func (s *State) anyNode(w *request, allowed *set, lo, hi int) *node {
	for i := allowed.next(lo); i >= 0 && i < hi; i = allowed.next(i + 1) {
		if sp := &s.freeCPUMem[i]; int(sp.cpus) < w.cpus || int(sp.memory) < w.memory {
			continue
		}
		if n := s.nodes[i]; n.fits(w) {
			return n
		}
	}
	return nil
}

// capacityChanged notes that a node has other things left than before.
func (s *State) capacityChanged(n *node) {
	s.changeCount++
	n.changes = s.changeCount
	s.capacityChanges.add(n.pos)
	s.lastCapacityChange[n.pos] = s.capacityChanges.count - 1
	s.blockMaxes[n.pos/64].stale = true
	if !n.schedulable() {
		s.domains.Set(n.pos, -1, 0)
		s.summaries[n.pos], s.freeCPUMem[n.pos] = nodeSummary{}, freeCPUMem{-1, -1}
		return
	}
	s.domains.Set(n.pos, bits.OnesCount64(n.free), len(n.devices))
	s.summaries[n.pos] = summarize(n)
	s.freeCPUMem[n.pos] = freeCPUMem{int32(max(n.typ.cpus-n.cpus, 0)), int32(max(n.record.MemoryMB-n.memory, 0))}
	s.refreshCapacity(n)
}

// freeCPUMem is a node's CPUs and memory that are left, side by side with those of
// the others: most nodes that come into question and have no room lack these.
// It is never below 0, so that who asks for none finds room on a machine that
// has less than it had when others came, but for a node that is not open.
type freeCPUMem struct{ cpus, memory int32 }
