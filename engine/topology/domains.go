package topology

import "slices"

// The search of one level ends after it has searched maxFeasibleDomains domains that can hold the job. Domains with
// the lowest bounds are searched first.
const maxFeasibleDomains = 3

// searchDomainsAt searches each domain of the given depth for the best placement in several leaves.
func (s *search) searchDomainsAt(depth int) {
	feasible := 0
	if depth == spine && s.canUseBoundCache() && s.ask.MinGbps == 0 && s.ask.Strategy != Distributed {
		b := s.boundCacheFor(spine)
		s.domainBounds = b.smallest(s.domainBounds[:0], firstBatch)
		for size := firstBatch; ; size = nextBatch {
			for i := range s.domainBounds {
				if !s.tryDomain(depth, &s.domainBounds[i], b, &feasible) {
					return
				}
			}
			if len(s.domainBounds) < size || s.found && feasible == maxFeasibleDomains {
				return
			}
			last := s.domainBounds[len(s.domainBounds)-1]
			s.domainBounds = b.nextSmallest(&last, nextBatch, s.domainBounds[:0])
		}
	}
	s.domainBounds = s.domainBounds[:0]
	for i := range s.tree.domains[depth] {
		if k := s.domainBound(depth, i); !k.infeasible {
			s.domainBounds = append(s.domainBounds, k)
		}
	}
	for s.domainBounds.heapify(); len(s.domainBounds) > 0; s.domainBounds.pop() {
		if !s.tryDomain(depth, &s.domainBounds[0], nil, &feasible) {
			return
		}
	}
}

// canUseBoundCache reports whether cached bounds apply. Cached bounds apply under two conditions: the job may use
// every leaf, and its bounds depend only on its size.
func (s *search) canUseBoundCache() bool {
	return s.endLeaf-s.firstLeaf == len(s.candidates) && len(s.ask.PreviousNodes) == 0 && !s.ask.LatencySensitive
}

// tryDomain searches one domain. If the domain can hold the job, tryDomain increments the counter `feasible`.
// If no further domain has to be searched, tryDomain returns false without a search.
func (s *search) tryDomain(depth int, k *bound, b *boundCache, feasible *int) bool {
	if s.found && (*feasible == maxFeasibleDomains || s.isWorseThanBest(k)) {
		return false
	}
	s.leafSets.reset(s, &s.tree.domains[depth][k.domain], depth)
	holds := false
	if s.ask.Strategy == Distributed {
		holds = s.leafSets.searchMost(s)
	} else {
		holds = s.leafSets.searchFewest(s)
	}
	if holds {
		*feasible++
	} else if b != nil && s.ask.CacheKey != 0 {
		b.markInfeasible(k.domain)
	}
	return true
}

// isWorseThanBest examines the placements that have this bound or a higher one. It
// reports whether all of them are worse than the best placement so far.
func (s *search) isWorseThanBest(k *bound) bool {
	b := &s.best
	return k.compare(&bound{
		sharedNodes: b.SharedNodes, sharedLeaves: b.SharedLeaves, latencyNanos: b.LatencyNanos, height: b.Height, leaves: b.Leaves,
		consolidatedNodes: k.consolidatedNodes, movedMembers: k.movedMembers, outsidePreviousDomain: k.outsidePreviousDomain,
		bandwidthLoss: k.bandwidthLoss, networkNanos: k.networkNanos, capacity: k.capacity, domain: k.domain,
	}) > 0
}

// domainBound considers placements in several leaves of the i-th domain at a depth. It returns a lower bound on
// their cost.
func (s *search) domainBound(depth, i int) bound {
	t, a := s.tree, s.ask
	d := &t.domains[depth][i]
	k := bound{domain: i, height: leaf - depth, capacity: t.capacityBound(depth, i, a.DevicesPerMember)}
	inner := &t.domains[depth+1][t.ancestors[d.firstLeaf][depth+1]] // if a narrower domain covers all of it, that one is searched at its own depth
	k.infeasible = d.firstLeaf < s.firstLeaf || d.endLeaf > s.endLeaf || inner.endLeaf == d.endLeaf || a.MinGbps > d.gbps ||
		k.capacity == 0 || a.DevicesPerMember > 0 && k.capacity < s.members
	if k.infeasible {
		return k
	}
	if a.LatencySensitive {
		k.latencyNanos = d.latencyNanos
	}
	k.bandwidthLoss, k.networkNanos = t.maxGbps-d.gbps, d.latencyNanos
	if len(a.PreviousNodes) > 0 {
		if k.movedMembers = s.minMovedMembers(d); !t.hasPreviousNode(a, d) {
			k.outsidePreviousDomain = 1
		}
	}
	if a.Strategy == Distributed {
		k.sharedNodes = max(0, s.members-t.capacityBound(depth, i, 0))
		k.sharedLeaves = max(0, s.members-(d.endLeaf-d.firstLeaf))
		return k
	}
	k.leaves = s.minLeavesBound(d, depth)
	k.infeasible = k.leaves == 0
	return k
}

// minMovedMembers returns a lower bound on the number of members that must move if all members are placed in domain
// d.
func (s *search) minMovedMembers(d *domain) int {
	left := s.members
	for _, n := range s.ask.PreviousNodes {
		if n >= d.firstNode && n < d.endNode {
			left -= s.keepableMembers(n)
		}
	}
	return max(left, 0)
}

// keepableMembers considers a node n that the last attempt used. It returns an upper bound on the number of
// members that can stay on this node. The bound depends on the node's free devices.
func (s *search) keepableMembers(n int) int {
	switch free := s.tree.free[n]; {
	case free < 0:
		return 0
	case s.ask.DevicesPerMember == 0:
		return s.members
	default:
		return free / s.ask.DevicesPerMember
	}
}

// hasPreviousNode reports whether domain d contains a node of the last attempt.
func (t *Tree) hasPreviousNode(a *Request, d *domain) bool {
	return slices.ContainsFunc(a.PreviousNodes, func(n int) bool { return n >= d.firstNode && n < d.endNode })
}

// minLeavesBound returns a lower bound on the number of leaves that the job needs in a domain. It returns 0 if
// all leaves together are not enough.
func (s *search) minLeavesBound(d *domain, depth int) int {
	s.capacityTally = append(s.capacityTally[:0], make([]int, s.members+1)...)
	for l := d.firstLeaf; l < d.endLeaf; l++ {
		s.capacityTally[s.leafCapacityBound(l, depth)]++
	}
	left, used := s.members, 0
	for room := s.members; room > 0; room-- {
		n := min(s.capacityTally[room], (left+room-1)/room)
		used += n
		if left -= n * room; left <= 0 {
			return used
		}
	}
	return 0
}

// leafCapacityBound returns an upper bound on the number of members that fit in leaf l. It assumes that the
// placement uses several leaves of a domain at the given depth. The bound never exceeds the number of members of the
// job.
func (s *search) leafCapacityBound(l, depth int) int {
	t, a := s.tree, s.ask
	if a.MinGbps > 0 && !t.hasBandwidth(a.MinGbps, l, depth) {
		return 0
	}
	seats := t.capacityBound(leaf, l, a.DevicesPerMember)
	if seats == 0 {
		return 0
	}
	most := min(s.members, s.maxMembersPerLeaf)
	if a.DevicesPerMember == 0 {
		return most
	}
	if t.maxNodesPerLeaf < seats {
		seats = min(seats, t.maxNodesPerLeaf*(t.maxFreeDevices(l)/a.DevicesPerMember))
	}
	return min(seats, most)
}

// boundHeap is a binary heap of bounds with the lowest bound first.
type boundHeap []bound

func (r boundHeap) heapify() {
	for i := len(r)/2 - 1; i >= 0; i-- {
		r.siftDown(i)
	}
}

func (r *boundHeap) pop() {
	last := len(*r) - 1
	(*r)[0] = (*r)[last]
	*r = (*r)[:last]
	r.siftDown(0)
}

func (r boundHeap) siftDown(i int) {
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
