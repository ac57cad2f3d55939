package queue

import "time"

// LeafQueue holds the jobs that were submitted directly to one queue, not to its child queues. A LeafQueue records
// the waiting jobs, the allocations of running jobs, and the past usage.
type LeafQueue[J any] struct {
	tree *Tree[J]
	node *node[J]

	// These fields hold the waiting items, grouped by shape. Invariant: byShape and shapeQueues hold the same
	// non-empty queues, and heads[q.index] is the head of shapeQueues[q.index].
	byShape     map[int]*shapeQueue[J]
	shapeQueues []*shapeQueue[J] // in no particular order
	heads       []head[J]

	heldByModel []int64    // allocated GPUs in thousandths, by model. Invariant: the last is not 0
	archived    endedUsage // past use of archived jobs

	// These fields are the state of the current round. Between rounds these fields are empty.
	cursors    []cursor[J]  // by shape queue: the position of the round in it
	tournament []entrant    // winner tree over the shape queues; see startTournament
	remaining  int          // shape queues that have items left and were not skipped
	snapshot   leafSnapshot // the allocation before the round charged anything
}

// Tenant returns the tenant of the leaf queue.
func (l *LeafQueue[J]) Tenant() string { return l.node.tenant }

// Name returns the name of the queue.
func (l *LeafQueue[J]) Name() string { return l.node.queue }

// GPUMilli returns the GPUs that the queue's own jobs use, in thousandths. In a round, the jobs that the round has
// placed so far count too.
func (l *LeafQueue[J]) GPUMilli() int64 {
	return int64(l.node.limitUse.GPUs)*1000 + int64(l.node.limitUse.GPUMilli)
}

// Charge adds the allocation of a job to the leaf queue if `sign` is 1. It subtracts the allocation if `sign` is
// -1.
func (l *LeafQueue[J]) Charge(g Allocation, sign int) { l.charge(&g, int64(sign)) }

// The method `charge` adds an allocation to the leaf queue and to all its ancestors.
func (l *LeafQueue[J]) charge(g *Allocation, sign int64) {
	for n := l.node; n != nil; n = n.parent {
		n.allocated.addInPlace(&g.ForShare, sign)
		if n.hasLimits || n.leaf != nil { // needed where a limit reads it and where a rebuild starts
			addLimitUse(&n.limitUse, &g.ForLimits, int(sign))
		}
	}
	for _, p := range g.ForQuotas {
		l.chargeModel(p.Model, sign*p.Milli)
	}
}

// AddEnded adds the usage of an ended attempt to the past usage if `sign` is 1. It subtracts the usage if `sign` is
// -1.
func (l *LeafQueue[J]) AddEnded(use Resources, start, end time.Time, sign int) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	from, to := l.tree.cfg.momentOf(start), l.tree.cfg.momentOf(end)
	for n := l.node; n != nil; n = n.parent {
		n.history.addEnded(use, from, to, int64(sign))
	}
}

// AddRunning adds a running attempt to the past usage. The argument `start` is the time since which the
// attempt has used its resources. To undo a call of AddRunning, call it again with `sign` -1 and the
// same start time.
func (l *LeafQueue[J]) AddRunning(use Resources, start time.Time, sign int) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	from := l.tree.cfg.momentOf(start)
	for n := l.node; n != nil; n = n.parent {
		n.history.addRunning(use, from, int64(sign))
	}
}

// Push adds an item to the waiting items of the leaf queue. Push panics if the item already waits, or if a round is
// open.
func (l *LeafQueue[J]) Push(it *Item[J]) {
	if it.queue != nil || l.tree.round.open {
		panic("queue: pushed twice, or during a round")
	}
	it.orderKey, it.boosted = itemKey(l.tree.cfg, it)
	q := l.tree.recentQueue(it.Shape)
	if q == nil || q.leaf != l {
		q = l.shapeQueue(it.Shape)
	}
	it.queue = q
	q.push(l.tree.slotOf(it))
	for n := l.node; n != nil; n = n.parent {
		n.waiting++
	}
}

// Remove removes an item from any position of its leaf queue. Remove does nothing if the item does not wait. Remove
// panics if a round is open.
func (t *Tree[J]) Remove(it *Item[J]) {
	q := it.queue
	if q == nil {
		return
	}
	if t.round.open {
		panic("queue: removed during a round")
	}
	it.queue = nil
	q.remove(it)
	l := q.leaf
	if q.count == 0 {
		delete(l.byShape, q.shape)
		if t.recentQueue(q.shape) == q {
			t.recentQueues[q.shape] = nil
		}
		last := len(l.shapeQueues) - 1
		l.shapeQueues[q.index], l.heads[q.index] = l.shapeQueues[last], l.heads[last]
		l.shapeQueues[q.index].index = q.index
		l.shapeQueues[last], l.heads[last] = nil, head[J]{}
		l.shapeQueues, l.heads = l.shapeQueues[:last], l.heads[:last]
	}
	for n := l.node; n != nil; n = n.parent {
		n.waiting--
	}
}

// The method `shapeQueue` returns the queue for a shape, and creates it if necessary. It also records that this
// queue was used last for this shape.
func (l *LeafQueue[J]) shapeQueue(shape int) *shapeQueue[J] {
	q, ok := l.byShape[shape]
	if !ok {
		q = &shapeQueue[J]{shape: shape, leaf: l, index: len(l.shapeQueues)}
		l.byShape[shape] = q
		l.shapeQueues = append(l.shapeQueues, q)
		l.heads = append(l.heads, head[J]{})
	}
	if t := l.tree; shape >= 0 && shape < maxRecentShapes {
		for len(t.recentQueues) <= shape {
			t.recentQueues = append(t.recentQueues, nil)
		}
		t.recentQueues[shape] = q
	}
	return q
}

// recentQueue returns the shape queue that received the latest item of the given shape, or nil if it is not known.
// Most shapes occur in only one leaf queue, so recentQueue usually saves a map lookup.
func (t *Tree[J]) recentQueue(shape int) *shapeQueue[J] {
	if shape < 0 || shape >= len(t.recentQueues) {
		return nil
	}
	return t.recentQueues[shape]
}

// maxRecentShapes limits the memory of Tree.recentQueues to 512 KB.
const maxRecentShapes = 1 << 16
