package queue

// The heap of the children of a node that have items left. It is written out
// because only its first element ever changes, and a comparison through a function
// value would take most of its time.

// candidate is a child that has items left.
type candidate[J any] struct {
	key  uint64 // see candidateKey; smaller is earlier
	node *node[J]
}

// before reports whether a candidate comes before another one. Of equal ones, the
// first by name does.
func (a *candidate[J]) before(b *candidate[J]) bool {
	return a.key < b.key || a.key == b.key && a.node.index < b.node.index
}

// candidateKey orders a node among its siblings: by the highest class that has
// items left, then by weighted share. The share is left out when there is no
// sibling to compare it with.
func (p *Round[J]) candidateKey(n *node[J], rivals bool) uint64 {
	var class uint64
	if n.leaf != nil {
		class = uint64(classCount - 1 - headClass(&p.bounds, n.leaf.tournament[1].prefix, n.leaf))
	} else {
		class = n.heap[0].key >> 61
	}
	if !rivals {
		return class << 61
	}
	return class<<61 | weightedShare(n.allocated.Add(n.pastUse, 1), p.tree.capacity, n.effectiveWeight)
}

// siftDown moves the element at i down to its position in the heap.
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
