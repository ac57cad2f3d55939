package queue

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
)

// Round determines the order in which one decision considers the waiting items. A round offers one item at a time,
// and the caller reports the result before it requests the next item. At the end of a round, everything that the
// round charged is undone.
type Round[J any] struct {
	tree       *Tree[J]
	open       bool
	now        time.Time
	bounds     classBounds
	adjustment weightAdjustment

	// These fields describe the item that is currently offered. The fields are empty until the round has found the
	// next item.
	path      []*node[J] // from the child of the root to the node of leaf
	leaf      *LeafQueue[J]
	classEnd  uint64 // items with at most this prefix are certainly of the current class
	contested bool   // a node on the path has siblings with items left

	charged []*LeafQueue[J] // leaf queues that have a snapshot
}

// leafSnapshot holds the allocation of a leaf queue as it was before the round charged anything to the queue. At
// its end, the round restores this allocation in one step.
type leafSnapshot struct {
	taken       bool
	allocated   Resources
	limitUse    ares.Use
	heldByModel []int64
}

// BeginRound starts a round. Only one round can be open at a time, and no item may be pushed or removed until the
// round ends.
func (t *Tree[J]) BeginRound(now time.Time) *Round[J] {
	if t.round.open {
		panic("queue: a round is under way")
	}
	t.rebuild()
	r := &t.round
	r.open, r.now, r.bounds = true, now, t.cfg.classBoundsAt(now)
	var at moment
	if t.cfg.HalfLife > 0 {
		at = t.cfg.momentOf(now)
		r.adjustment = t.weightAdjustment(at)
	}
	r.prepare(t.root, at)
	return r
}

// The method `prepare` builds the heaps and tournaments of a node and of all nodes below it.
func (r *Round[J]) prepare(n *node[J], at moment) {
	if l := n.leaf; l != nil {
		l.startTournament()
		return
	}
	for _, child := range n.children {
		if child.waiting == 0 {
			continue
		}
		r.prepare(child, at)
		n.heap = append(n.heap, candidate[J]{0, child})
	}
	for i := range n.heap {
		// If a node has only one candidate, the candidate's share is not needed.
		if child := n.heap[i].node; len(n.heap) > 1 && r.tree.cfg.HalfLife > 0 {
			child.pastUse = child.history.averageAt(at)
		}
		child := n.heap[i].node
		child.effectiveWeight = effectiveWeight(&r.adjustment, child, child.pastUse, r.tree.capacity)
		n.heap[i].key = r.candidateKey(n.heap[i].node, len(n.heap) > 1)
	}
	for i := len(n.heap)/2 - 1; i >= 0; i-- {
		siftDown(n.heap, i)
	}
}

// Next offers the next item, or returns false if no item is left. If the caller calls Next again
// without reporting a result, Next offers the same item.
func (r *Round[J]) Next() (*Item[J], bool) {
	if len(r.path) == 0 {
		n := r.tree.root
		for n.leaf == nil {
			if len(n.heap) == 0 {
				return nil, false
			}
			r.contested = r.contested || len(n.heap) > 1
			n = n.heap[0].node
			r.path = append(r.path, n)
		}
		r.leaf = n.leaf
		r.classEnd = r.bounds.lastPrefixOf(classCount - 1 - int(n.parent.heap[0].key>>61))
	}
	return r.leaf.first(), true
}

// Allocate reports that the offered item was placed. The allocation is charged until the end of the round.
func (r *Round[J]) Allocate(g Allocation) {
	r.charge(&g)
	r.Skip()
}

// AllocatePart reports that a part of the offered item was placed. The allocation of the part is charged, and the
// round continues to offer the item.
func (r *Round[J]) AllocatePart(g Allocation) { r.charge(&g) }

// The method `charge` adds an allocation to the leaf queue of the offered item.
func (r *Round[J]) charge(g *Allocation) {
	r.takeSnapshot(r.leaf)
	r.leaf.charge(g, 1)
}

// ChargeOutOfTurn adds an allocation to any leaf queue if `sign` is 1, and subtracts it if `sign` is -1. The end of
// the round undoes this change. The allocation counts for limits and quotas but not for shares, so the order of
// offers does not change.
func (r *Round[J]) ChargeOutOfTurn(l *LeafQueue[J], g Allocation, sign int) {
	g.ForShare = Resources{}
	r.takeSnapshot(l)
	l.charge(&g, int64(sign))
}

// takeSnapshot records the allocation of a leaf queue before the round charges anything to the queue.
func (r *Round[J]) takeSnapshot(l *LeafQueue[J]) {
	if !l.snapshot.taken {
		l.snapshot = leafSnapshot{true, l.node.allocated, l.node.limitUse, slices.Clone(l.heldByModel)}
		r.charged = append(r.charged, l)
	}
}

// Skip skips the offered item, but not other items of the same shape.
func (r *Round[J]) Skip() {
	r.leaf.advance()
	r.reorderPath(true)
}

// EndTurn stops the offers of the current item. The item stays first in its shape queue. The round then chooses the
// next item by the current shares.
func (r *Round[J]) EndTurn() { r.reorderPath(true) }

// SkipShape reports that the offered item could not be placed. For the rest of the round, all items of the same shape
// in this leaf queue are skipped.
func (r *Round[J]) SkipShape() {
	r.leaf.skipShape()
	r.reorderPath(false)
}

// BlockQueue reports that the offered item could not be placed, and that no later item of the same leaf queue may be
// placed before it.
func (r *Round[J]) BlockQueue() {
	r.leaf.remaining = 0
	r.reorderPath(true)
}

// reorderPath restores the heaps along the path, from the leaf queue up to the root. Each node on the path was the
// first among its siblings, so it can only move back.
func (r *Round[J]) reorderPath(charged bool) {
	if l := r.leaf; !r.contested && l.remaining > 0 && (l.tournament[1].prefix <= r.classEnd || r.candidateKey(l.node, false) == l.node.parent.heap[0].key) {
		return // no competition and the same class, so the leaf queue stays first
	}
	for i, n := range slices.Backward(r.path) {
		up := r.tree.root
		if i > 0 {
			up = r.path[i-1]
		}
		if len(n.heap) == 0 && (n.leaf == nil || n.leaf.remaining == 0) {
			up.heap = popCandidate(up.heap)
			charged = true // the next sibling may be of another class
			continue
		}
		key := r.candidateKey(n, len(up.heap) > 1)
		if key == up.heap[0].key && !charged {
			break
		}
		up.heap[0].key = key
		if len(up.heap) > 1 {
			siftDown(up.heap, 0)
		}
	}
	r.path, r.leaf, r.classEnd, r.contested = r.path[:0], nil, 0, false
}

// End undoes everything that the round charged, and closes the round.
func (r *Round[J]) End() {
	for _, l := range r.charged {
		l.restore()
	}
	r.reset(r.tree.root)
	clear(r.charged)
	*r = Round[J]{tree: r.tree, path: r.path[:0], charged: r.charged[:0]}
}

// The method `restore` resets a leaf queue to its snapshot.
func (l *LeafQueue[J]) restore() {
	var more Allocation
	more.ForShare = l.node.allocated.Add(l.snapshot.allocated, -1)
	more.ForLimits = l.node.limitUse
	addLimitUse(&more.ForLimits, &l.snapshot.limitUse, -1)
	l.charge(&more, -1)
	for model := max(len(l.heldByModel), len(l.snapshot.heldByModel)) - 1; model >= 0; model-- {
		if held := valueAt(l.heldByModel, model) - valueAt(l.snapshot.heldByModel, model); held != 0 {
			l.chargeModel(model, -held)
		}
	}
	l.snapshot = leafSnapshot{}
}

// valueAt returns in[i], or 0 if i is beyond the end of the slice.
func valueAt(in []int64, i int) int64 {
	if i < len(in) {
		return in[i]
	}
	return 0
}

// The method `reset` clears the state of the round at a node and at all nodes below it.
func (r *Round[J]) reset(n *node[J]) {
	for _, child := range n.children {
		if child.waiting == 0 {
			continue
		}
		child.pastUse, child.effectiveWeight = Resources{}, 0
		if child.leaf != nil {
			child.leaf.endTournament()
		}
		r.reset(child)
	}
	clear(n.heap)
	n.heap = n.heap[:0]
}

// The heap of a node contains the children that have items left. The code does not use container/heap. Only the
// first element of the heap ever changes, and comparing elements through a function value would take most of the
// time.

// A `candidate` is a child node that has items left.
type candidate[J any] struct {
	key  uint64 // see candidateKey; smaller is earlier
	node *node[J]
}

// The method `before` reports whether candidate a comes before candidate b. Candidates
// with equal keys are ordered by name.
func (a *candidate[J]) before(b *candidate[J]) bool {
	return a.key < b.key || a.key == b.key && a.node.index < b.node.index
}

// candidateKey returns a key that orders a node among its siblings. The order is by the highest class that has
// items left, then by weighted share. If the node has no sibling to compare with, the key leaves out the share.
func (r *Round[J]) candidateKey(n *node[J], contested bool) uint64 {
	var class uint64
	if n.leaf != nil {
		class = uint64(classCount - 1 - headClass(&r.bounds, n.leaf.tournament[1].prefix, n.leaf))
	} else {
		class = n.heap[0].key >> 61
	}
	if !contested {
		return class << 61
	}
	return class<<61 | weightedShare(n.allocated.Add(n.pastUse, 1), r.tree.capacity, n.effectiveWeight)
}

// siftDown moves the element at index i down to its correct position in the heap.
func siftDown[J any](h []candidate[J], i int) {
	x := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if r := c + 1; r < len(h) && h[r].before(&h[c]) {
			c = r
		}
		if !h[c].before(&x) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = x
}

// popCandidate removes the first element of the heap.
func popCandidate[J any](h []candidate[J]) []candidate[J] {
	last := len(h) - 1
	h[0], h[last] = h[last], candidate[J]{}
	if last > 0 {
		siftDown(h[:last], 0)
	}
	return h[:last]
}
