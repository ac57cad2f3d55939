package topology

// Leaves are looked at closely in the order of their bounds. Those that can only
// be as good as the best, each but for its waste, are looked at while fewer than
// maxFits held the job and those that tied have fewer than maxTied nodes. What
// does not hold the job counts for neither: whether it is remembered must not
// change the choice.
const (
	maxFits = 8
	maxTied = 64

	shortList = 8 // listed at first
	longList  = 64
)

// leaves looks for the best place in a single leaf.
func (s *search) leaves() {
	var b *board
	if s.everywhere() {
		b = s.boardOf(leaf)
		s.keys = b.first(s.keys[:0], shortList)
	} else {
		s.listLeaves(nil, shortList)
	}
	fits, tied := 0, 0
	for size := shortList; ; size = longList {
		for i := range s.keys {
			against := s.against(&s.keys[i])
			if against > 0 || against == 0 && (tied >= maxTied || fits >= maxFits) {
				return
			}
			l := s.keys[i].domain
			if !s.oneLeaf(l) {
				if b != nil && s.ask.Kind != 0 && s.nodeLimit(l) > 1 {
					b.learn(l)
				}
				continue
			}
			if fits++; against == 0 {
				tied += s.tree.sums[l].nodes
			}
		}
		if len(s.keys) < size {
			return
		}
		last := s.keys[len(s.keys)-1]
		if s.found && fits >= maxFits && s.against(&last) >= 0 {
			return // the next are no less
		}
		if b != nil {
			s.keys = b.after(&last, longList, s.keys[:0])
		} else {
			s.listLeaves(&last, longList)
		}
	}
}

// oneLeaf considers the best place in a leaf, and says whether there is any.
func (s *search) oneLeaf(l int) bool {
	limit := s.nodeLimit(l)
	if s.ask.LatencySensitive && limit > 1 {
		s.inLeaf(l, 1) // no network is nearer than any
	}
	return s.inLeaf(l, limit)
}

func (s *search) inLeaf(l, limit int) bool {
	s.trial = s.trial[:0]
	_, ok := s.sit(l, s.members, limit, &s.trial)
	if ok {
		order(s.trial)
		s.consider(s.trial)
	}
	return ok
}

// nodeLimit is on how many nodes of a leaf the job may be when it is in that
// leaf alone.
func (s *search) nodeLimit(l int) int {
	if s.required > leaf || s.ask.Gbps > s.tree.domains[leaf][l].gbps {
		return 1
	}
	return s.tree.maxNodes
}

// against compares the bound of a leaf with the best so far, less their ties.
func (s *search) against(k *key) int {
	if !s.found {
		return -1
	}
	b := &s.best
	return k.compare(&key{
		doubled: b.Doubled, crowded: b.Crowded, nanos: b.Nanos, wide: b.Wide, leaves: b.Leaves, spread: b.Spread,
		moved: b.Moved, stray: b.Stray, away: b.Away, shape: b.Shape, loose: b.Loose, merit: b.Merit, domain: k.domain,
	})
}

// listLeaves lists the leaves with the least bounds after a given one.
func (s *search) listLeaves(last *key, size int) {
	s.keys = s.keys[:0]
	for l := s.first; l < s.end; l++ {
		k := s.bound(l)
		s.keys = enlist(s.keys, &k, last, size)
	}
}

// bound finds the least that the value of a place in the leaf can be.
func (s *search) bound(l int) key {
	t, a := s.tree, s.ask
	k := key{domain: l}
	sums := t.sums[l]
	sums.seats = t.seats(leaf, l, a.Devices)
	if sums.seats < s.members && (a.Devices > 0 || sums.seats == 0) {
		k.never = true
		return k
	}
	if a.Devices == 0 {
		sums.seats = 0 // not known
	}
	m := t.merit(&sums, s.members, alignment[leaf])
	k.merit, k.shape = 1000-m.Weighted, s.members*s.members
	if a.Strategy == Distributed {
		k.doubled = max(0, s.members-int(t.counts[leaf][l*t.width]))
		k.crowded = s.members - 1
	} else {
		k.leaves = 1
		if m.Availability < 1000 {
			k.loose = 1
		}
	}
	most := s.members // that a node could take
	if a.Devices > 0 && (a.Strategy == Consolidated || a.LatencySensitive) {
		most = t.mostFree(l) / a.Devices
	}
	if a.Strategy == Consolidated {
		k.spread, k.shape = (s.members+most-1)/max(most, 1), 0
	}
	if a.LatencySensitive && most < s.members {
		k.nanos = t.domains[leaf][l].nanos
	}
	if len(a.Before) > 0 {
		d := &t.domains[leaf][l]
		if k.moved = s.leastMoved(d); !t.held(a, d) {
			k.stray, k.away = 1, 1
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
