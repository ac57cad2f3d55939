package queue

// NominalHeadroom returns how many more GPUs of a model the leaf queue may have within its
// nominal quotas, without borrowing from another leaf queue, in thousandths. Only
// quotas above it that are not above the other one count: from their common
// ancestor up, what one takes from the other changes nothing. Without another leaf
// queue, only the nearest quota counts. It is false when no quota covers the model.
func (l *LeafQueue[J]) NominalHeadroom(model int, from *LeafQueue[J]) (headroom int64, ok bool) {
	t := l.tree
	t.rebuild()
	headroom = unbounded
	for _, p := range t.modelPatterns[model] {
		slack := int64(0) // unused guarantees below: they can be used without a charge above
		for n := l.node; n != nil && (from == nil || !from.isUnder(n)); n = n.parent {
			if len(n.quotas) == 0 || !n.quotas[p].isSet {
				continue
			}
			a := &n.quotas[p]
			ok = true
			headroom = min(headroom, slack+a.nominal-a.used)
			slack += max(a.guaranteed-a.used, 0)
			if from == nil {
				break
			}
		}
	}
	return max(headroom, 0), ok
}

// Borrowing is what a tenant or queue uses beyond its nominal quota. Two values with the
// same amount are equal when they are of the same quota.
type Borrowing struct {
	of    *quotaAccount
	Milli int64 // thousandths of devices
}

// BorrowedFrom returns what the leaf queue has borrowed of a model from the point of view
// of a lender. The highest quota above the leaf queue that is not above the lender
// decides, because what happens below it does not concern the lender. Only patterns
// for which the lender has a quota count. It is false when nothing is borrowed.
func (l *LeafQueue[J]) BorrowedFrom(lender *LeafQueue[J], model int) (Borrowing, bool) {
	t := l.tree
	t.rebuild()
	var most Borrowing
	for _, p := range t.modelPatterns[model] {
		if !lender.hasQuota(p) {
			continue
		}
		var top *quotaAccount
		for n := l.node; n != nil && !lender.isUnder(n); n = n.parent {
			if len(n.quotas) > 0 && n.quotas[p].isSet {
				top = &n.quotas[p]
			}
		}
		if top != nil && top.used-top.nominal > most.Milli {
			most = Borrowing{top, top.used - top.nominal}
		}
	}
	return most, most.Milli > 0
}

// hasQuota reports whether a quota for a pattern is above the leaf queue.
func (l *LeafQueue[J]) hasQuota(pattern int) bool {
	for n := l.node; n != nil; n = n.parent {
		if len(n.quotas) > 0 && n.quotas[pattern].isSet {
			return true
		}
	}
	return false
}

// isUnder reports whether a node is the leaf queue's own or above it.
func (l *LeafQueue[J]) isUnder(up *node[J]) bool {
	for n := l.node; n != nil; n = n.parent {
		if n == up {
			return true
		}
	}
	return false
}
