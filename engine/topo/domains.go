package topo

import (
	"cmp"
	"slices"
)

// maxDomains is how many domains of one level are looked at closely once a
// place has been found there, the most promising first.
const maxDomains = 4

// rank orders the domains of a level by how promising they are.
type rank struct {
	doubled, crowded int // of a distributed job, at best
	nanos            int
	leaves           int // that the job needs at least
	stray            int
	seats            int
	domain           int
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.doubled, o.doubled), cmp.Compare(r.crowded, o.crowded), cmp.Compare(r.nanos, o.nanos),
		cmp.Compare(r.leaves, o.leaves), cmp.Compare(r.stray, o.stray), cmp.Compare(r.seats, o.seats),
		cmp.Compare(r.domain, o.domain))
}

// domains looks for the best place in several leaves of one domain at a depth.
func (s *search) domains(depth int) {
	t := s.tree
	s.ranks = s.ranks[:0]
	for i := range t.domains[depth] {
		if r, ok := s.promise(depth, i); ok {
			s.ranks = append(s.ranks, r)
		}
	}
	slices.SortFunc(s.ranks, rank.compare)
	looked := 0
	for _, r := range s.ranks {
		if s.found {
			if looked == maxDomains || s.hopeless(&r, leaf-depth) {
				return
			}
			looked++
		}
		d := &t.domains[depth][r.domain]
		s.sets.begin(s, d, depth)
		if s.ask.Strategy == Distributed {
			s.sets.most(s)
		} else {
			s.sets.fewest(s)
		}
	}
}

// hopeless says whether what was found is better than anything in a domain so
// ranked, or in those after it.
func (s *search) hopeless(r *rank, wide int) bool {
	b := &s.best
	if s.ask.Strategy == Distributed {
		return cmp.Or(cmp.Compare(r.doubled, b.Doubled), cmp.Compare(r.crowded, b.Crowded), cmp.Compare(r.nanos, b.Nanos),
			cmp.Compare(wide, b.Wide)) > 0
	}
	return cmp.Or(cmp.Compare(r.nanos, b.Nanos), cmp.Compare(wide, b.Wide), cmp.Compare(r.leaves, b.Leaves)) > 0
}

// promise ranks a domain. False means that it cannot hold the job, or nothing
// that a narrower domain does not hold too.
func (s *search) promise(depth, i int) (rank, bool) {
	t, a := s.tree, s.ask
	d := &t.domains[depth][i]
	r := rank{domain: i, seats: t.seats(depth, i, a.Devices)}
	inner := &t.domains[depth+1][t.up[d.first][depth+1]]
	if d.first < s.first || d.end > s.end || inner.end == d.end || a.Gbps > d.gbps {
		return r, false
	}
	if r.seats == 0 || a.Devices > 0 && r.seats < s.members {
		return r, false
	}
	if a.LatencySensitive {
		r.nanos = d.nanos
	}
	if len(a.Before) > 0 {
		r.stray = 1
		for _, n := range a.Before {
			if n >= d.lo && n < d.hi {
				r.stray = 0
			}
		}
	}
	if a.Strategy == Distributed {
		r.doubled = max(0, s.members-t.seats(depth, i, 0))
		r.crowded = max(0, s.members-(d.end-d.first))
		return r, true
	}
	r.leaves = s.leavesNeeded(d, depth)
	return r, r.leaves > 0
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
