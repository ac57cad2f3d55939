package queue

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Rank is the place of an item in its leaf, from 1, and how many wait there. It
// is 0 for an item that does not wait.
func (t *Tree[J]) Rank(it *Item[J]) (rank, of int) {
	if it.line == nil {
		return 0, 0
	}
	s := t.slotOf(it)
	rank = 1
	for _, l := range it.line.leaf.lines {
		rank += l.ahead(&s)
	}
	return rank, it.line.leaf.node.waiting
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
	if it.line == nil {
		return 0, nil, 0
	}
	t.settle()
	w := walk[J]{tree: t, ladder: t.cfg.ladder(now)}
	if t.cfg.HalfLife > 0 {
		w.at = t.cfg.when(now)
		w.drift = t.drifts(w.at)
	}
	mine := it.line.leaf
	class := w.ladder.class(it.rank)
	for n := mine.node; n.parent != nil; n = n.parent {
		share := w.share(n)
		for _, k := range n.parent.kids {
			if k == n || k.waiting == 0 {
				continue
			}
			upTo := class + 1 // the classes above
			if s := w.share(k); s < share || s == share && k.place < n.place {
				upTo = class
			}
			if upTo == classes {
				continue
			}
			if count := k.upTo(w.ladder.ranks[upTo], w.ladder.keys[upTo]); k.tenant == mine.node.tenant {
				own += count
			} else {
				others += count
			}
		}
	}
	s := t.slotOf(it)
	for _, l := range mine.lines {
		own += l.ahead(&s)
	}
	if own > 0 {
		first = w.head(t.tenants[mine.node.tenant].node)
	}
	return own, first, others
}

type walk[J any] struct {
	tree   *Tree[J]
	ladder ladder
	at     moment
	drift  drift
}

func (w *walk[J]) share(n *node[J]) uint64 {
	var was Use
	if w.tree.cfg.HalfLife > 0 {
		was = n.past.at(w.at)
	}
	return weighted(n.use.Add(was, 1), w.tree.capacity, pull(&w.drift, n, was, w.tree.capacity))
}

// upTo is how many items under a node have at most a rank, whose key is given.
func (n *node[J]) upTo(rank, key uint64) int {
	count := 0
	if n.leaf != nil {
		for _, l := range n.leaf.lines {
			count += l.upTo(rank, key)
		}
		return count
	}
	for _, k := range n.kids {
		if k.waiting > 0 {
			count += k.upTo(rank, key)
		}
	}
	return count
}

// head is the item under a node that a pass would offer first.
func (w *walk[J]) head(n *node[J]) *Item[J] {
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
	for _, k := range n.kids { // by name, so that the first of equals stays
		if k.waiting == 0 {
			continue
		}
		it := w.head(k)
		c, s := w.ladder.class(it.rank), w.share(k)
		if best == nil || c > class || c == class && s < share {
			best, class, share = it, c, s
		}
	}
	return best
}
