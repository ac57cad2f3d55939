package topology

import "cmp"

// bound is a lower bound on the cost of placements in one domain, with its
// parts in the order of PlacementCost. Parts that are equal for all compared domains
// are left out.
type bound struct {
	infeasible                                      bool // the domain cannot hold the job
	sharedNodes, sharedLeaves, latencyNanos, height int
	leaves, consolidatedNodes                       int
	movedMembers, outsidePreviousDomain, newLeaves  int // for a job that has been placed before
	imbalance, inexactFill, scoreLoss               int
	capacity                                        int // of a domain with several leaves: the smallest that suffices comes first
	domain                                          int // index of the domain
}

// compare orders bounds, the lowest first. Infeasible domains come last.
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

// insertBound inserts k into a sorted list of at most size bounds, unless it is
// infeasible or does not come after last. A nil last excludes nothing.
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
