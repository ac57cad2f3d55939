package engine

import "math/bits"

// crest is the most that any one of 64 neighbouring nodes has left of each
// thing. A want that is above it finds no room on any of them, so a fleet that
// is full is passed over without a look at its nodes.
type crest struct {
	stale  bool
	whole  int32 // free devices
	part   int32 // thousandths of a device of which a part is held
	cpus   int32
	memory int32
}

// crestAt is the crest of the k-th 64 nodes.
func (s *State) crestAt(k int) *crest {
	c := &s.crests[k]
	if !c.stale {
		return c
	}
	*c = crest{cpus: -1, memory: -1}
	for at := 64 * k; at < min(64*k+64, len(s.nodes)); at++ {
		n, sp := s.nodes[at], &s.spare[at]
		c.cpus, c.memory = max(c.cpus, sp.cpus), max(c.memory, sp.memory)
		if !n.open() {
			continue
		}
		c.whole = max(c.whole, int32(bits.OnesCount64(n.free)))
		for m := n.usable &^ n.free; m != 0; m &= m - 1 {
			c.part = max(c.part, int32(wholeMilli-n.devices[bits.TrailingZeros64(m)].taken))
		}
	}
	return c
}

// above says whether the want asks for more than any of the nodes has.
func (c *crest) above(w *want) bool {
	return int(c.cpus) < w.cpus || int(c.memory) < w.memory || int(c.whole) < w.gpus || w.milli > 0 && c.whole == 0 && int(c.part) < w.milli
}

// lack is how many devices at least have to come free on any of the nodes for one
// member of the want.
func (c *crest) lack(w *want) int8 {
	if much := min(w.gpus-int(c.whole), MaxDevices); much > 0 {
		return int8(much)
	}
	if c.above(w) {
		return 1
	}
	return 0
}

// nowhere says that no node has room for the want. Where it is false there may
// be none either.
func (s *State) nowhere(w *want) bool {
	for k := range s.crests {
		if !s.crestAt(k).above(w) {
			return false
		}
	}
	return true
}
