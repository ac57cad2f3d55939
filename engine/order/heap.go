package order

// Two heaps of values. They are written out because a comparison through a
// function value would be most of their cost, and only their first element
// ever changes.

// A node of this one has four children: there are more lines than tenants, and
// a comparison of neighbours in memory is cheaper than a level.
func sinkFront[J any](h []front[J], i int) {
	x := h[i]
	for {
		c := 4*i + 1
		if c+3 < len(h) {
			c = sooner(h, sooner(h, c, c+1), sooner(h, c+2, c+3))
		} else if c >= len(h) {
			break
		} else {
			for k := c + 1; k < len(h); k++ {
				c = sooner(h, c, k)
			}
		}
		if !h[c].before(&x) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = x
}

// sooner is the one of two places whose line is first. Which it is cannot be
// guessed, so there is no branch unless their keys are the same.
func sooner[J any](h []front[J], a, b int) int {
	x, y := h[a].slot.key, h[b].slot.key
	if x == y && h[b].slot.item.before(h[a].slot.item) {
		return b
	}
	return a + (b-a)&-int(less(y, x))
}

func popFront[J any](h []front[J]) []front[J] {
	last := len(h) - 1
	h[0], h[last] = h[last], front[J]{}
	if last > 0 {
		sinkFront(h[:last], 0)
	}
	return h[:last]
}

func sinkRunner[J any](h []runner[J], i int) {
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

func popRunner[J any](h []runner[J]) []runner[J] {
	last := len(h) - 1
	h[0], h[last] = h[last], runner[J]{}
	if last > 0 {
		sinkRunner(h[:last], 0)
	}
	return h[:last]
}
