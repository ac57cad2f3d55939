package topo

import (
	"cmp"
	"math"
)

// How many leaves are looked at closely, best bound first: at least so many at
// once, and so many that could at most be as good as the best, each for its
// waste only.
const (
	shortList = 8
	longList  = 64
	maxTies   = 16
)

// key bounds the value of a place in one leaf from below, in the order of
// Value's parts.
type key struct {
	doubled, nanos, stray, away, shape, loose, merit int
	leaf                                             int
}

func (k *key) compare(o *key) int {
	switch {
	case k.doubled != o.doubled:
		return cmp.Compare(k.doubled, o.doubled)
	case k.nanos != o.nanos:
		return cmp.Compare(k.nanos, o.nanos)
	case k.stray != o.stray:
		return cmp.Compare(k.stray, o.stray)
	case k.away != o.away:
		return cmp.Compare(k.away, o.away)
	case k.shape != o.shape:
		return cmp.Compare(k.shape, o.shape)
	case k.loose != o.loose:
		return cmp.Compare(k.loose, o.loose)
	case k.merit != o.merit:
		return cmp.Compare(k.merit, o.merit)
	}
	return cmp.Compare(k.leaf, o.leaf)
}

// leaves looks for the best place in a single leaf. It looks closely at leaves
// in the order of their bounds, until no other can be better.
func (s *search) leaves() {
	after := key{doubled: math.MinInt}
	ties := 0
	for size := shortList; ; size = longList {
		list := s.shortlist(&after, size)
		for i := range list {
			switch against := s.against(&list[i]); {
			case against > 0 || against == 0 && ties == maxTies:
				return
			case against == 0:
				ties++
			}
			s.oneLeaf(list[i].leaf)
		}
		if len(list) < size {
			return
		}
		after = list[len(list)-1]
	}
}

// oneLeaf considers the best place in a leaf.
func (s *search) oneLeaf(l int) {
	limit := s.nodeLimit(l)
	if s.ask.LatencySensitive && limit > 1 {
		s.inLeaf(l, 1) // no network is nearer than any
	}
	s.inLeaf(l, limit)
}

func (s *search) inLeaf(l, limit int) {
	if s.members > s.perLeaf {
		return
	}
	s.trial = s.trial[:0]
	if _, ok := s.sit(l, s.members, limit, &s.trial); ok {
		order(s.trial)
		s.consider(s.trial)
	}
}

// nodeLimit is on how many nodes of a leaf the job may be when it is in that
// leaf alone.
func (s *search) nodeLimit(l int) int {
	if s.required > leaf || s.ask.Gbps > s.tree.domains[leaf][l].gbps {
		return 1
	}
	return s.tree.maxNodes
}

// against compares a bound with the best so far, less their ties.
func (s *search) against(k *key) int {
	if !s.found {
		return -1
	}
	b := &s.best
	bound := Value{
		Missing: b.Missing, OffDomain: b.OffDomain, OffLevel: b.OffLevel, Doubled: k.doubled, Nanos: k.nanos,
		Stray: k.stray, Away: k.away, Shape: k.shape, Loose: k.loose, Merit: k.merit,
		Moved: b.Moved, Waste: b.Waste, Nodes: b.Nodes,
	}
	if s.ask.Strategy == Distributed {
		bound.Crowded = s.members - 1
	} else {
		bound.Leaves = 1
	}
	return bound.Compare(b)
}

// shortlist finds the leaves with the least bounds after a given one.
func (s *search) shortlist(after *key, size int) []key {
	t := s.tree
	s.keys = s.keys[:0]
	var last key
	var lastSums leafSums
	balanced := s.ask.Strategy != Consolidated && s.ask.Strategy != Distributed
	for l := s.first; l < s.end; l++ {
		seats := t.seats(leaf, l, s.ask.Devices)
		if seats < s.members && (s.ask.Devices > 0 || seats == 0) {
			continue
		}
		sums := t.sums[l]
		sums.seats = seats
		if sums == lastSums && len(s.ask.Before) == 0 && !s.ask.LatencySensitive && balanced {
			last.leaf = l
		} else {
			last = s.bound(l, &sums)
			lastSums = sums
		}
		if last.compare(after) <= 0 || len(s.keys) == size && last.compare(&s.keys[size-1]) >= 0 {
			continue
		}
		if len(s.keys) < size {
			s.keys = append(s.keys, last)
		}
		i := len(s.keys) - 1
		for ; i > 0 && last.compare(&s.keys[i-1]) < 0; i-- {
			s.keys[i] = s.keys[i-1]
		}
		s.keys[i] = last
	}
	return s.keys
}

// bound finds the least that the value of a place in the leaf can be.
func (s *search) bound(l int, sums *leafSums) key {
	t, a := s.tree, s.ask
	if a.Devices == 0 {
		sums.seats = 0 // not known
	}
	m := t.merit(sums, s.members, alignment[leaf])
	k := key{merit: 1000 - m.Weighted, leaf: l, shape: s.members * s.members}
	if a.Strategy == Distributed {
		k.doubled = max(0, s.members-int(t.counts[leaf][l*t.width]))
	} else if m.Availability < 1000 {
		k.loose = 1
	}
	most := s.members // that a node could take
	if a.Devices > 0 {
		most = t.mostFree(l) / a.Devices
	}
	if a.Strategy == Consolidated {
		k.shape = (s.members + most - 1) / max(most, 1)
	}
	d := &t.domains[leaf][l]
	if a.LatencySensitive && most < s.members {
		k.nanos = d.nanos
	}
	if len(a.Before) > 0 {
		k.stray, k.away = 1, 1
		for _, n := range a.Before {
			if n >= d.lo && n < d.hi {
				k.stray, k.away = 0, 0
			}
		}
	}
	return k
}

// mostFree is the number of free devices of the leaf's node with the most.
func (t *Tree) mostFree(l int) int {
	counts := t.counts[leaf][l*t.width : (l+1)*t.width]
	for d := t.width - 1; d > 0; d-- {
		if counts[d] > 0 {
			return d
		}
	}
	return 0
}
