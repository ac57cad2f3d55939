package engine

import (
	"cmp"
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
	used     bool    // since the hand of the rack passed
}

// rack has the wants whose boards are kept. Jobs may ask for as many different
// things as there are jobs: beyond the rack's room the board that was not used
// for longest, by and large, goes to the next want.
type rack struct {
	wants []*want
	hand  int
	cells int // costs in all boards together, boardCells if it is 0
}

// Limits on the boards of a state.
const (
	boardCells  = 1 << 22 // costs in all boards together: 32 MB
	boardsLeast = 8       // however many nodes there are
)

// lend gives the want a board, if need be that of another.
func (s *State) lend(w *want) {
	r := &s.rack
	if len(r.wants) < max(cmp.Or(r.cells, boardCells)/max(len(s.nodes), 1), boardsLeast) {
		r.wants = append(r.wants, w)
		w.board.costs, w.board.least = make([]int64, 0, len(s.nodes)), make([]int64, 0, len(s.nodes)/64+1)
		return
	}
	for {
		r.hand = (r.hand + 1) % len(r.wants)
		last := r.wants[r.hand]
		if last.board.used {
			last.board.used = false
			continue
		}
		w.board, last.board = last.board, board{}
		r.wants[r.hand] = w
		return
	}
}

// clear takes all boards away: the fleet is another.
func (r *rack) clear() {
	for _, w := range r.wants {
		w.board = board{}
	}
	*r = rack{cells: r.cells}
}

// weigh brings the want's board up to date.
func (s *State) weigh(w *want) *board {
	b := &w.board
	if b.costs == nil || b.layout != s.layout || b.prospect != s.demand.now.id || s.shifts.lost(b.seen) {
		s.weighAll(w)
	} else {
		first := s.shifts.count - len(s.shifts.since(b.seen))
		for i, at := range s.shifts.since(b.seen) {
			if s.shifted[at] == first+i { // else it changed again later
				b.put(int(at), s.cost(w, s.nodes[at]))
			}
		}
	}
	b.seen, b.used = s.shifts.count, true
	return b
}

func (s *State) weighAll(w *want) {
	b := &w.board
	if b.costs == nil {
		s.lend(w)
	}
	b.layout, b.prospect, b.costs, b.least = s.layout, s.demand.now.id, b.costs[:0], b.least[:0]
	s.fresh = slices.Grow(s.fresh[:0], len(s.profiles.all))[:len(s.profiles.all)]
	clear(s.fresh)
	for k := range s.crests {
		least, high := int64(noFit), s.crestAt(k).above(w)
		for _, n := range s.nodes[64*k : min(64*k+64, len(s.nodes))] {
			cost := int64(noFit)
			if !high {
				cost = s.costOf(w, n)
			}
			b.costs = append(b.costs, cost)
			least = min(least, cost)
		}
		b.least = append(b.least, least)
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
	if o := like.node; o == nil || o.free != n.free || o.usable != n.usable || o.blame != n.blame || o.shelf != n.shelf {
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
	if w.board.costs == nil && s.nowhere(w) {
		return nil
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
	s.crests[n.at/64].stale = true
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
