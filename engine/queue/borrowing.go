package queue

// NominalHeadroom returns how many more GPUs of a model the leaf queue may use without borrowing, that is within
// its nominal quotas. The number of GPUs is in thousandths. If `from` is nil, only the lowest quota above the leaf
// queue counts. If `from` is a leaf queue, quotas that apply to both leaf queues are ignored. Moving GPUs from one
// leaf queue to the other does not change the usage of these quotas. NominalHeadroom returns false if no quota is
// set for the model.
func (l *LeafQueue[J]) NominalHeadroom(model int, from *LeafQueue[J]) (headroom int64, ok bool) {
	t := l.tree
	t.rebuild()
	headroom = unbounded
	for _, p := range t.modelPatterns[model] {
		slack := int64(0) // unused guarantees below, which can be used without a charge above
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

// Borrowing is the amount that a tenant or queue uses beyond its nominal quota. Two Borrowing values are equal if
// they have the same amount and belong to the same quota.
type Borrowing struct {
	of    *quotaAccount
	Milli int64 // thousandths of devices
}

// BorrowedFrom returns the amount of a device model that the leaf queue has borrowed from a lender. BorrowedFrom
// considers only one quota: the highest quota that applies to the leaf queue but not to the lender. Borrowing at
// lower quotas does not affect the lender. Model patterns for which the lender has no quota are ignored.
// BorrowedFrom returns false if nothing is borrowed.
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

// AppendBorrowed appends the amount borrowed at each quota that applies to the leaf queue, in thousandths of devices.
// The order of the amounts is the same until a quota changes.
func (l *LeafQueue[J]) AppendBorrowed(to []int64) []int64 {
	l.tree.rebuild()
	for n := l.node; n != nil; n = n.parent {
		for p := range n.quotas {
			to = append(to, max(n.quotas[p].used-n.quotas[p].nominal, 0))
		}
	}
	return to
}

// hasQuota reports whether any quota for a model pattern applies to the leaf queue.
func (l *LeafQueue[J]) hasQuota(pattern int) bool {
	for n := l.node; n != nil; n = n.parent {
		if len(n.quotas) > 0 && n.quotas[pattern].isSet {
			return true
		}
	}
	return false
}

// isUnder reports whether the leaf queue belongs to the given node or to a descendant of that node.
func (l *LeafQueue[J]) isUnder(up *node[J]) bool {
	for n := l.node; n != nil; n = n.parent {
		if n == up {
			return true
		}
	}
	return false
}
