package order

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
	s := slotOf(it, t.base)
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
	}
	mine := it.line.leaf
	class := w.ladder.class(it.rank)
	higher := uint64(0) // the last rank of the classes above
	if class+1 < classes {
		higher = w.ladder.ranks[class+1]
	}
	for n := mine.node; n.parent != nil; n = n.parent {
		share := w.share(n)
		for _, k := range n.parent.kids {
			if k == n || k.waiting == 0 {
				continue
			}
			upTo := higher
			if s := w.share(k); s < share || s == share && k.place < n.place {
				upTo = w.ladder.ranks[class]
			}
			count, head := w.count(k, upTo)
			if k.tenant != mine.node.tenant {
				others += count
				continue
			}
			own += count
			first = earlier(first, head)
		}
	}
	s := slotOf(it, t.base)
	for _, l := range mine.lines {
		n := l.ahead(&s)
		own += n
		if n > 0 {
			first = earlier(first, l.first())
		}
	}
	return own, first, others
}

type walk[J any] struct {
	tree   *Tree[J]
	ladder ladder
	at     moment
}

func (w *walk[J]) share(n *node[J]) uint64 {
	use := n.use
	if w.tree.cfg.HalfLife > 0 {
		use = use.Add(n.past.at(w.at), 1)
	}
	return weighted(use, w.tree.capacity, n.weight)
}

// count is how many items under a node have at most a rank, and the first.
func (w *walk[J]) count(n *node[J], upTo uint64) (count int, first *Item[J]) {
	if n.leaf != nil {
		for _, l := range n.leaf.lines {
			if c := l.upTo(upTo); c > 0 {
				count += c
				first = earlier(first, l.first())
			}
		}
		return count, first
	}
	for _, k := range n.kids {
		if k.waiting > 0 {
			c, head := w.count(k, upTo)
			count, first = count+c, earlier(first, head)
		}
	}
	return count, first
}

func earlier[J any](a, b *Item[J]) *Item[J] {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	if b.before(a) {
		return b
	}
	return a
}
