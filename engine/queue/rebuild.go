package queue

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares"
)

// rebuild derives the parents, weights, limits, quotas and sums of all nodes from
// the records and the leaf queues, when a record changed. The state of leaf queues
// is never derived, so the result does not depend on when it is called or on the
// order in which records arrived.
func (t *Tree[J]) rebuild() {
	if !t.stale {
		return
	}
	t.stale, t.adaptive = false, false
	t.root.children = t.root.children[:0]
	var leaves []*LeafQueue[J]
	for _, entry := range t.tenants { // order-free: children are sorted below, and sums are exact
		n := entry.node
		n.children, n.weight, n.limits, n.hasLimits = n.children[:0], 1000, ares.Limits{}, false
		n.minWeight, n.maxWeight = 0, 0
		if entry.record != nil {
			if entry.record.WeightMax > 0 {
				n.minWeight, n.maxWeight, t.adaptive = weightMilli(entry.record.WeightMin), weightMilli(entry.record.WeightMax), true
			}
			n.weight, n.limits, n.hasLimits = weightMilli(entry.record.Weight), entry.record.Limits, entry.record.Limits != ares.NoLimits()
		}
		t.root.children = append(t.root.children, n)
		for _, q := range entry.queues { // order-free: as above
			q.node.children, q.node.weight, q.node.limits, q.node.hasLimits = q.node.children[:0], 1000, ares.Limits{}, false
			if q.record != nil {
				q.node.weight, q.node.limits, q.node.hasLimits = weightMilli(q.record.Weight), q.record.Limits, q.record.Limits != ares.NoLimits()
			}
		}
		for _, q := range entry.queues { // order-free: as above
			q.node.parent = entry.parentOf(q)
			q.node.parent.children = append(q.node.parent.children, q.node)
			q.node.children = append(q.node.children, q.leaf.node)
			leaves = append(leaves, q.leaf)
		}
	}
	t.root.sortChildren()
	t.rebuildQuotas(leaves)
	for _, leaf := range leaves {
		for n := leaf.node.parent; n != nil; n = n.parent {
			n.waiting += leaf.node.waiting
			n.allocated = n.allocated.Add(leaf.node.allocated, 1)
			if n.hasLimits {
				n.limitUse = n.limitUse.Add(leaf.node.limitUse)
			}
			n.history.merge(&leaf.node.history)
		}
	}
}

// sortChildren sorts the children of every node at and below n, and clears the
// sums of all nodes except leaf queues.
func (n *node[J]) sortChildren() {
	if n.leaf != nil {
		return
	}
	n.waiting, n.allocated, n.limitUse, n.history = 0, Resources{}, ares.Use{}, usageHistory{}
	slices.SortFunc(n.children, func(a, b *node[J]) int { return cmp.Compare(a.name, b.name) })
	for i, child := range n.children {
		child.index = i
		child.sortChildren()
	}
}

// parentOf returns the parent node of a queue: the queue that its record names, or
// the tenant. When the parents of queues form a cycle, all queues of the cycle
// become children of the tenant.
func (of *tenantEntry[J]) parentOf(q *queueEntry[J]) *node[J] {
	if q.record == nil || q.record.Parent == "" {
		return of.node
	}
	up, ok := of.queues[q.record.Parent]
	if !ok {
		return of.node
	}
	at := up
	for range len(of.queues) {
		if at == q {
			return of.node // q is part of a cycle
		}
		if at.record == nil {
			break
		}
		next, ok := of.queues[at.record.Parent]
		if !ok {
			break
		}
		at = next
	}
	return up.node
}
