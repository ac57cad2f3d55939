package cluster

import "math/bits"

// blockMax is the free capacity of a block of 64 nodes with neighbouring positions: for
// each resource the maximum over the nodes. A request that exceeds it fits on none of
// them, so a full cluster is skipped without reading its nodes.
type blockMax struct {
	Stale  bool  // a node of the block has changed: BlockMaxAt computes it again
	whole  int32 // free whole devices
	part   int32 // free thousandths of a partly taken device
	cpus   int32 // -1 when no node is schedulable
	memory int32 // MB; -1 when no node is schedulable
}

// BlockMaxAt returns the free capacity of block k, the nodes from position 64*k on.
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

// ExceededBy reports whether one member needs more than any node of the block has free.
func (c *blockMax) ExceededBy(w *Request) bool {
	return int(c.cpus) < w.CPUs || int(c.memory) < w.Memory || int(c.whole) < w.GPUs || w.Milli > 0 && c.whole == 0 && int(c.part) < w.Milli
}

// MissingDevices returns a lower bound of the devices that must become free on a node of
// the block before one member fits there. It is 1 when only another resource is short.
func (c *blockMax) MissingDevices(w *Request) int8 {
	if much := min(w.GPUs-int(c.whole), MaxDevices); much > 0 {
		return int8(much)
	}
	if c.ExceededBy(w) {
		return 1
	}
	return 0
}

// FitsNowhere reports whether the free capacity of the blocks proves that no node fits
// the request. When it is false, there may still be no such node.
func (c *Cluster) FitsNowhere(w *Request) bool {
	for k := range c.BlockMaxes {
		if !c.BlockMaxAt(k).ExceededBy(w) {
			return false
		}
	}
	return true
}
