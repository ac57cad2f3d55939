package queue

import "math/bits"

// A tenant whose record gives its weight bounds has one that follows past use: its
// share of what all tenants used is set against what its weight entitles it to.
// Who used half of that counts for twice the weight, and who used twice of it for
// half, up to the bounds. Past use already counts for a share as if it were held;
// this makes up for more than one half-life of it, as far as an administrator lets it.

// weightAdjustment is what all tenants used and are entitled to, which weights that follow past
// use are worked out from.
type weightAdjustment struct {
	enabled     bool
	totalWeight uint64 // of the tenants that take part, in thousandths
	totalPast   uint64 // their past shares together
}

// weightAdjustment sums up the tenants at a moment. It is nothing where no weight has bounds.
func (t *Tree[J]) weightAdjustment(at moment) (out weightAdjustment) {
	if !t.adaptive || t.cfg.HalfLife <= 0 {
		return out
	}
	out.enabled = true
	for _, k := range t.root.children {
		past, _ := dominantShare(k.history.averageAt(at), t.capacity)
		if past > 0 || k.isActive() {
			out.totalWeight += uint64(k.weight)
			out.totalPast += past >> pastShareShift
		}
	}
	return out
}

// pastShareShift keeps the sum of many shares within 64 bits.
const pastShareShift = 16

// adjust is what a weight comes to for one with a past use: weight × entitled ÷ used,
// within its bounds.
func (d *weightAdjustment) adjust(weight, least, most int64, was, capacity Use) int64 {
	if !d.enabled || least == 0 || d.totalPast == 0 || d.totalWeight == 0 {
		return weight
	}
	mine, _ := dominantShare(was, capacity)
	if mine >>= pastShareShift; mine == 0 {
		return most
	}
	// weight × (weight ÷ weights) ÷ (mine ÷ past), the larger products first.
	hi, lo := bits.Mul64(uint64(weight)*uint64(weight), d.totalPast)
	if hi >= mine {
		return most
	}
	ratio, _ := bits.Div64(hi, lo, mine)
	return min(max(int64(min(ratio/d.totalWeight, 1<<62)), least), most)
}

// effectiveWeight is what the weight of a node comes to.
func effectiveWeight[J any](d *weightAdjustment, n *node[J], was, capacity Use) int64 {
	return d.adjust(n.weight, n.minWeight, n.maxWeight, was, capacity)
}
