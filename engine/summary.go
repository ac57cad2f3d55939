package engine

import "math/bits"

// nodeSummary is what the census needs of an open node, side by side with the others:
// a walk over all of them must not touch each node itself.
type nodeSummary struct {
	usable, free uint64
	profile      int32
	part         uint16 // the most that is left of a partly taken device
	open         bool
}

func summarize(n *node) nodeSummary {
	g := nodeSummary{usable: n.usable, free: n.free, profile: int32(n.typ.id), open: true}
	for m := n.usable &^ n.free; m != 0; m &= m - 1 {
		g.part = max(g.part, uint16(max(WholeMilli-n.devices[bits.TrailingZeros64(m)].taken, 0)))
	}
	return g
}
