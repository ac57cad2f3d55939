package queue

// A `chunk` is a contiguous part of a shape queue.
//
// Invariant: 0 <= start <= sorted <= len(slots). The slots before the index `start` were
// removed. The slots from `start` to `sorted` are sorted. The remaining slots were added
// later and are not sorted.
type chunk[J any] struct {
	slots  []slot[J]
	start  int
	sorted int
}

// maxChunk is the maximum number of slots in a chunk. A full chunk is split.
const maxChunk = 128

// If a chunk has more than maxInsertions unsorted slots, the slots are sorted and merged. Otherwise they are
// inserted one by one.
const maxInsertions = 6

// The method `live` returns the slots that have not been removed.
func (c *chunk[J]) live() []slot[J] { return c.slots[c.start:] }

// sortChunk sorts a chunk and returns the slots that have not been removed.
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

// mergeTail sorts the unsorted end of a chunk and merges it with the sorted part, starting from the back.
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

// sortBuffers returns two buffers for sorting n slots. The next sort reuses the buffers, unless they are large.
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

// maxSortScratch limits the memory of Tree.sortScratch to 1 MB.
const maxSortScratch = 1 << 15

// takeBuffer returns an empty buffer with capacity for n slots or more, where n <= maxChunk.
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

// returnBuffer saves a buffer for the next takeBuffer, unless the buffer is small or enough buffers are saved.
func (t *Tree[J]) returnBuffer(buffer []slot[J]) {
	if cap(buffer) == maxChunk && len(t.spareBuffers) < maxSpareBuffers {
		clear(buffer)
		t.spareBuffers = append(t.spareBuffers, buffer[:0])
	}
}

// maxSpareBuffers is the maximum number of buffers that a tree saves for reuse. Each saved buffer has a size of
// 2 KB.
const maxSpareBuffers = 1024
