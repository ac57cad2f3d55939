package queue

import "math/bits"

// A tenant whose record bounds its weight from both sides has a weight that adapts
// to its past use: its part of the past use of all tenants is compared with the part
// that its weight entitles it to. A tenant that used half of that counts with twice
// its weight, and one that used twice as much with half of it, within the bounds.
// Past use counts for shares anyway; this compensates for use beyond one half-life,
// as far as an administrator allows.

// weightAdjustment holds the sums over all tenants that adaptive weights are
// computed from.
type weightAdjustment struct {
	enabled     bool
	totalWeight uint64 // of all tenants that are active or have past use, in thousandths
	totalPast   uint64 // their past shares, shifted by pastShareShift
}

// weightAdjustment returns the sums at a moment. It is disabled when no weight
// adapts.
func (t *Tree[J]) weightAdjustment(at moment) (out weightAdjustment) {
	if !t.adaptive || t.cfg.HalfLife <= 0 {
		return out
	}
	out.enabled = true
	for _, child := range t.root.children {
		past, _ := dominantShare(child.history.averageAt(at), t.capacity)
		if past > 0 || child.isActive() {
			out.totalWeight += uint64(child.weight)
			out.totalPast += past >> pastShareShift
		}
	}
	return out
}

// pastShareShift keeps the sum of many shares within 64 bits.
const pastShareShift = 16

// adjust returns weight × entitled ÷ used, within the bounds.
func (a *weightAdjustment) adjust(weight, minWeight, maxWeight int64, past, capacity Resources) int64 {
	if !a.enabled || minWeight == 0 || a.totalPast == 0 || a.totalWeight == 0 {
		return weight
	}
	mine, _ := dominantShare(past, capacity)
	if mine >>= pastShareShift; mine == 0 {
		return maxWeight
	}
	// weight × (weight ÷ totalWeight) ÷ (mine ÷ totalPast), products first.
	hi, lo := bits.Mul64(uint64(weight)*uint64(weight), a.totalPast)
	if hi >= mine {
		return maxWeight
	}
	ratio, _ := bits.Div64(hi, lo, mine)
	return min(max(int64(min(ratio/a.totalWeight, 1<<62)), minWeight), maxWeight)
}

// effectiveWeight returns the weight of a node after its adjustment to past use.
func effectiveWeight[J any](a *weightAdjustment, n *node[J], past, capacity Resources) int64 {
	return a.adjust(n.weight, n.minWeight, n.maxWeight, past, capacity)
}
