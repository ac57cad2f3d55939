package queue

import (
	"slices"

	"github.com/ares-scheduler/ares"
)

// IsUnrestricted reports whether the leaf queue has no limits and no quotas that could apply to it.
func (l *LeafQueue[J]) IsUnrestricted() bool {
	l.tree.rebuild()
	for n := l.node; n != nil; n = n.parent {
		if n.hasLimits {
			return false
		}
	}
	return len(l.tree.patterns) == 0
}

// CheckAdmission returns every limit and quota that forbids adding an allocation to the leaf queue. Limits come
// first, in the order from the leaf queue up to the root. The result is empty if the allocation is allowed.
func (l *LeafQueue[J]) CheckAdmission(g Allocation) []Bound {
	l.tree.rebuild()
	var out []Bound
	for n := l.node; n != nil; n = n.parent {
		if !n.hasLimits {
			continue
		}
		for i, r := range n.limits.Respects(n.limitUse.Add(g.ForLimits)) {
			if r.Used > r.Limit {
				before := n.limits.Respects(n.limitUse)[i].Used
				out = append(out, Bound{
					Tenant: n.tenant, Queue: n.queue, Kind: LimitBound, Resource: r.What,
					Used: int64(before), Limit: int64(r.Limit), Requested: int64(r.Used - before),
				})
			}
		}
	}
	for p := range l.tree.patterns {
		asked := int64(0)
		for _, part := range g.ForQuotas {
			if slices.Contains(l.tree.modelPatterns[part.Model], p) {
				asked += part.Milli
			}
		}
		if asked == 0 {
			continue
		}
		if r, b := l.patternHeadroom(p); asked > r {
			b.Requested = asked
			out = append(out, b)
		}
	}
	return out
}

// LimitShortfalls returns every limit that applies to the leaf queue and is too small for the additional usage.
// The order is from the leaf queue up to the root.
func (l *LeafQueue[J]) LimitShortfalls(u ares.Use) []Shortfall {
	l.tree.rebuild()
	var out []Shortfall
	for n := l.node; n != nil; n = n.parent {
		if !n.hasLimits {
			continue
		}
		for i, r := range n.limits.Respects(n.limitUse.Add(u)) {
			if r.Used > r.Limit {
				out = append(out, Shortfall{n.tenant, n.queue, ares.LimitNames[i], int64(r.Used - r.Limit)})
			}
		}
	}
	return out
}

// QuotaShortfalls returns every quota that applies to the leaf queue and has too little left for more GPUs of a
// model. For each model pattern, the order is from the leaf queue up to the root. The pool of the cluster is the
// sum of the topmost quotas. If the pool is too small, the topmost quota above the leaf queue is returned.
func (l *LeafQueue[J]) QuotaShortfalls(model int, milli int64) []Shortfall {
	t := l.tree
	t.rebuild()
	var out []Shortfall
	for _, p := range t.modelPatterns[model] {
		slack := int64(0)
		var top *node[J]
		for n := l.node; n != nil; n = n.parent {
			if len(n.quotas) == 0 || !n.quotas[p].isSet {
				continue
			}
			top = n
			a := &n.quotas[p]
			if headroom := slack + a.max - a.used; headroom < milli {
				out = append(out, Shortfall{n.tenant, n.queue, t.patterns[p], milli - headroom})
			}
			slack += max(a.guaranteed-a.used, 0)
		}
		if top == nil {
			continue
		}
		pool := &t.pools[p]
		if headroom := slack + pool.nominal - pool.used; headroom < milli {
			last := len(out) - 1
			if last >= 0 && out[last].Tenant == top.tenant && out[last].Queue == top.queue && out[last].Resource == t.patterns[p] {
				out[last].By = max(out[last].By, milli-headroom)
			} else {
				out = append(out, Shortfall{top.tenant, top.queue, t.patterns[p], milli - headroom})
			}
		}
	}
	return out
}
