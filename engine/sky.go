package engine

// height is what a node has left, or the most that any of several has left in
// each respect.
type height struct {
	whole  int // devices nobody holds a part of
	milli  int // the largest free part of one device
	cpus   int
	memory int
}

// closed is a node where nothing may be placed: lower than any request.
var closed = height{-1, -1, -1, -1}

func (h height) covers(want height) bool {
	return h.whole >= want.whole && h.milli >= want.milli && h.cpus >= want.cpus && h.memory >= want.memory
}

func (h height) most(o height) height {
	return height{max(h.whole, o.whole), max(h.milli, o.milli), max(h.cpus, o.cpus), max(h.memory, o.memory)}
}

// sky is the skyline of the nodes: a tree of maxima over what each has left,
// so that the next node that may hold a request is found without looking at
// those that cannot. Node i is leaf size+i; the tree is all of them at 1.
type sky struct {
	size  int // leaves, a power of two
	tiers []height
}

// rebuild makes the skyline of these nodes and tells each its place.
func (s *sky) rebuild(nodes []*node) {
	size := 1
	for size < len(nodes) {
		size *= 2
	}
	if size != s.size {
		*s = sky{size: size, tiers: make([]height, 2*size)}
	}
	for i := range size {
		s.tiers[size+i] = closed
		if i < len(nodes) {
			nodes[i].at = i
			s.tiers[size+i] = nodes[i].left()
		}
	}
	for i := size - 1; i > 0; i-- {
		s.tiers[i] = s.tiers[2*i].most(s.tiers[2*i+1])
	}
}

// set notes what node i has left.
func (s *sky) set(i int, h height) {
	i += s.size
	for s.tiers[i] != h {
		s.tiers[i] = h
		i /= 2
		if i == 0 {
			return
		}
		h = s.tiers[2*i].most(s.tiers[2*i+1])
	}
}

// next finds the first node from i on that covers want, -1 when none does.
func (s *sky) next(i int, want height) int {
	if i >= s.size {
		return -1
	}
	for i += s.size; ; {
		switch {
		case !s.tiers[i].covers(want):
			// Past this subtree: up while it is a right child, then right.
			for i&1 == 1 {
				i /= 2
			}
			if i == 0 {
				return -1
			}
			i++
		case i < s.size:
			i *= 2
		default:
			return i - s.size
		}
	}
}
