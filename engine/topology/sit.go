package topology

import (
	"cmp"
	"slices"
)

// item is a node that can take members, with what each of them costs there.
type item struct {
	node, room   int
	moved, waste int
}

func (i *item) cheaper(o *item) int {
	return cmp.Or(cmp.Compare(i.moved, o.moved), cmp.Compare(i.waste, o.waste))
}

// stock is what a leaf has for the members of one round.
type stock struct {
	round  int
	items  []item
	whole  bool // all nodes with room are in items
	costs  []cost
	priced int // the round of costs
}

// cost is what a leaf's members add to the value, in its order. The meaning of
// the first is the strategy's.
type cost struct{ first, moved, shape, waste, nodes int }

func (c cost) plus(o cost) cost {
	return cost{c.first + o.first, c.moved + o.moved, c.shape + o.shape, c.waste + o.waste, c.nodes + o.nodes}
}

func (c *cost) less(o *cost) bool {
	switch {
	case c.first != o.first:
		return c.first < o.first
	case c.moved != o.moved:
		return c.moved < o.moved
	case c.shape != o.shape:
		return c.shape < o.shape
	case c.waste != o.waste:
		return c.waste < o.waste
	}
	return c.nodes < o.nodes
}

// In a leaf of more nodes than smallLeaf, no more of each number of free
// devices are looked at than hold the job, and spare ones.
const (
	smallLeaf = 16
	spare     = 4
)

// stockOf gathers the nodes of a leaf that have room, the first to use first.
func (s *search) stockOf(l int, whole bool) *stock {
	st := &s.stocks[l]
	if st.round == s.round && (st.whole || !whole) {
		return st
	}
	st.round, st.items, st.whole = s.round, st.items[:0], true
	d := &s.tree.domains[leaf][l]
	if d.hi-d.lo <= smallLeaf || whole {
		for n := d.lo; n < d.hi; n++ {
			if s.tree.free[n] >= s.ask.Devices {
				s.stack(st, n)
			}
		}
	} else {
		st.whole = false
		for _, n := range s.ask.Before {
			if n >= d.lo && n < d.hi && s.tree.free[n] >= s.ask.Devices {
				s.stack(st, n)
			}
		}
		for free := s.ask.Devices; free < s.tree.width; free++ {
			s.sample(st, d, free)
		}
	}
	consolidated := s.ask.Strategy == Consolidated
	slices.SortFunc(st.items, func(a, b item) int {
		if consolidated && a.room != b.room {
			return b.room - a.room
		}
		return cmp.Or(a.cheaper(&b), b.room-a.room, a.node-b.node)
	})
	return st
}

// sample adds nodes with so many free devices, until they hold the job with
// some to choose from.
func (s *search) sample(st *stock, d *domain, free int) {
	room, left := 0, spare
	for n := s.tree.next(free, d.lo, d.hi); n < d.hi && left > 0; n = s.tree.next(free, n+1, d.hi) {
		if len(s.ask.Before) > 0 && slices.Contains(s.ask.Before, n) {
			continue
		}
		if room += s.stack(st, n); room >= s.members {
			left--
		}
	}
}

// stack adds a node, if it has room, and says how much.
func (s *search) stack(st *stock, n int) int {
	room := min(s.f.Room(n), s.members)
	if room <= 0 {
		return 0
	}
	it := item{node: n, room: room, waste: s.f.Waste(n)}
	if len(s.ask.Before) > 0 && !slices.Contains(s.ask.Before, n) {
		it.moved = 1
	}
	st.items = append(st.items, it)
	return room
}

// capacity is how many members a leaf can take on so many nodes, as far as the
// job has use for them.
func (s *search) capacity(l, limit int) int {
	most := min(s.members, s.perLeaf)
	if limit < most && s.ask.Devices > 0 {
		most = min(most, limit*(s.tree.mostFree(l)/s.ask.Devices))
	}
	st := s.stockOf(l, false)
	if room := s.roomOf(st, limit); room >= most || st.whole {
		return min(room, most)
	}
	return min(s.roomOf(s.stockOf(l, true), limit), most)
}

// roomOf is how many members fit on so many of the nodes gathered.
func (s *search) roomOf(st *stock, limit int) int {
	room := 0
	if limit >= len(st.items) {
		for i := range st.items {
			room += st.items[i].room
		}
		return room
	}
	s.rooms = s.rooms[:0]
	for i := range st.items {
		s.rooms = append(s.rooms, st.items[i].room)
	}
	slices.Sort(s.rooms)
	for _, r := range s.rooms[len(s.rooms)-limit:] {
		room += r
	}
	return room
}

// sit puts members on nodes of a leaf, at most limit of them, at the least
// cost, and adds the picks to out unless that is nil. False means that they do
// not fit.
func (s *search) sit(l, members, limit int, out *[]Pick) (cost, bool) {
	if s.capacity(l, limit) < members {
		return cost{}, false
	}
	items := s.stocks[l].items
	switch s.ask.Strategy {
	case Consolidated:
		return s.sitTogether(items, members, out), true
	case Distributed:
		return s.sitApart(items, members, limit, out), true
	}
	used, left := 0, members
	for i := 0; left > 0; i++ {
		left -= min(items[i].room, left)
		used++
	}
	var c cost
	if used > limit {
		c = s.sack.fill(items, members, limit, false, out)
	} else {
		c = fill(items[:used], members, out)
	}
	c.shape = members * members
	return c, true
}

// sitTogether uses the fewest nodes. The items are the roomiest first.
func (s *search) sitTogether(items []item, members int, out *[]Pick) cost {
	room, used := 0, 0
	for ; room < members; used++ {
		room += items[used].room
	}
	var c cost
	if room == members || items[0].room == items[len(items)-1].room {
		c = fill(items[:used], members, out)
	} else {
		c = s.sack.fill(items, members, used, true, out)
	}
	c.first = c.nodes
	return c
}

// sitApart uses the most nodes. The items are the cheapest first.
func (s *search) sitApart(items []item, members, limit int, out *[]Pick) cost {
	var c cost
	switch {
	case members <= min(len(items), limit):
		c = ones(items[:members], 0, out)
	case len(items) <= limit:
		c = ones(items, members-len(items), out)
	default:
		c = s.sack.fill(items, members, limit, true, out)
	}
	c.first, c.shape = -c.nodes, members*members
	return c
}

// fill fills items in their order.
func fill(items []item, members int, out *[]Pick) (c cost) {
	for i := 0; members > 0; i++ {
		n := min(items[i].room, members)
		members -= n
		c.take(&items[i], n, out)
	}
	return c
}

// ones puts a member on each item, and more on the first that have room.
func ones(items []item, more int, out *[]Pick) (c cost) {
	for i := range items {
		n := min(items[i].room-1, more)
		more -= n
		c.take(&items[i], n+1, out)
	}
	return c
}

func (c *cost) take(i *item, members int, out *[]Pick) {
	c.moved += i.moved * members
	c.waste += i.waste * members
	c.nodes++
	if out != nil {
		*out = append(*out, Pick{i.node, members})
	}
}

// order sorts picks by their nodes.
func order(picks []Pick) {
	slices.SortFunc(picks, func(a, b Pick) int { return a.Node - b.Node })
}
