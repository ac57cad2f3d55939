package topology

// Leaves are searched in the order of their lower bounds. A leaf is tied if its bound equals the cost of the best
// placement so far, apart from waste and nodes. Tied leaves are searched until one of two limits is reached:
// maxFeasibleLeaves leaves could hold the job, or the searched tied leaves have maxTiedNodes nodes. Leaves that
// cannot hold the job do not count towards these limits. Otherwise the result would depend on whether the cache
// already knows these leaves.
const (
	maxFeasibleLeaves = 8
	maxTiedNodes      = 64

	// Bounds are listed in batches. The first batch has firstBatch bounds, and each later batch has nextBatch bounds.
	firstBatch = 8
	nextBatch  = 64
)

// searchLeaves searches for the best placement in a single leaf.
func (s *search) searchLeaves() {
	var b *boundCache
	if s.canUseBoundCache() {
		b = s.boundCacheFor(leaf)
		s.leafBounds = b.smallest(s.leafBounds[:0], firstBatch)
	} else {
		s.listLeafBounds(nil, firstBatch)
	}
	feasible, tied := 0, 0
	for size := firstBatch; ; size = nextBatch {
		for i := range s.leafBounds {
			order := s.compareToBest(&s.leafBounds[i])
			if order > 0 || order == 0 && (tied >= maxTiedNodes || feasible >= maxFeasibleLeaves) {
				return
			}
			l := s.leafBounds[i].domain
			if !s.tryLeaf(l) {
				if b != nil && s.ask.CacheKey != 0 && s.maxNodesIn(l) > 1 {
					b.markInfeasible(l)
				}
				continue
			}
			if feasible++; order == 0 {
				tied += s.tree.leafStats[l].nodes
			}
		}
		if len(s.leafBounds) < size {
			return
		}
		last := s.leafBounds[len(s.leafBounds)-1]
		if s.found && feasible >= maxFeasibleLeaves && s.compareToBest(&last) >= 0 {
			return // later bounds cannot be lower
		}
		if b != nil {
			s.leafBounds = b.nextSmallest(&last, nextBatch, s.leafBounds[:0])
		} else {
			s.listLeafBounds(&last, nextBatch)
		}
	}
}

// tryLeaf evaluates the best placement in leaf l, and reports whether the job fits in the leaf.
func (s *search) tryLeaf(l int) bool {
	limit := s.maxNodesIn(l)
	if s.ask.LatencySensitive && limit > 1 {
		s.tryLeafOnNodes(l, 1) // a single node has no network latency
	}
	return s.tryLeafOnNodes(l, limit)
}

// tryLeafOnNodes evaluates the best placement in leaf l, and reports whether the job fits. The argument `limit` is
// the maximum number of nodes.
func (s *search) tryLeafOnNodes(l, limit int) bool {
	s.trial = s.trial[:0]
	_, ok := s.assign(l, s.members, limit, &s.trial)
	if ok {
		sortByNode(s.trial)
		s.keepIfBetter(s.trial)
	}
	return ok
}

// maxNodesIn returns how many nodes of leaf l the job may use if it uses no
// other leaf.
func (s *search) maxNodesIn(l int) int {
	if s.requiredDepth > leaf || s.ask.MinGbps > s.tree.domains[leaf][l].gbps {
		return 1
	}
	return s.tree.maxNodesPerLeaf
}

// compareToBest compares the lower bound of a leaf with the best placement so far. compareToBest compares all parts
// of the cost except waste and nodes.
func (s *search) compareToBest(k *bound) int {
	if !s.found {
		return -1
	}
	b := &s.best
	return k.compare(&bound{
		sharedNodes: b.SharedNodes, sharedLeaves: b.SharedLeaves, latencyNanos: b.LatencyNanos, height: b.Height,
		leaves: b.Leaves, consolidatedNodes: b.ConsolidatedNodes,
		movedMembers: b.MovedMembers, outsidePreviousDomain: b.OutsidePreviousDomain, newLeaves: b.NewLeaves,
		bandwidthLoss: b.BandwidthLoss, networkNanos: b.NetworkNanos, imbalance: b.Imbalance, inexactFill: b.InexactFill, scoreLoss: b.ScoreLoss, domain: k.domain,
	})
}

// listLeafBounds lists the lowest bounds among those that are higher than the bound `last`. The argument
// `size` is the maximum number of bounds. If `last` is nil, the list starts with the lowest bound.
func (s *search) listLeafBounds(last *bound, size int) {
	s.leafBounds = s.leafBounds[:0]
	for l := s.firstLeaf; l < s.endLeaf; l++ {
		k := s.leafBound(l)
		s.leafBounds = insertBound(s.leafBounds, &k, last, size)
	}
}

// leafBound returns a lower bound on the cost of any placement in leaf l.
func (s *search) leafBound(l int) bound {
	t, a := s.tree, s.ask
	k := bound{domain: l}
	stats := t.leafStats[l]
	stats.capacity = t.capacityBound(leaf, l, a.DevicesPerMember)
	if stats.capacity < s.members && (a.DevicesPerMember > 0 || stats.capacity == 0) {
		k.infeasible = true
		return k
	}
	if a.DevicesPerMember == 0 {
		stats.capacity = 0 // unknown
	}
	m := t.weightedScore(&stats, s.members, alignment[leaf])
	k.scoreLoss, k.imbalance = 1000-m.Weighted, s.members*s.members
	k.bandwidthLoss, k.networkNanos = t.maxGbps-t.domains[leaf][l].gbps, t.domains[leaf][l].latencyNanos
	if a.Strategy == Distributed {
		k.sharedNodes = max(0, s.members-int(t.capacityTable[leaf][l*t.capacityWidth]))
		k.sharedLeaves = s.members - 1
	} else {
		k.leaves = 1
		if m.Availability < 1000 {
			k.inexactFill = 1
		}
	}
	most := s.members // upper bound on the members of one node
	if a.DevicesPerMember > 0 && (a.Strategy == Consolidated || a.LatencySensitive) {
		most = t.maxFreeDevices(l) / a.DevicesPerMember
	}
	if a.Strategy == Consolidated {
		k.consolidatedNodes, k.imbalance = (s.members+most-1)/max(most, 1), 0
	}
	if a.LatencySensitive && most < s.members {
		k.latencyNanos = t.domains[leaf][l].latencyNanos
	}
	if len(a.PreviousNodes) > 0 {
		d := &t.domains[leaf][l]
		if k.movedMembers = s.minMovedMembers(d); !t.hasPreviousNode(a, d) {
			k.outsidePreviousDomain, k.newLeaves = 1, 1
		}
	}
	return k
}

// maxFreeDevices returns the largest number of free devices on any node of leaf l.
func (t *Tree) maxFreeDevices(l int) int {
	counts := t.capacityTable[leaf][l*t.capacityWidth : (l+1)*t.capacityWidth]
	for d := t.capacityWidth - 1; d > 0; d-- {
		if counts[d] > 0 {
			return d
		}
	}
	return 0
}
