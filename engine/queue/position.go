package queue

import "time"

// Position returns the position of an item in its leaf queue, counted from 1. It also returns the number of
// items that wait there. Both numbers are 0 if the item does not wait.
func (t *Tree[J]) Position(it *Item[J]) (position, total int) {
	if it.queue == nil {
		return 0, 0
	}
	s := t.slotOf(it)
	position = 1
	for _, q := range it.queue.leaf.shapeQueues {
		position += q.countBefore(&s)
	}
	return position, it.queue.leaf.node.waiting
}

// CountAhead assumes that shares do not change during a round. It counts the items that the round would offer
// before the given item. CountAhead counts items of the item's own tenant and items of other tenants separately.
// If items of the item's own tenant are ahead, CountAhead also returns the tenant's item that a round would
// offer first. Allocations during a round change shares, so the count is an estimate and not a guarantee.
func (t *Tree[J]) CountAhead(it *Item[J], now time.Time) (own int, first *Item[J], others int) {
	if it.queue == nil {
		return 0, nil, 0
	}
	t.rebuild()
	r := shareReader[J]{tree: t, bounds: t.cfg.classBoundsAt(now)}
	if t.cfg.HalfLife > 0 {
		r.moment = t.cfg.momentOf(now)
		r.adjustment = t.weightAdjustment(r.moment)
	}
	mine := it.queue.leaf
	class := r.bounds.classOfKey(it.orderKey)
	for n := mine.node; n.parent != nil; n = n.parent {
		share := r.shareOf(n)
		for _, child := range n.parent.children {
			if child == n || child.waiting == 0 {
				continue
			}
			lowest := class + 1 // only items of higher classes come first
			if s := r.shareOf(child); s < share || s == share && child.index < n.index {
				lowest = class
			}
			if lowest == classCount {
				continue
			}
			if count := child.countUpTo(r.bounds.lastKey[lowest], r.bounds.lastPrefix[lowest]); child.tenant == mine.node.tenant {
				own += count
			} else {
				others += count
			}
		}
	}
	s := t.slotOf(it)
	for _, q := range mine.shapeQueues {
		own += q.countBefore(&s)
	}
	if own > 0 {
		first = r.firstItem(t.tenants[mine.node.tenant].node)
	}
	return own, first, others
}

// countUpTo returns how many items at and below the node have an order key of lastKey or less. The argument
// `lastPrefix` is the prefix of lastKey.
func (n *node[J]) countUpTo(lastKey, lastPrefix uint64) int {
	count := 0
	if n.leaf != nil {
		for _, q := range n.leaf.shapeQueues {
			count += q.countUpTo(lastKey, lastPrefix)
		}
		return count
	}
	for _, child := range n.children {
		if child.waiting > 0 {
			count += child.countUpTo(lastKey, lastPrefix)
		}
	}
	return count
}

// Of all items at and below a node, firstItem returns the one that a round would offer first.
func (r *shareReader[J]) firstItem(n *node[J]) *Item[J] {
	var best *Item[J]
	if n.leaf != nil {
		for i := range n.leaf.heads {
			if it := n.leaf.heads[i].item; best == nil || it.before(best) {
				best = it
			}
		}
		return best
	}
	var class int
	var share uint64
	for _, child := range n.children { // sorted by name, so the first of equals wins
		if child.waiting == 0 {
			continue
		}
		it := r.firstItem(child)
		c, s := r.bounds.classOfKey(it.orderKey), r.shareOf(child)
		if best == nil || c > class || c == class && s < share {
			best, class, share = it, c, s
		}
	}
	return best
}
