package cluster

import "math/bits"

// nodeSummary is what the census needs of an open node, side by side with the others:
// a walk over all of them must not touch each node itself.
type nodeSummary struct {
	Usable, Free uint64
	Profile      int32
	Part         uint16 // the most that is left of a partly taken device
	Open         bool
}

func summarize(n *Node) nodeSummary {
	g := nodeSummary{Usable: n.Usable, Free: n.Free, Profile: int32(n.Type.ID), Open: true}
	for m := n.Usable &^ n.Free; m != 0; m &= m - 1 {
		g.Part = max(g.Part, uint16(max(WholeMilli-n.Devices[bits.TrailingZeros64(m)].Taken, 0)))
	}
	return g
}
