package order

// Two heaps of values. They are written out because a comparison through a
// function value would be most of their cost, and only their first element
// ever changes.

func sinkFront[J any](h []front[J], i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func popFront[J any](h []front[J]) []front[J] {
	last := len(h) - 1
	h[0], h[last] = h[last], front[J]{}
	sinkFront(h[:last], 0)
	return h[:last]
}

func sinkRunner[J any](h []runner[J], i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func popRunner[J any](h []runner[J]) []runner[J] {
	last := len(h) - 1
	h[0], h[last] = h[last], runner[J]{}
	sinkRunner(h[:last], 0)
	return h[:last]
}
