package topology

import (
	"cmp"
	"slices"
)

// Bounds on the search for the best leaves of a domain: how many leaves are
// combined, how many sets that could only be as good as the best are filled,
// the steps in all, and the size of the table for splitting members.
const (
	poolSize  = 24
	maxFilled = 8
	maxEffort = 2048
	maxSplits = 1 << 12
)

// room is a leaf with how many members it can take.
type room struct {
	leaf, members int
	waste         int // of the first node to use, where that is known
}

// sets searches for the set of leaves of one domain.
type sets struct {
	domain *domain
	depth  int
	leaves []room // what they promise, the most first
	rooms  []room // the roomiest, looked at: what they hold, the most first
	pool   []room
	size   int // of a set
	effort int
	filled int
	chosen []int32
	sorted []int32
	edges  [][]int32 // leaves next to the chosen ones, by how many are chosen
	near   []int32   // leaves in a connected set with one of before
	ring   []int32   // the same, as they were met
	starts []int
	split  []int // members of each leaf
	splits []step
}

// step is a way to place members in the first few leaves of a set.
type step struct {
	cost  cost
	last  int // members in the last of these leaves
	known bool
}

// begin lists the leaves of a domain by what they promise: a counting sort.
func (z *sets) begin(s *search, d *domain, depth int) {
	z.domain, z.depth = d, depth
	z.starts = append(z.starts[:0], make([]int, s.members+2)...)
	for l := d.first; l < d.end; l++ {
		z.starts[s.members-s.promised(l, depth)+1]++
	}
	for i := 1; i < len(z.starts); i++ {
		z.starts[i] += z.starts[i-1]
	}
	z.leaves = append(z.leaves[:0], make([]room, d.end-d.first)...)
	for l := d.first; l < d.end; l++ {
		n := s.promised(l, depth)
		z.leaves[z.starts[s.members-n]] = room{leaf: l, members: n}
		z.starts[s.members-n]++
	}
	for len(z.leaves) > 0 && z.leaves[len(z.leaves)-1].members == 0 {
		z.leaves = z.leaves[:len(z.leaves)-1]
	}
}

// fewest considers the sets of as few leaves as hold the job, and says whether
// there are any.
func (z *sets) fewest(s *search) bool {
	if z.size = z.explore(s); z.size < 2 {
		return false
	}
	z.chosen = z.chosen[:0]
	need := s.members // of a leaf, at least, beside the roomiest
	for i, r := range z.rooms[:z.size] {
		z.chosen = append(z.chosen, int32(r.leaf))
		if i < z.size-1 {
			need -= r.members
		}
	}
	z.fill(s)
	if z.size > poolSize {
		return true
	}
	if z.grow(s); s.best.Apart == 0 && s.best.Leaves == z.size && s.best.Wide == leaf-z.depth {
		return true // no set that is apart is better
	}
	z.gather(s, need)
	z.chosen = z.chosen[:0]
	z.combine(s, 0, s.members)
	return true
}

// explore looks at the roomiest leaves until it is sure how few can hold the
// job; 0 means that all of them cannot.
func (z *sets) explore(s *search) int {
	z.rooms = z.rooms[:0]
	total := 0
	for _, promised := range z.leaves {
		if total >= s.members {
			if k := z.enough(s.members); k == 1 || promised.members <= z.rooms[k-2].members {
				return k
			}
		}
		r := room{leaf: promised.leaf, members: s.capacity(promised.leaf, s.tree.maxNodes)}
		total += r.members
		at := len(z.rooms)
		for at > 0 && z.rooms[at-1].members < r.members {
			at--
		}
		z.rooms = slices.Insert(z.rooms, at, r)
	}
	return z.enough(s.members)
}

// enough is how many of the roomiest leaves hold so many members, 0 when they
// do not.
func (z *sets) enough(members int) int {
	for i, r := range z.rooms {
		if members -= r.members; members <= 0 {
			return i + 1
		}
	}
	return 0
}

// gather chooses which leaves to combine: those of before, the roomiest, and
// those that are just roomy enough to complete a set.
func (z *sets) gather(s *search, need int) {
	z.pool = z.pool[:0]
	for _, n := range s.ask.Before {
		l := int(s.tree.leafOf[n])
		if i := slices.IndexFunc(z.leaves, func(r room) bool { return r.leaf == l }); i >= 0 && z.leaves[i].members >= need {
			z.offer(z.leaves[i])
		}
	}
	for _, r := range z.rooms[:z.size] {
		z.offer(r)
	}
	for i := len(z.leaves) - 1; i >= 0 && len(z.pool) < poolSize/2+z.size; i-- {
		if z.leaves[i].members >= need {
			z.offer(z.leaves[i])
		}
	}
	for i := 0; i < len(z.leaves) && z.leaves[i].members >= need && len(z.pool) < poolSize+z.size; i++ {
		z.offer(z.leaves[i])
	}
	z.sortPool()
}

func (z *sets) offer(r room) {
	if !slices.ContainsFunc(z.pool, func(o room) bool { return o.leaf == r.leaf }) {
		z.pool = append(z.pool, r)
	}
}

// sortPool puts the least roomy leaves first: a set that just holds the job
// breaks up the least.
func (z *sets) sortPool() {
	slices.SortFunc(z.pool, func(a, b room) int {
		return cmp.Or(cmp.Compare(a.members, b.members), cmp.Compare(a.waste, b.waste), cmp.Compare(a.leaf, b.leaf))
	})
}

// combine tries the sets of leaves of the pool from one on.
func (z *sets) combine(s *search, from, left int) {
	missing := z.size - len(z.chosen)
	if missing == 0 {
		z.try(s)
		return
	}
	rest := left // when the roomiest fill up the set
	for i := len(z.pool) - missing + 1; i < len(z.pool); i++ {
		rest -= z.pool[i].members
	}
	for i := from; i <= len(z.pool)-missing && z.effort > 0; i++ {
		if z.effort--; z.pool[i].members < rest || i > from && z.filled == maxFilled && s.alike(z.pool[i], z.pool[i-1]) {
			continue
		}
		z.chosen = append(z.chosen, int32(z.pool[i].leaf))
		z.combine(s, i+1, left-z.pool[i].members)
		z.chosen = z.chosen[:len(z.chosen)-1]
	}
}

// alike says whether two leaves count the same, so that a set with one is worth
// the same, but for waste, as with the other.
func (s *search) alike(a, b room) bool {
	t := s.tree
	return a.members == b.members && t.sums[a.leaf] == t.sums[b.leaf] && len(s.ask.Before) == 0 &&
		t.seats(leaf, a.leaf, s.ask.Devices) == t.seats(leaf, b.leaf, s.ask.Devices) &&
		len(t.adjacent[a.leaf]) == 0 && len(t.adjacent[b.leaf]) == 0
}

// try fills the chosen leaves, if that can be better than the best so far.
func (z *sets) try(s *search) {
	z.effort -= 8 * z.size
	if s.found {
		switch against := z.against(s); {
		case against > 0 || against == 0 && z.filled == maxFilled:
			return
		case against == 0:
			z.filled++
		}
	}
	z.fill(s)
}

// against compares the least that the chosen leaves can be worth with the best
// so far, less their ties.
func (z *sets) against(s *search) int {
	z.sorted = append(z.sorted[:0], z.chosen...)
	slices.Sort(z.sorted)
	b := &s.best
	bound := Value{Missing: b.Missing, Waste: b.Waste, Nodes: b.Nodes}
	if len(s.ask.Before) > 0 {
		bound.Moved = s.members
		for _, n := range s.ask.Before {
			if _, chosen := slices.BinarySearch(z.sorted, s.tree.leafOf[n]); chosen {
				bound.Moved = max(bound.Moved-s.stay(n), 0)
			}
		}
	}
	s.tree.judge(s.ask, z.sorted, s.members, s.members, &bound)
	if s.ask.Strategy == Consolidated {
		bound.Spread = z.size
	} else {
		each, more := s.members/z.size, s.members%z.size
		bound.Shape = (z.size-more)*each*each + more*(each+1)*(each+1)
	}
	bound.OffLevel = b.OffLevel
	return bound.Compare(b)
}

// most considers the sets of as many leaves as the job can use, and says whether
// there are several.
func (z *sets) most(s *search) bool {
	z.pool = z.pool[:0]
	for _, n := range s.ask.Before {
		l := int(s.tree.leafOf[n])
		if slices.ContainsFunc(z.leaves, func(r room) bool { return r.leaf == l }) {
			z.stock(s, l, len(z.pool))
		}
	}
	kept := len(z.pool)
	for i := len(z.leaves) - 1; i >= 0 && len(z.pool) < s.members+poolSize; i-- {
		z.stock(s, z.leaves[i].leaf, kept)
	}
	z.size = min(s.members, len(z.pool))
	if z.size < 2 {
		return false
	}
	z.sortPool()
	z.chosen = z.chosen[:0]
	for _, r := range z.pool[:z.size] {
		z.chosen = append(z.chosen, int32(r.leaf))
	}
	z.fill(s)
	if z.chosen = z.chosen[:0]; z.size <= poolSize {
		z.combine(s, 0, s.members)
	}
	return true
}

// stock adds a leaf that has room to the pool, unless it is among its first.
func (z *sets) stock(s *search, l, among int) {
	members := s.capacity(l, s.tree.maxNodes)
	if members == 0 || slices.ContainsFunc(z.pool[:among], func(r room) bool { return r.leaf == l }) {
		return
	}
	z.pool = append(z.pool, room{l, members, s.stocks[l].items[0].waste})
}

// fill places the job in the chosen leaves, each with a member at least, at the
// least cost. A job of very many members goes by the strategy only.
func (z *sets) fill(s *search) {
	z.sorted = append(z.sorted[:0], z.chosen...)
	slices.Sort(z.sorted)
	z.split = append(z.split[:0], make([]int, len(z.sorted))...)
	if (len(z.sorted)+1)*(s.members+1) <= maxSplits {
		if !z.cheapest(s) {
			return
		}
	} else if !z.simple(s) {
		return
	}
	s.trial = s.trial[:0]
	for i, members := range z.split {
		s.sit(int(z.sorted[i]), members, s.tree.maxNodes, &s.trial)
	}
	order(s.trial)
	s.consider(s.trial)
}

// cheapest splits the members over the chosen leaves at the least cost, by the
// least cost of splitting so many over the first few leaves.
func (z *sets) cheapest(s *search) bool {
	row := s.members + 1
	z.splits = append(z.splits[:0], make([]step, (len(z.sorted)+1)*row)...)
	z.splits[0].known = true
	for i, l := range z.sorted {
		costs := s.costs(int(l))
		before, after := z.splits[i*row:(i+1)*row], z.splits[(i+1)*row:(i+2)*row]
		most := s.members - (len(z.sorted) - 1 - i) // a member for each leaf that follows
		for placed := i; placed <= most; placed++ {
			if !before[placed].known {
				continue
			}
			for x := 1; x < len(costs) && placed+x <= most; x++ {
				c := before[placed].cost.plus(costs[x])
				if to := &after[placed+x]; !to.known || c.less(&to.cost) {
					*to = step{c, x, true}
				}
			}
			z.effort -= len(costs)
		}
	}
	for i, left := len(z.sorted), s.members; i > 0; i-- {
		way := &z.splits[i*row+left]
		if !way.known {
			return false
		}
		z.split[i-1] = way.last
		left -= way.last
	}
	return true
}

// simple splits the members: consolidated, as many as fit leaf by leaf; others,
// one more for each leaf in turn.
func (z *sets) simple(s *search) bool {
	left := s.members - len(z.sorted)
	for i := range z.split {
		z.split[i] = 1
	}
	for placed := true; placed && left > 0; {
		placed = false
		for i, l := range z.sorted {
			more := min(s.capacity(int(l), s.tree.maxNodes)-z.split[i], left)
			if s.ask.Strategy != Consolidated {
				more = min(more, 1)
			}
			if more > 0 {
				z.split[i] += more
				left -= more
				placed = true
			}
		}
	}
	z.effort = 0
	return left == 0
}

// costs has what it costs to place 1, 2, … members in a leaf, as far as it can.
func (s *search) costs(l int) []cost {
	st := &s.stocks[l]
	if st.priced == s.round {
		return st.costs
	}
	st.priced = s.round
	st.costs = append(st.costs[:0], cost{})
	for x := 1; x <= s.capacity(l, s.tree.maxNodes); x++ {
		c, _ := s.sit(l, x, s.tree.maxNodes, nil)
		st.costs = append(st.costs, c)
	}
	return st.costs
}
