package queue

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Rank is the place of an item in its leaf, from 1, and how many wait there. It
// is 0 for an item that does not wait.
func (t *Tree[J]) Rank(it *Item[J]) (rank, of int) {
	if it.queue == nil {
		return 0, 0
	}
	s := t.slotOf(it)
	rank = 1
	for _, l := range it.queue.leaf.shapeQueues {
		rank += l.countBefore(&s)
	}
	return rank, it.queue.leaf.node.waiting
}

// Aged is the priority of an item at now.
func (t *Tree[J]) Aged(it *Item[J], now time.Time) int {
	return t.cfg.Aged(it.Priority, it.Accepted, now)
}

// Class is the class of an item at now.
func (t *Tree[J]) Class(it *Item[J], now time.Time) ares.Class { return ares.ClassOf(t.Aged(it, now)) }

// Before counts the items that a pass at now would offer before one, as shares
// are at its beginning: those of its tenant with the first of them, and those of
// others. What is taken in between moves shares, so it is where the item
// stands, not a promise.
func (t *Tree[J]) Before(it *Item[J], now time.Time) (own int, first *Item[J], others int) {
	if it.queue == nil {
		return 0, nil, 0
	}
	t.rebuild()
	w := shareReader[J]{tree: t, bounds: t.cfg.classBoundsAt(now)}
	if t.cfg.HalfLife > 0 {
		w.moment = t.cfg.momentOf(now)
		w.adjustment = t.weightAdjustment(w.moment)
	}
	mine := it.queue.leaf
	class := w.bounds.classOfKey(it.orderKey)
	for n := mine.node; n.parent != nil; n = n.parent {
		share := w.shareOf(n)
		for _, k := range n.parent.children {
			if k == n || k.waiting == 0 {
				continue
			}
			upTo := class + 1 // the classes above
			if s := w.shareOf(k); s < share || s == share && k.index < n.index {
				upTo = class
			}
			if upTo == classCount {
				continue
			}
			if count := k.countUpTo(w.bounds.lastKey[upTo], w.bounds.lastPrefix[upTo]); k.tenant == mine.node.tenant {
				own += count
			} else {
				others += count
			}
		}
	}
	s := t.slotOf(it)
	for _, l := range mine.shapeQueues {
		own += l.countBefore(&s)
	}
	if own > 0 {
		first = w.firstItem(t.tenants[mine.node.tenant].node)
	}
	return own, first, others
}

type shareReader[J any] struct {
	tree       *Tree[J]
	bounds     classBounds
	moment     moment
	adjustment weightAdjustment
}

func (w *shareReader[J]) shareOf(n *node[J]) uint64 {
	var was Use
	if w.tree.cfg.HalfLife > 0 {
		was = n.history.averageAt(w.moment)
	}
	return weightedShare(n.allocated.Add(was, 1), w.tree.capacity, effectiveWeight(&w.adjustment, n, was, w.tree.capacity))
}

// countUpTo is how many items under a node have at most a rank, whose key is given.
func (n *node[J]) countUpTo(rank, key uint64) int {
	count := 0
	if n.leaf != nil {
		for _, l := range n.leaf.shapeQueues {
			count += l.countUpTo(rank, key)
		}
		return count
	}
	for _, k := range n.children {
		if k.waiting > 0 {
			count += k.countUpTo(rank, key)
		}
	}
	return count
}

// firstItem is the item under a node that a pass would offer first.
func (w *shareReader[J]) firstItem(n *node[J]) *Item[J] {
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
	for _, k := range n.children { // by name, so that the first of equals stays
		if k.waiting == 0 {
			continue
		}
		it := w.firstItem(k)
		c, s := w.bounds.classOfKey(it.orderKey), w.shareOf(k)
		if best == nil || c > class || c == class && s < share {
			best, class, share = it, c, s
		}
	}
	return best
}
