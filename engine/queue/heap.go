package queue

// A heap of values. It is written out because a comparison through a function
// value would be most of its cost, and only its first element ever changes.

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

func popCandidate[J any](h []candidate[J]) []candidate[J] {
	last := len(h) - 1
	h[0], h[last] = h[last], candidate[J]{}
	if last > 0 {
		siftDown(h[:last], 0)
	}
	return h[:last]
}
