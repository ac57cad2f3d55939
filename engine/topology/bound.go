package topology

import "cmp"

// A `bound` is a lower bound on the cost of any placement in one domain. The parts of a bound are in the same order
// as in PlacementCost. The bound leaves out parts of the cost that are equal for all compared domains.
type bound struct {
	infeasible                                      bool // the domain cannot hold the job
	sharedNodes, sharedLeaves, latencyNanos, height int
	leaves, consolidatedNodes                       int
	movedMembers, outsidePreviousDomain, newLeaves  int // for a job that has been placed before
	bandwidthLoss, networkNanos                     int
	imbalance, inexactFill, scoreLoss               int
	capacity                                        int // for a domain with several leaves: the smallest sufficient one comes first
	domain                                          int // index of the domain
}

// The method `compare` orders bounds, the lowest first. Infeasible domains are ordered last.
func (k *bound) compare(o *bound) int {
	switch {
	case k.infeasible != o.infeasible:
		if k.infeasible {
			return 1
		}
		return -1
	case k.sharedNodes != o.sharedNodes:
		return cmp.Compare(k.sharedNodes, o.sharedNodes)
	case k.sharedLeaves != o.sharedLeaves:
		return cmp.Compare(k.sharedLeaves, o.sharedLeaves)
	case k.latencyNanos != o.latencyNanos:
		return cmp.Compare(k.latencyNanos, o.latencyNanos)
	case k.height != o.height:
		return cmp.Compare(k.height, o.height)
	case k.leaves != o.leaves:
		return cmp.Compare(k.leaves, o.leaves)
	case k.consolidatedNodes != o.consolidatedNodes:
		return cmp.Compare(k.consolidatedNodes, o.consolidatedNodes)
	case k.movedMembers != o.movedMembers:
		return cmp.Compare(k.movedMembers, o.movedMembers)
	case k.outsidePreviousDomain != o.outsidePreviousDomain:
		return cmp.Compare(k.outsidePreviousDomain, o.outsidePreviousDomain)
	case k.newLeaves != o.newLeaves:
		return cmp.Compare(k.newLeaves, o.newLeaves)
	case k.bandwidthLoss != o.bandwidthLoss:
		return cmp.Compare(k.bandwidthLoss, o.bandwidthLoss)
	case k.networkNanos != o.networkNanos:
		return cmp.Compare(k.networkNanos, o.networkNanos)
	case k.imbalance != o.imbalance:
		return cmp.Compare(k.imbalance, o.imbalance)
	case k.inexactFill != o.inexactFill:
		return cmp.Compare(k.inexactFill, o.inexactFill)
	case k.scoreLoss != o.scoreLoss:
		return cmp.Compare(k.scoreLoss, o.scoreLoss)
	case k.capacity != o.capacity:
		return cmp.Compare(k.capacity, o.capacity)
	}
	return cmp.Compare(k.domain, o.domain)
}

// insertBound inserts the bound k into a sorted list. The argument `size` is the maximum length of the
// list. insertBound skips k if k is infeasible. It also skips k if k is not higher than the bound
// `last`. If `last` is nil, insertBound skips only infeasible bounds.
func insertBound(list []bound, k, last *bound, size int) []bound {
	if k.infeasible || last != nil && k.compare(last) <= 0 || len(list) == size && k.compare(&list[size-1]) >= 0 {
		return list
	}
	if len(list) < size {
		list = append(list, *k)
	}
	i := len(list) - 1
	for ; i > 0 && k.compare(&list[i-1]) < 0; i-- {
		list[i] = list[i-1]
	}
	list[i] = *k
	return list
}
