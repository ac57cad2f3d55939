package queue

// Promised is how many thousandths of devices of a model the leaf may still have
// of what quotas promise it without borrowing from another leaf: by those on its
// way that are not on the other's too. Where the two meet, and above, what one
// takes from the other changes nothing. Without another leaf it is by the nearest
// quota alone. It is false where none promises it anything.
func (l *Leaf[J]) Promised(model int, from *Leaf[J]) (room int64, ok bool) {
	t := l.tree
	t.rebuild()
	room = unbounded
	for _, p := range t.modelPatterns[model] {
		slack := int64(0) // what may grow below without being seen above
		for n := l.node; n != nil && (from == nil || !from.isUnder(n)); n = n.parent {
			if len(n.quotas) == 0 || !n.quotas[p].isSet {
				continue
			}
			a := &n.quotas[p]
			ok = true
			room = min(room, slack+a.nominal-a.used)
			slack += max(a.guaranteed-a.used, 0)
			if from == nil {
				break
			}
		}
	}
	return max(room, 0), ok
}

// Debt is what some tenant or queue holds beyond what it was promised. Two are
// equal when they are of the same account.
type Debt struct {
	of   *quotaAccount
	Over int64 // thousandths of devices
}

// Debt is what the leaf's side has borrowed of a model, as another leaf sees it:
// by the highest quota on its own way that is not on the other's too, because
// what is below that is nobody else's business. Only quotas for what the other
// is promised count. It is false where nothing is borrowed.
func (l *Leaf[J]) Debt(lender *Leaf[J], model int) (Debt, bool) {
	t := l.tree
	t.rebuild()
	var most Debt
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
		if top != nil && top.used-top.nominal > most.Over {
			most = Debt{top, top.used - top.nominal}
		}
	}
	return most, most.Over > 0
}

// hasQuota says whether a quota for the pattern is above the leaf.
func (l *Leaf[J]) hasQuota(pattern int) bool {
	for n := l.node; n != nil; n = n.parent {
		if len(n.quotas) > 0 && n.quotas[pattern].isSet {
			return true
		}
	}
	return false
}

// isUnder says whether a node is the leaf's own, or above it.
func (l *Leaf[J]) isUnder(up *node[J]) bool {
	for n := l.node; n != nil; n = n.parent {
		if n == up {
			return true
		}
	}
	return false
}
