package engine

import (
	"math/bits"
	"slices"
)

// board is what each node would cost a want. It is brought up to date when the
// want is looked for a place, and only for nodes that have changed since: so a
// decision costs little more on 10,000 nodes than on 100, and yet finds the
// best of all.
type board struct {
	layout   int // State.layout as of which positions are right
	prospect int // the one the costs are by
	seen     int // changes of nodes that were taken in
	costs    []int64
	least    []int64 // of each 64 nodes
}

// weigh brings the want's board up to date.
func (s *State) weigh(w *want) *board {
	b := &w.board
	if b.layout != s.layout || b.prospect != s.demand.now.id || s.shifts.lost(b.seen) {
		s.weighAll(w)
	} else {
		first := s.shifts.count - len(s.shifts.since(b.seen))
		for i, at := range s.shifts.since(b.seen) {
			if s.shifted[at] == first+i { // else it changed again later
				b.put(int(at), s.cost(w, s.nodes[at]))
			}
		}
	}
	b.seen = s.shifts.count
	return b
}

func (s *State) weighAll(w *want) {
	b := &w.board
	b.layout, b.prospect = s.layout, s.demand.now.id
	b.costs, b.least = slices.Grow(b.costs[:0], len(s.nodes)), slices.Grow(b.least[:0], len(s.nodes)/64+1)
	s.fresh = slices.Grow(s.fresh[:0], len(s.profiles.all))[:len(s.profiles.all)]
	clear(s.fresh)
	for i, n := range s.nodes {
		if i%64 == 0 {
			b.least = append(b.least, noFit)
		}
		cost := s.costOf(w, n)
		b.costs = append(b.costs, cost)
		b.least[i/64] = min(b.least[i/64], cost)
	}
}

// fresh is a node with nothing on it, and what it costs the want at hand.
type fresh struct {
	node *node
	cost int64
}

// costOf is what the node costs. Most nodes of a fleet that comes up are alike.
func (s *State) costOf(w *want, n *node) int64 {
	if n.seats > 0 || !n.open() {
		return s.cost(w, n)
	}
	like := &s.fresh[n.profile.id]
	if o := like.node; o == nil || o.free != n.free || o.usable != n.usable || o.shelf != n.shelf {
		*like = fresh{n, s.cost(w, n)}
	}
	return like.cost
}

// put changes the cost of one node.
func (b *board) put(at int, cost int64) {
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

// best is the cheapest of the allowed nodes from lo up to hi, the first of
// several; -1 when none has room.
func (b *board) best(allowed *set, lo, hi int) int {
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

// seek finds the best node for one member among the allowed ones from lo up to
// hi, nil when none has room.
func (s *State) seek(w *want, allowed *set, lo, hi int) *node {
	switch {
	case w.passing:
		return s.seekAny(w, allowed, lo, hi)
	case s.cfg.Placement != PlaceAres:
		return s.seekBy(s.cfg.Placement, w, allowed, lo, hi)
	}
	if at := s.weigh(w).best(allowed, lo, hi); at >= 0 {
		return s.nodes[at]
	}
	return nil
}

// seekAny finds a node with room, without a board.
func (s *State) seekAny(w *want, allowed *set, lo, hi int) *node {
	for i := allowed.next(lo); i >= 0 && i < hi; i = allowed.next(i + 1) {
		if sp := &s.spare[i]; int(sp.cpus) < w.cpus || int(sp.memory) < w.memory {
			continue
		}
		if n := s.nodes[i]; n.fits(w) {
			return n
		}
	}
	return nil
}

// move notes that a node has other things left than before.
func (s *State) move(n *node) {
	s.moves++
	n.moves = s.moves
	s.shifts.note(n.at)
	s.shifted[n.at] = s.shifts.count - 1
	if !n.open() {
		s.places.Set(n.at, -1, 0)
		s.gists[n.at], s.spare[n.at] = gist{}, spare{-1, -1}
		return
	}
	s.places.Set(n.at, bits.OnesCount64(n.free), len(n.devices))
	s.gists[n.at] = gistOf(n)
	s.spare[n.at] = spare{int32(max(n.profile.cpus-n.cpus, 0)), int32(max(n.record.MemoryMB-n.memory, 0))}
	s.stack(n)
}

// spare is a node's CPUs and memory that are left, side by side with those of
// the others: most nodes that come into question and have no room lack these.
// It is never below 0, so that who asks for none finds room on a machine that
// has less than it had when others came, but for a node that is not open.
type spare struct{ cpus, memory int32 }
