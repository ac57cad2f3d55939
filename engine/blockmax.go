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
func (c *Cluster) blockMaxAt(k int) *blockMax {
	m := &c.blockMaxes[k]
	if !m.stale {
		return m
	}
	*m = blockMax{cpus: -1, memory: -1}
	for at := 64 * k; at < min(64*k+64, len(c.nodes)); at++ {
		n, sp := c.nodes[at], &c.freeCPUMem[at]
		m.cpus, m.memory = max(m.cpus, sp.cpus), max(m.memory, sp.memory)
		if !n.schedulable() {
			continue
		}
		m.whole = max(m.whole, int32(bits.OnesCount64(n.free)))
		for d := n.usable &^ n.free; d != 0; d &= d - 1 {
			m.part = max(m.part, int32(WholeMilli-n.devices[bits.TrailingZeros64(d)].taken))
		}
	}
	return m
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
func (c *Cluster) fitsNowhere(w *request) bool {
	for k := range c.blockMaxes {
		if !c.blockMaxAt(k).exceededBy(w) {
			return false
		}
	}
	return true
}
