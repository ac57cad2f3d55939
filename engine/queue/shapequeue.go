package queue

import (
	"iter"
	"slices"
)

// shapeQueue holds the waiting items of one shape in one leaf queue. Nearly all items are in chunks, and the items of
// each chunk precede those of the next. New arrivals are collected without sorting. Arrivals are moved into the
// chunks when a round reads past the head of the queue, or when an item is removed. If there are many arrivals, the
// whole queue is sorted once. If there are few arrivals, each one is inserted.
//
// Invariant: the field `count` is the number of slots in `arrivals`, `fullArrivals` and `chunks`, without the
// removed slots. If `count` is above 0, the head in leaf.heads is the first of all slots.
type shapeQueue[J any] struct {
	shape int
	leaf  *LeafQueue[J]
	index int // index in leaf.shapeQueues and leaf.heads
	count int

	arrivals     []slot[J]   // in order of arrival
	fullArrivals [][]slot[J] // earlier arrivals. Invariant: each has maxChunk slots

	// Every slot of chunks[i] is equal to chunkStarts[i] or comes after it. No slot of an earlier chunk comes after
	// chunkStarts[i]. chunkStarts[0] is not read. Invariant: len(chunkStarts) == len(chunks), and no chunk is empty.
	chunkStarts []slot[J]
	chunks      []chunk[J]
}

// A `head` is the first item of a shape queue. The heads of a leaf queue are adjacent in memory. So a round reads a
// shape queue only when it offers an item of this queue.
type head[J any] struct {
	slot[J]
	rest []slot[J] // the slots after it in its chunk; empty if they are not known
}

func (q *shapeQueue[J]) head() *head[J] { return &q.leaf.heads[q.index] }

// The method `push` adds a slot to the new arrivals.
func (q *shapeQueue[J]) push(s slot[J]) {
	head := q.head()
	if q.count == 0 || s.before(&head.slot) {
		head.slot = s
	}
	head.rest = nil
	q.count++
	if len(q.arrivals) == cap(q.arrivals) {
		q.growArrivals()
	}
	q.arrivals = append(q.arrivals, s)
}

// growArrivals makes space for one more slot in the arrivals.
func (q *shapeQueue[J]) growArrivals() {
	t := q.leaf.tree
	if len(q.arrivals) == maxChunk {
		q.fullArrivals = append(q.fullArrivals, q.arrivals)
		q.arrivals = t.takeBuffer(maxChunk)
		return
	}
	grown := append(t.takeBuffer(len(q.arrivals)+1), q.arrivals...)
	t.returnBuffer(q.arrivals)
	q.arrivals = grown
}

// sortArrivals moves the arrivals into the chunks.
func (q *shapeQueue[J]) sortArrivals() {
	if len(q.arrivals) == 0 {
		return
	}
	unsorted := len(q.fullArrivals)*maxChunk + len(q.arrivals)
	if unsorted > q.count-unsorted {
		q.sortWhole()
		return
	}
	for _, buffer := range q.fullArrivals {
		for i := range buffer {
			q.insertSorted(&buffer[i])
		}
		q.leaf.tree.returnBuffer(buffer)
	}
	for i := range q.arrivals {
		q.insertSorted(&q.arrivals[i])
	}
	q.clearArrivals()
}

// clearArrivals removes all arrivals and keeps a small buffer for new ones.
func (q *shapeQueue[J]) clearArrivals() {
	clear(q.fullArrivals)
	q.fullArrivals = q.fullArrivals[:0]
	if cap(q.arrivals) == maxChunk {
		q.leaf.tree.returnBuffer(q.arrivals)
		q.arrivals = nil
	}
	clear(q.arrivals)
	q.arrivals = q.arrivals[:0]
}

// sortWhole sorts all items of the queue and puts them into new chunks.
func (q *shapeQueue[J]) sortWhole() {
	t := q.leaf.tree
	all, other := t.sortBuffers(q.count)
	for i := range q.chunks {
		all = append(all, q.chunks[i].live()...)
		t.returnBuffer(q.chunks[i].slots)
	}
	for _, buffer := range q.fullArrivals {
		all = append(all, buffer...)
		t.returnBuffer(buffer)
	}
	all = append(all, q.arrivals...)
	q.clearArrivals()
	sortSlots(all, other)
	n := (q.count + maxChunk - 1) / maxChunk
	q.chunkStarts, q.chunks = make([]slot[J], 0, n), make([]chunk[J], 0, n)
	for some := range slices.Chunk(all, maxChunk) {
		q.chunkStarts = append(q.chunkStarts, some[0])
		q.chunks = append(q.chunks, chunk[J]{slots: append(t.takeBuffer(len(some)), some...), sorted: len(some)})
	}
	clear(all)
	clear(other)
}

// insertSorted adds a slot to the chunk in which it belongs. The queue must have at least one chunk.
func (q *shapeQueue[J]) insertSorted(s *slot[J]) {
	i := q.findChunk(s)
	c := &q.chunks[i]
	if len(c.slots) == maxChunk {
		i = q.splitChunk(i, s)
		c = &q.chunks[i]
	}
	if len(c.slots) == cap(c.slots) {
		t := q.leaf.tree
		grown := append(t.takeBuffer(len(c.slots)+1), c.slots...)
		t.returnBuffer(c.slots)
		c.slots = grown
	}
	c.slots = append(c.slots, *s)
}

// splitChunk makes space for slot s in the full chunk i, and returns the index of the chunk in which s then belongs.
func (q *shapeQueue[J]) splitChunk(i int, s *slot[J]) int {
	c := &q.chunks[i]
	q.leaf.tree.sortChunk(c)
	if c.start > 0 {
		n := copy(c.slots, c.live())
		clear(c.slots[n:])
		c.slots, c.start, c.sorted = c.slots[:n], 0, n
		return i
	}
	var right chunk[J]
	floor := *s
	// A new slot often belongs at the end of the last chunk. For such a slot, the full chunk is not split, but a new
	// chunk is added after it.
	if last := i == len(q.chunks)-1; last && !s.before(&c.slots[maxChunk-1]) {
		right.slots = q.leaf.tree.takeBuffer(1)
	} else {
		const half = maxChunk / 2
		floor = c.slots[half]
		right = chunk[J]{slots: append(q.leaf.tree.takeBuffer(maxChunk), c.slots[half:]...), sorted: half}
		clear(c.slots[half:])
		c.slots, c.sorted = c.slots[:half], half
	}
	q.chunks = slices.Insert(q.chunks, i+1, right)
	q.chunkStarts = slices.Insert(q.chunkStarts, i+1, floor)
	if s.before(&floor) {
		return i
	}
	return i + 1
}

// findChunk returns the index of the chunk to which slot s belongs.
func (q *shapeQueue[J]) findChunk(s *slot[J]) int {
	if len(q.chunkStarts) == 1 {
		return 0
	}
	rest := q.chunkStarts[1:]
	i := searchSlots(rest, s)
	if i < len(rest) && rest[i].prefix == s.prefix && !s.before(&rest[i]) {
		i++ // s is the start of the chunk
	}
	return i
}

// The method `remove` removes an item from the shape queue. It panics if the item is not at the position that
// its order requires.
func (q *shapeQueue[J]) remove(it *Item[J]) {
	if q.count == 1 {
		q.release()
		return
	}
	if len(q.arrivals) > 0 {
		q.sortArrivals()
	}
	q.count--
	if head := q.head(); head.item == it { // the usual case: no slot moves
		c := &q.chunks[0]
		if c.sorted < len(c.slots) {
			q.leaf.tree.sortChunk(c)
		}
		c.slots[c.start] = slot[J]{}
		if c.start++; c.start == len(c.slots) {
			q.leaf.tree.returnBuffer(c.slots)
			q.chunks[0], q.chunkStarts[0] = chunk[J]{}, slot[J]{}
			q.chunks, q.chunkStarts = q.chunks[1:], q.chunkStarts[1:]
			c = &q.chunks[0]
			q.leaf.tree.sortChunk(c)
		}
		head.slot, head.rest = c.slots[c.start], c.slots[c.start+1:]
		return
	}
	q.head().rest = nil
	s := q.leaf.tree.slotOf(it)
	i := q.findChunk(&s)
	c := &q.chunks[i]
	at := c.start + searchSlots(q.leaf.tree.sortChunk(c), &s)
	if at == len(c.slots) || c.slots[at].item != it {
		panic("queue: an item changed while it waited")
	}
	c.slots = slices.Delete(c.slots, at, at+1)
	if c.sorted--; c.sorted > c.start {
		if q.chunkStarts[i].item == it { // the owner may change the item and push it again
			q.chunkStarts[i] = c.slots[c.start]
		}
		return
	}
	q.leaf.tree.returnBuffer(c.slots)
	q.chunks = slices.Delete(q.chunks, i, i+1)
	q.chunkStarts = slices.Delete(q.chunkStarts, i, i+1)
}

// The method `release` empties the queue and returns its buffers for reuse.
func (q *shapeQueue[J]) release() {
	for i := range q.chunks {
		q.leaf.tree.returnBuffer(q.chunks[i].slots)
	}
	q.leaf.tree.returnBuffer(q.arrivals)
	q.count, q.chunks, q.chunkStarts, q.arrivals = 0, nil, nil, nil
}

// countBefore returns how many items of the queue precede slot s.
func (q *shapeQueue[J]) countBefore(s *slot[J]) int {
	n := 0
	for arrival := range q.allArrivals() {
		if arrival.before(s) {
			n++
		}
	}
	if len(q.chunks) == 0 {
		return n
	}
	i := q.findChunk(s)
	for before := range q.chunks[:i] {
		n += len(q.chunks[before].live())
	}
	for _, other := range q.chunks[i].live() {
		if other.before(s) {
			n++
		}
	}
	return n
}

// countUpTo returns how many items have an order key of lastKey or less. lastKey must be the last order key of a
// class, and lastPrefix must be its prefix. countUpTo sorts the arrivals, so it must not run during a round.
func (q *shapeQueue[J]) countUpTo(lastKey, lastPrefix uint64) int {
	if q.count == 0 || !q.leaf.heads[q.index].isWithin(lastKey, lastPrefix) {
		return 0
	}
	q.sortArrivals()
	last := q.leaf.tree.sortChunk(&q.chunks[len(q.chunks)-1])
	if len(last) > 0 && last[len(last)-1].isWithin(lastKey, lastPrefix) {
		return q.count
	}
	n := 0
	for i := range q.chunks {
		if i+1 < len(q.chunks) && q.chunkStarts[i+1].item.orderKey <= lastKey {
			n += len(q.chunks[i].live())
			continue
		}
		at, _ := slices.BinarySearchFunc(q.leaf.tree.sortChunk(&q.chunks[i]), lastKey, func(s slot[J], lastKey uint64) int {
			if s.isWithin(lastKey, lastPrefix) {
				return -1
			}
			return 1
		})
		return n + at
	}
	return n
}

// allArrivals yields all new arrivals.
func (q *shapeQueue[J]) allArrivals() iter.Seq[*slot[J]] {
	return func(yield func(*slot[J]) bool) {
		for _, buffer := range q.fullArrivals {
			for i := range buffer {
				if !yield(&buffer[i]) {
					return
				}
			}
		}
		for i := range q.arrivals {
			if !yield(&q.arrivals[i]) {
				return
			}
		}
	}
}
