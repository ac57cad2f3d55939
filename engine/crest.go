package engine

import "math/bits"

// blockMax is the most that any one of 64 neighbouring nodes has left of each
// thing. A want that is above it finds no room on any of them, so a fleet that
// is full is passed over without a look at its nodes.
type blockMax struct {
	stale  bool
	whole  int32 // free devices
	part   int32 // thousandths of a device of which a part is held
	cpus   int32
	memory int32
}

// blockMaxAt is the crest of the k-th 64 nodes.
func (s *State) blockMaxAt(k int) *blockMax {
	c := &s.blockMaxes[k]
	if !c.stale {
		return c
	}
	*c = blockMax{cpus: -1, memory: -1}
	for at := 64 * k; at < min(64*k+64, len(s.nodes)); at++ {
		n, sp := s.nodes[at], &s.freeCPUMem[at]
		c.cpus, c.memory = max(c.cpus, sp.cpus), max(c.memory, sp.memory)
		if !n.schedulable() {
			continue
		}
		c.whole = max(c.whole, int32(bits.OnesCount64(n.free)))
		for m := n.usable &^ n.free; m != 0; m &= m - 1 {
			c.part = max(c.part, int32(WholeMilli-n.devices[bits.TrailingZeros64(m)].taken))
		}
	}
	return c
}

// exceededBy says whether the want asks for more than any of the nodes has.
func (c *blockMax) exceededBy(w *request) bool {
	return int(c.cpus) < w.cpus || int(c.memory) < w.memory || int(c.whole) < w.gpus || w.milli > 0 && c.whole == 0 && int(c.part) < w.milli
}

// missingDevices is how many devices at least have to come free on any of the nodes for one
// member of the want.
func (c *blockMax) missingDevices(w *request) int8 {
	if much := min(w.gpus-int(c.whole), MaxDevices); much > 0 {
		return int8(much)
	}
	if c.exceededBy(w) {
		return 1
	}
	return 0
}

// fitsNowhere says that no node has room for the want. Where it is false there may
// be none either.
func (s *State) fitsNowhere(w *request) bool {
	for k := range s.blockMaxes {
		if !s.blockMaxAt(k).exceededBy(w) {
			return false
		}
	}
	return true
}
