package cluster

import "math/bits"

// nodeSummary holds the data that the diagnosis needs about a schedulable node. The summaries of all nodes are
// adjacent in memory, so that the diagnosis can scan them without reading each node.
type nodeSummary struct {
	Usable, Free uint64
	Profile      int32  // ID of the node type
	Part         uint16 // the most free thousandths of any partly taken device
	Open         bool   // result of Node.Schedulable; if false, the other fields are zero
}

// The function `summarize` returns the summary of a schedulable node.
func summarize(n *Node) nodeSummary {
	g := nodeSummary{Usable: n.Usable, Free: n.Free, Profile: int32(n.Type.ID), Open: true}
	for m := n.Usable &^ n.Free; m != 0; m &= m - 1 {
		g.Part = max(g.Part, uint16(max(WholeMilli-n.Devices[bits.TrailingZeros64(m)].Taken, 0)))
	}
	return g
}
