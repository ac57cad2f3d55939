package cluster

import "math/bits"

// BlockMax holds, for each resource, the largest free amount on any one node of a block. A block is 64 nodes with
// adjacent positions. A request that exceeds the maximum of any resource fits on no node of the block, so a search
// skips full blocks without reading their nodes.
type BlockMax struct {
	Stale  bool  // a node of the block has changed, so BlockMaxAt must compute it again
	whole  int32 // free whole devices
	part   int32 // free thousandths of a partly taken device
	cpus   int32 // -1 when no node is schedulable
	memory int32 // MB; -1 when no node is schedulable
}

// BlockMaxAt returns the maximum free capacity of block k, which consists of the nodes from position 64*k to 64*k+63.
func (c *Cluster) BlockMaxAt(k int) *BlockMax {
	m := &c.BlockMaxes[k]
	if !m.Stale {
		return m
	}
	*m = BlockMax{cpus: -1, memory: -1}
	for at := 64 * k; at < min(64*k+64, len(c.Nodes)); at++ {
		n, sp := c.Nodes[at], &c.FreeCPUMem[at]
		m.cpus, m.memory = max(m.cpus, sp.MilliCPUs), max(m.memory, sp.Memory)
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

// ExceededBy reports whether one member needs more of some resource than any node of the block has free.
func (c *BlockMax) ExceededBy(w *Request) bool {
	return int(c.cpus) < w.MilliCPUs || int(c.memory) < w.Memory || int(c.whole) < w.GPUs || w.Milli > 0 && c.whole == 0 && int(c.part) < w.Milli
}

// MissingDevices returns a lower bound for the number of devices that must become free on a node of the block before
// one member fits there. MissingDevices returns 1 when enough devices are free but another resource is short.
func (c *BlockMax) MissingDevices(w *Request) int8 {
	if much := min(w.GPUs-int(c.whole), MaxDevices); much > 0 {
		return int8(much)
	}
	if c.ExceededBy(w) {
		return 1
	}
	return 0
}

// FitsNowhere reports whether the free capacity of the blocks proves that the request fits on no node. If FitsNowhere
// returns false, the request may still not fit.
func (c *Cluster) FitsNowhere(w *Request) bool {
	for k := range c.BlockMaxes {
		if !c.BlockMaxAt(k).ExceededBy(w) {
			return false
		}
	}
	return true
}
