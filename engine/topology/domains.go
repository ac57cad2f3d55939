package topology

import "slices"

// maxDomains is how many domains of a level that hold the job are looked at
// closely, the most promising first.
const maxDomains = 3

// domains looks for the best place in several leaves of one domain at a depth.
func (s *search) domains(depth int) {
	fits := 0
	if depth == spine && s.everywhere() && s.ask.Gbps == 0 && s.ask.Strategy != Distributed {
		b := s.boardOf(spine)
		s.ranks = b.first(s.ranks[:0], shortList)
		for size := shortList; ; size = longList {
			for i := range s.ranks {
				if !s.look(depth, &s.ranks[i], b, &fits) {
					return
				}
			}
			if len(s.ranks) < size || s.found && fits == maxDomains {
				return
			}
			last := s.ranks[len(s.ranks)-1]
			s.ranks = b.after(&last, longList, s.ranks[:0])
		}
	}
	s.ranks = s.ranks[:0]
	for i := range s.tree.domains[depth] {
		if k := s.promise(depth, i); !k.never {
			s.ranks = append(s.ranks, k)
		}
	}
	for s.ranks.build(); len(s.ranks) > 0; s.ranks.pop() {
		if !s.look(depth, &s.ranks[0], nil, &fits) {
			return
		}
	}
}

// everywhere says whether a board answers for the job: it may use all leaves,
// and only its size tells them apart.
func (s *search) everywhere() bool {
	return s.end-s.first == len(s.stocks) && len(s.ask.Before) == 0 && !s.ask.LatencySensitive
}

// look looks closely at a domain, unless it has looked at enough: then it is
// false.
func (s *search) look(depth int, k *key, b *board, fits *int) bool {
	if s.found && (*fits == maxDomains || s.hopeless(k)) {
		return false
	}
	s.sets.begin(s, &s.tree.domains[depth][k.domain], depth)
	holds := false
	if s.ask.Strategy == Distributed {
		holds = s.sets.most(s)
	} else {
		holds = s.sets.fewest(s)
	}
	if holds {
		*fits++
	} else if b != nil && s.ask.Kind != 0 {
		b.learn(k.domain)
	}
	return true
}

// hopeless says whether what was found is better than anything in a domain of
// this promise, or in those after it.
func (s *search) hopeless(k *key) bool {
	b := &s.best
	return k.compare(&key{
		doubled: b.Doubled, crowded: b.Crowded, nanos: b.Nanos, wide: b.Wide, leaves: b.Leaves,
		spread: k.spread, moved: k.moved, stray: k.stray, seats: k.seats, domain: k.domain,
	}) > 0
}

// promise ranks a domain of several leaves.
func (s *search) promise(depth, i int) key {
	t, a := s.tree, s.ask
	d := &t.domains[depth][i]
	k := key{domain: i, wide: leaf - depth, seats: t.seats(depth, i, a.Devices)}
	inner := &t.domains[depth+1][t.up[d.first][depth+1]] // if it is all, it was looked at
	k.never = d.first < s.first || d.end > s.end || inner.end == d.end || a.Gbps > d.gbps ||
		k.seats == 0 || a.Devices > 0 && k.seats < s.members
	if k.never {
		return k
	}
	if a.LatencySensitive {
		k.nanos = d.nanos
	}
	if len(a.Before) > 0 {
		if k.moved = s.leastMoved(d); !t.held(a, d) {
			k.stray = 1
		}
	}
	if a.Strategy == Distributed {
		k.doubled = max(0, s.members-t.seats(depth, i, 0))
		k.crowded = max(0, s.members-(d.end-d.first))
		return k
	}
	k.leaves = s.leavesNeeded(d, depth)
	k.never = k.leaves == 0
	return k
}

// leastMoved is how many members at least are on other nodes than before, if all
// are in a domain.
func (s *search) leastMoved(d *domain) int {
	left := s.members
	for _, n := range s.ask.Before {
		if n >= d.lo && n < d.hi {
			left -= s.stay(n)
		}
	}
	return max(left, 0)
}

// stay is how many members a node of before could keep, as its free devices tell.
func (s *search) stay(n int) int {
	switch free := s.tree.free[n]; {
	case free < 0:
		return 0
	case s.ask.Devices == 0:
		return s.members
	default:
		return free / s.ask.Devices
	}
}

// held says whether the domain has a node of before.
func (t *Tree) held(a *Ask, d *domain) bool {
	return slices.ContainsFunc(a.Before, func(n int) bool { return n >= d.lo && n < d.hi })
}

// leavesNeeded is the least number of leaves of a domain that can hold the job,
// by what they count; 0 means that all of them cannot.
func (s *search) leavesNeeded(d *domain, depth int) int {
	s.tally = append(s.tally[:0], make([]int, s.members+1)...)
	for l := d.first; l < d.end; l++ {
		s.tally[s.promised(l, depth)]++
	}
	left, used := s.members, 0
	for room := s.members; room > 0; room-- {
		n := min(s.tally[room], (left+room-1)/room)
		used += n
		if left -= n * room; left <= 0 {
			return used
		}
	}
	return 0
}

// promised is how many members a leaf can take at most as one of several in a
// domain at a depth, as far as the job has use for them.
func (s *search) promised(l, depth int) int {
	t, a := s.tree, s.ask
	if a.Gbps > 0 && !t.reaches(a.Gbps, l, depth) {
		return 0
	}
	seats := t.seats(leaf, l, a.Devices)
	if seats == 0 {
		return 0
	}
	most := min(s.members, s.perLeaf)
	if a.Devices == 0 {
		return most
	}
	if t.maxNodes < seats {
		seats = min(seats, t.maxNodes*(t.mostFree(l)/a.Devices))
	}
	return min(seats, most)
}

// ranking is a heap of keys, the least on top.
type ranking []key

func (r ranking) build() {
	for i := len(r)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
}

func (r *ranking) pop() {
	last := len(*r) - 1
	(*r)[0] = (*r)[last]
	*r = (*r)[:last]
	r.sink(0)
}

func (r ranking) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(r); child++ {
			if r[child].compare(&r[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		r[i], r[least] = r[least], r[i]
		i = least
	}
}
