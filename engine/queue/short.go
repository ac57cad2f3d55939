package queue

import (
	ares "github.com/ares-scheduler/ares"
)

// Short is a bound that leaves a leaf too little, and by how much.
type Short struct {
	Tenant, Queue string // whose bound it is; Queue is "" for the tenant's own
	What          string // of a limit its name, of a quota its model as its record spells it
	By            int64  // of a quota in thousandths of a GPU
}

// Shortfalls is every limit at or above the leaf that a use would pass, beside
// what is held, nearest first.
func (l *Leaf[J]) Shortfalls(u ares.Use) []Short {
	l.tree.rebuild()
	var out []Short
	for n := l.node; n != nil; n = n.parent {
		if !n.hasLimits {
			continue
		}
		for i, r := range n.limits.Respects(n.limitUse.Add(u)) {
			if r.Used > r.Limit {
				out = append(out, Short{n.tenant, n.queue, ares.LimitNames[i], int64(r.Used - r.Limit)})
			}
		}
	}
	return out
}

// QuotaShortfalls is by how much each quota at or above the leaf is too small for
// so much more of a model, nearest first. What lacks in the pool is said of the
// topmost quota: the pool is the sum of these.
func (l *Leaf[J]) QuotaShortfalls(model int, milli int64) []Short {
	t := l.tree
	t.rebuild()
	var out []Short
	for _, p := range t.modelPatterns[model] {
		slack := int64(0)
		var top *node[J]
		for n := l.node; n != nil; n = n.parent {
			if len(n.quotas) == 0 || !n.quotas[p].isSet {
				continue
			}
			top = n
			a := &n.quotas[p]
			if room := slack + a.max - a.used; room < milli {
				out = append(out, Short{n.tenant, n.queue, t.patterns[p], milli - room})
			}
			slack += max(a.guaranteed-a.used, 0)
		}
		if top == nil {
			continue
		}
		pool := &t.pools[p]
		if room := slack + pool.nominal - pool.used; room < milli {
			last := len(out) - 1
			if last >= 0 && out[last].Tenant == top.tenant && out[last].Queue == top.queue && out[last].What == t.patterns[p] {
				out[last].By = max(out[last].By, milli-room)
			} else {
				out = append(out, Short{top.tenant, top.queue, t.patterns[p], milli - room})
			}
		}
	}
	return out
}

// QueueRecord is the record of a queue, nil when nobody declared it.
func (t *Tree[J]) QueueRecord(tenant, name string) *ares.Queue {
	if of := t.tenants[tenant]; of != nil && of.queues[name] != nil {
		return of.queues[name].record
	}
	return nil
}
