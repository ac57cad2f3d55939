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
	epoch   int     // counts the times ids were given anew
	turned  changes // flocks that became empty or ceased to be
}

// clear forgets every flock.
func (f *flocks) clear() {
	f.byStock, f.all = map[stock]*flock{}, nil
	f.epoch++
	f.turned.forget()
}

// move puts a node into the flock of its stock, out of the one it was in.
func (s *State) move(n *node) {
	f := &s.flocks
	s.moves++
	n.moves = s.moves
	if !n.open() {
		s.leave(n)
		s.places.Set(n.at, -1, 0)
		s.parts.leave(n)
		s.gists[n.at] = gist{}
		return
	}
	s.places.Set(n.at, bits.OnesCount64(n.free), len(n.devices))
	s.parts.move(n)
	s.gists[n.at] = gistOf(n)
	s.spare[n.at] = spare{int32(max(n.profile.cpus-n.cpus, 0)), int32(max(n.record.MemoryMB-n.memory, 0))}
	k := stockOf(n)
	if n.flock != nil && n.flock.stock == k {
		return
	}
	s.leave(n)
	to := f.byStock[k]
	if to == nil {
		to = &flock{id: int32(len(f.all)), stock: k}
		to.nodes.resize(len(s.nodes))
		f.byStock[k] = to
		f.all = append(f.all, to)
	}
	if to.nodes.count == 0 {
		f.turned.note(int(to.id))
	}
	to.nodes.add(n.at)
	n.flock = to
}

// spare is a node's CPUs and memory that are left, side by side with those of
// the others: most nodes that come into question and have no room lack these.
// It is never below 0, so that who asks for none finds room on a machine that
// has less than it had when others came.
type spare struct{ cpus, memory int32 }

// leave takes a node out of its flock.
func (s *State) leave(n *node) {
	if n.flock == nil {
		return
	}
	n.flock.nodes.remove(n.at)
	if n.flock.nodes.count == 0 {
		s.flocks.turned.note(int(n.flock.id))
	}
	n.flock = nil
}

// crowded says whether so many flocks are empty that it is time to begin anew.
func (f *flocks) crowded(nodes int) bool { return len(f.all) > 4*nodes+16_384 }

// ranking is the flocks in the order in which a want likes them.
type ranking struct {
	epoch  int
	costs  []int64 // by flock
	list   []ranked
	spot   []int32 // by flock: where it is in list, -1 when it does not fit
	alive  set     // of list: those that are not empty
	turned int     // changes of flocks that were taken in
}

type ranked struct {
	cost  int64
	flock int32
}

// noFit is the cost of a flock none of whose nodes can take the want.
const noFit = math.MaxInt64

// rank brings the want's ranking up to date: flocks that came since are held
// against it and put where they belong, and those that are empty now left out.
func (s *State) rank(w *want) *ranking {
	r, f := &w.ranks, &s.flocks
	if r.epoch != f.epoch {
		*r = ranking{epoch: f.epoch, costs: r.costs[:0], list: r.list[:0], spot: r.spot, alive: r.alive}
	}
	switch {
	case len(r.costs) < len(f.all):
		s.rankNew(w)
	case f.turned.lost(r.turned):
		r.revive(f)
	default:
		for _, id := range f.turned.since(r.turned) {
			if at := r.spot[id]; at >= 0 {
				r.alive.put(int(at), f.all[id].nodes.count > 0)
			}
		}
	}
	r.turned = f.turned.count
	return r
}

func (s *State) rankNew(w *want) {
	r, f := &w.ranks, &s.flocks
	for _, one := range f.all[len(r.costs):] {
		cost := s.cost(w, &one.stock)
		r.costs = append(r.costs, cost)
		if cost == noFit {
			continue
		}
		at, _ := slices.BinarySearchFunc(r.list, ranked{cost, one.id}, s.compareRanked)
		r.list = slices.Insert(r.list, at, ranked{cost, one.id})
	}
	r.spot = slices.Grow(r.spot[:0], len(f.all))[:len(f.all)]
	for i := range r.spot {
		r.spot[i] = -1
	}
	for at := range r.list {
		r.spot[r.list[at].flock] = int32(at)
	}
	r.revive(f)
}

// revive finds anew which flocks are not empty.
func (r *ranking) revive(f *flocks) {
	r.alive.resize(len(r.list))
	for at := range r.list {
		if f.all[r.list[at].flock].nodes.count > 0 {
			r.alive.add(at)
		}
	}
}

func (s *State) compareRanked(a, b ranked) int {
	if a.cost != b.cost {
		return cmp.Compare(a.cost, b.cost)
	}
	x, y := &s.flocks.all[a.flock].stock, &s.flocks.all[b.flock].stock
	if x.profile != y.profile { // by content: their numbers tell when each was first seen
		return cmp.Compare(s.profiles.all[x.profile].key, s.profiles.all[y.profile].key)
	}
	return x.compare(y)
}

// second is how many of the best nodes at first sight get an exact look.
const second = 4

// seek finds the best node for one member among the allowed ones from lo up to
// hi, nil when none has room: the best of the first few that come into
// question. The exact account of a node decides whether it has room.
func (s *State) seek(w *want, allowed *set, lo, hi int) *node {
	switch {
	case w.passing:
		return s.seekAny(w, allowed, lo, hi)
	case s.cfg.Placement != PlaceAres:
		return s.seekBy(s.cfg.Placement, w, allowed, lo, hi)
	case s.cfg.Exact:
		return s.seekAll(w, allowed, lo, hi)
	}
	c := contest{state: s, want: w, allowed: allowed, lo: lo, hi: hi, least: noFit}
	if w.milli > 0 {
		// The partly taken devices with the least left that is enough.
		for left := s.parts.values.next(w.milli); left >= 0; left = s.parts.values.next(left + 1) {
			if c.look(&s.parts.nodes[left]) {
				return c.best
			}
		}
		if c.best != nil {
			return c.best
		}
	}
	r := s.rank(w)
	for at := r.alive.next(0); at >= 0; at = r.alive.next(at + 1) {
		if c.look(&s.flocks.all[r.list[at].flock].nodes) {
			break
		}
	}
	return c.best
}

// contest is the search for the best of a few nodes.
type contest struct {
	state   *State
	want    *want
	allowed *set
	lo, hi  int
	best    *node
	least   int64
	looked  int
}

// look takes a set of nodes into the contest, and says whether enough were
// looked at.
func (c *contest) look(nodes *set) bool { return nodes.common(c.allowed, c.lo, c.hi, c.weigh) }

// weigh takes one node into the contest, and says whether enough were looked
// at.
func (c *contest) weigh(i int) (enough bool) {
	s := c.state
	if sp := &s.spare[i]; int(sp.cpus) < c.want.cpus || int(sp.memory) < c.want.memory {
		return false
	}
	n := s.nodes[i]
	if n.room(c.want) == 0 {
		return false
	}
	if cost := s.costOn(c.want, n); cost < c.least {
		c.best, c.least = n, cost
	}
	c.looked++
	return c.looked == second
}

// seekAll holds the want against every node.
func (s *State) seekAll(w *want, allowed *set, lo, hi int) *node {
	c := contest{state: s, want: w, allowed: allowed, lo: lo, hi: hi, least: noFit}
	for i := allowed.next(lo); i >= 0 && i < hi; i = allowed.next(i + 1) {
		if n := s.nodes[i]; n.flock != nil && n.room(w) > 0 {
			if cost := s.costOn(w, n); cost < c.least {
				c.best, c.least = n, cost
			}
		}
	}
	return c.best
}

// seekAny finds a node with room, without a ranking of the flocks.
func (s *State) seekAny(w *want, allowed *set, lo, hi int) *node {
	for i := allowed.next(lo); i >= 0 && i < hi; i = allowed.next(i + 1) {
		if sp := &s.spare[i]; int(sp.cpus) < w.cpus || int(sp.memory) < w.memory {
			continue
		}
		if n := s.nodes[i]; n.flock != nil && n.room(w) > 0 {
			return n
		}
	}
	return nil
}
