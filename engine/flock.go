package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// flock is the nodes with the same stock. A want is held against each flock
// once instead of against each node.
type flock struct {
	id    int32
	stock stock
	nodes set
}

// flocks is the index over the nodes that are open.
type flocks struct {
	byStock map[stock]*flock
	all     []*flock
	epoch   int // counts the times ids were given anew
}

// clear forgets every flock.
func (f *flocks) clear() {
	f.byStock, f.all = map[stock]*flock{}, nil
	f.epoch++
}

// move puts a node into the flock of its stock, out of the one it was in.
func (s *State) move(n *node) {
	f := &s.flocks
	if n.flock != nil {
		n.flock.nodes.remove(n.at)
		n.flock = nil
	}
	if !n.open() {
		s.places.Set(n.at, -1, 0)
		return
	}
	s.places.Set(n.at, bits.OnesCount64(n.free), len(n.devices))
	k := s.stockOf(n)
	to := f.byStock[k]
	if to == nil {
		to = &flock{id: int32(len(f.all)), stock: k}
		to.nodes.resize(len(s.nodes))
		f.byStock[k] = to
		f.all = append(f.all, to)
	}
	to.nodes.add(n.at)
	n.flock = to
}

// crowded says whether so many flocks are empty that it is time to begin anew.
func (f *flocks) crowded(nodes int) bool { return len(f.all) > 4*nodes+4096 }

// ranking is the flocks in the order in which a want likes them.
type ranking struct {
	epoch int
	costs []int64 // by flock
	list  []ranked
}

type ranked struct {
	cost  int64
	flock int32
}

// noFit is the cost of a flock none of whose nodes can take the want.
const noFit = math.MaxInt64

// rank brings the want's ranking up to date: flocks that came since are held
// against it, and put where they belong.
func (s *State) rank(w *want) *ranking {
	r := &w.ranks
	if r.epoch != s.flocks.epoch {
		*r = ranking{epoch: s.flocks.epoch, costs: r.costs[:0], list: r.list[:0]}
	}
	if len(r.costs) == len(s.flocks.all) {
		return r
	}
	known := len(r.list)
	for _, f := range s.flocks.all[len(r.costs):] {
		cost := s.cost(w, &f.stock)
		r.costs = append(r.costs, cost)
		if cost != noFit {
			r.list = append(r.list, ranked{cost, f.id})
		}
	}
	if len(r.list)-known > 8 {
		slices.SortFunc(r.list, s.compareRanked)
		return r
	}
	for i := known; i < len(r.list); i++ {
		one := r.list[i]
		at, _ := slices.BinarySearchFunc(r.list[:i], one, s.compareRanked)
		copy(r.list[at+1:i+1], r.list[at:i])
		r.list[at] = one
	}
	return r
}

func (s *State) compareRanked(a, b ranked) int {
	if a.cost != b.cost {
		return cmp.Compare(a.cost, b.cost)
	}
	return s.flocks.all[a.flock].stock.compare(&s.flocks.all[b.flock].stock)
}

// seek finds the best node for one member among the allowed ones from lo up to
// hi, nil when none has room. The exact account of a node decides whether it
// has.
func (s *State) seek(w *want, allowed *set, lo, hi int) *node {
	for _, r := range s.rank(w).list {
		nodes := &s.flocks.all[r.flock].nodes
		if nodes.count == 0 {
			continue
		}
		for i := nodes.both(allowed, lo); i >= 0 && i < hi; i = nodes.both(allowed, i+1) {
			if n := s.nodes[i]; n.room(w) > 0 {
				return n
			}
		}
	}
	return nil
}
