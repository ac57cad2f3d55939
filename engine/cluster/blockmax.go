package cluster

import "math/bits"

// blockMax is the most that any one of 64 neighbouring nodes has left of each
// thing. A want that is above it finds no room on any of them, so a fleet that
// is full is passed over without a look at its nodes.
type blockMax struct {
	Stale  bool
	whole  int32 // free devices
	part   int32 // thousandths of a device of which a part is held
	cpus   int32
	memory int32
}

// BlockMaxAt is the crest of the k-th 64 nodes.
func (c *Cluster) BlockMaxAt(k int) *blockMax {
	m := &c.BlockMaxes[k]
	if !m.Stale {
		return m
	}
	*m = blockMax{cpus: -1, memory: -1}
	for at := 64 * k; at < min(64*k+64, len(c.Nodes)); at++ {
		n, sp := c.Nodes[at], &c.FreeCPUMem[at]
		m.cpus, m.memory = max(m.cpus, sp.CPUs), max(m.memory, sp.Memory)
		if !n.Schedulable() {
			continue
		}
		m.whole = max(m.whole, int32(bits.OnesCount64(n.Free)))
		for d := n.Usable &^ n.Free; d != 0; d &= d - 1 {
			m.part = max(m.part, int32(WholeMilli-n.Devices[bits.TrailingZeros64(d)].Taken))
		}
	}
	return m
}

// ExceededBy says whether the want asks for more than any of the nodes has.
func (c *blockMax) ExceededBy(w *Request) bool {
	return int(c.cpus) < w.CPUs || int(c.memory) < w.Memory || int(c.whole) < w.GPUs || w.Milli > 0 && c.whole == 0 && int(c.part) < w.Milli
}

// MissingDevices is how many devices at least have to come free on any of the nodes for one
// member of the want.
func (c *blockMax) MissingDevices(w *Request) int8 {
	if much := min(w.GPUs-int(c.whole), MaxDevices); much > 0 {
		return int8(much)
	}
	if c.ExceededBy(w) {
		return 1
	}
	return 0
}

// FitsNowhere says that no node has room for the want. Where it is false there may
// be none either.
func (c *Cluster) FitsNowhere(w *Request) bool {
	for k := range c.BlockMaxes {
		if !c.BlockMaxAt(k).ExceededBy(w) {
			return false
		}
	}
	return true
}
