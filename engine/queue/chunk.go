package queue

// chunk is a run of neighbours of a shape queue.
//
// Invariant: 0 <= start <= sorted <= len(slots). slots[:start] were removed,
// slots[start:sorted] are in order, and the rest came later, in any order.
type chunk[J any] struct {
	slots  []slot[J]
	start  int
	sorted int
}

// maxChunk is the most slots of a chunk; a full one is split.
const maxChunk = 128

// maxInsertions is up to how many slots a chunk is sorted by insertion.
const maxInsertions = 6

// live returns the slots that were not removed.
func (c *chunk[J]) live() []slot[J] { return c.slots[c.start:] }

// sortChunk sorts a chunk and returns its live slots.
func (t *Tree[J]) sortChunk(c *chunk[J]) []slot[J] {
	if len(c.slots)-c.sorted > maxInsertions {
		t.mergeTail(c)
	}
	for ; c.sorted < len(c.slots); c.sorted++ {
		s := c.slots[c.sorted]
		at := c.start + searchSlots(c.slots[c.start:c.sorted], &s)
		copy(c.slots[at+1:c.sorted+1], c.slots[at:c.sorted])
		c.slots[at] = s
	}
	return c.live()
}

// mergeTail sorts the unsorted end of a chunk, and merges it with the sorted part
// from the back.
func (t *Tree[J]) mergeTail(c *chunk[J]) {
	end := c.slots[c.sorted:]
	buffer, other := t.sortBuffers(len(end))
	sortSlots(end, other)
	buffer = append(buffer, end...)
	left, right := c.sorted-1, len(buffer)-1
	for at := len(c.slots) - 1; right >= 0; at-- {
		if left >= c.start && buffer[right].before(&c.slots[left]) {
			c.slots[at] = c.slots[left]
			left--
		} else {
			c.slots[at] = buffer[right]
			right--
		}
	}
	c.sorted = len(c.slots)
	clear(buffer)
	clear(other)
}

// sortBuffers returns two buffers for sorting n slots. They are kept for the next
// sort unless they are large.
func (t *Tree[J]) sortBuffers(n int) (empty, other []slot[J]) {
	buffer := t.sortScratch
	if len(buffer) < 2*n {
		buffer = make([]slot[J], 2*n)
		if n <= maxSortScratch {
			t.sortScratch = buffer
		}
	}
	return buffer[:0:n], buffer[n : 2*n]
}

// maxSortScratch bounds the memory of Tree.sortScratch to 1 MB.
const maxSortScratch = 1 << 15

// takeBuffer returns an empty buffer for at least n slots, n <= maxChunk.
func (t *Tree[J]) takeBuffer(n int) []slot[J] {
	if n <= smallBuffer {
		return make([]slot[J], 0, smallBuffer)
	}
	if last := len(t.spareBuffers) - 1; last >= 0 {
		buffer := t.spareBuffers[last]
		t.spareBuffers[last] = nil
		t.spareBuffers = t.spareBuffers[:last]
		return buffer
	}
	return make([]slot[J], 0, maxChunk)
}

// smallBuffer is the capacity of the first buffer of a queue, in slots.
const smallBuffer = 8

// returnBuffer keeps a buffer for the next takeBuffer, unless it is small or enough
// are kept.
func (t *Tree[J]) returnBuffer(buffer []slot[J]) {
	if cap(buffer) == maxChunk && len(t.spareBuffers) < maxSpareBuffers {
		clear(buffer)
		t.spareBuffers = append(t.spareBuffers, buffer[:0])
	}
}

// maxSpareBuffers bounds the buffers that a tree keeps, of 2 KB each.
const maxSpareBuffers = 1024
