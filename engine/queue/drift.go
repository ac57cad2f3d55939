package queue

import "math/bits"

// A tenant whose record gives its weight bounds has one that follows past use: its
// share of what all tenants used is set against what its weight entitles it to.
// Who used half of that counts for twice the weight, and who used twice of it for
// half, up to the bounds. Past use already counts for a share as if it were held;
// this makes up for more than one half-life of it, as far as an administrator lets it.

// drift is what all tenants used and are entitled to, which weights that follow past
// use are worked out from.
type drift struct {
	on      bool
	weights uint64 // of the tenants that take part, in thousandths
	past    uint64 // their past shares together
}

// drifts sums up the tenants at a moment. It is nothing where no weight has bounds.
func (t *Tree[J]) drifts(at moment) (out drift) {
	if !t.drifting || t.cfg.HalfLife <= 0 {
		return out
	}
	out.on = true
	for _, k := range t.root.kids {
		past, _ := dominant(k.past.at(at), t.capacity)
		if past > 0 || k.active() {
			out.weights += uint64(k.weight)
			out.past += past >> driftShift
		}
	}
	return out
}

// driftShift keeps the sum of many shares within 64 bits.
const driftShift = 16

// weigh is what a weight comes to for one with a past use: weight × entitled ÷ used,
// within its bounds.
func (d *drift) weigh(weight, least, most int64, was, capacity Use) int64 {
	if !d.on || least == 0 || d.past == 0 || d.weights == 0 {
		return weight
	}
	mine, _ := dominant(was, capacity)
	if mine >>= driftShift; mine == 0 {
		return most
	}
	// weight × (weight ÷ weights) ÷ (mine ÷ past), the larger products first.
	hi, lo := bits.Mul64(uint64(weight)*uint64(weight), d.past)
	if hi >= mine {
		return most
	}
	ratio, _ := bits.Div64(hi, lo, mine)
	return min(max(int64(min(ratio/d.weights, 1<<62)), least), most)
}

// pull is what the weight of a node comes to.
func pull[J any](d *drift, n *node[J], was, capacity Use) int64 {
	return d.weigh(n.weight, n.least, n.most, was, capacity)
}
