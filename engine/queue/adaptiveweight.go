package queue

import "math/bits"

// A tenant may set both a minimum and a maximum weight. The weight of such a tenant adapts to its past usage. A
// tenant is entitled by its weight to a fraction of the usage of all tenants. This fraction is compared with the
// tenant's actual fraction of the past usage. If a tenant used half of its entitled fraction, its weight doubles. If
// it used twice its entitled fraction, its weight is halved. The result is kept between the minimum and the maximum.
// Shares already include past usage. Adaptive weights also compensate for usage older than one half-life.

// weightAdjustment holds the sums over all tenants from which adaptive weights are computed.
type weightAdjustment struct {
	enabled     bool
	totalWeight uint64 // sum for all tenants that are active or have past usage, in thousandths
	totalPast   uint64 // their past shares, shifted by pastShareShift
}

// weightAdjustment returns the sums over all tenants at a given time. The adjustment is disabled if no tenant has an
// adaptive weight.
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

// pastShareShift is the number of bits by which past shares are shifted right, so that their sum fits in 64
// bits.
const pastShareShift = 16

// The method `adjust` returns weight × entitled ÷ used, limited to the range from minWeight to maxWeight.
func (a *weightAdjustment) adjust(weight, minWeight, maxWeight int64, past, capacity Resources) int64 {
	if !a.enabled || minWeight == 0 || a.totalPast == 0 || a.totalWeight == 0 {
		return weight
	}
	mine, _ := dominantShare(past, capacity)
	if mine >>= pastShareShift; mine == 0 {
		return maxWeight
	}
	// Compute weight × (weight ÷ totalWeight) ÷ (mine ÷ totalPast), but do the multiplications first.
	hi, lo := bits.Mul64(uint64(weight)*uint64(weight), a.totalPast)
	if hi >= mine {
		return maxWeight
	}
	ratio, _ := bits.Div64(hi, lo, mine)
	return min(max(int64(min(ratio/a.totalWeight, 1<<62)), minWeight), maxWeight)
}

// effectiveWeight returns the weight of a tenant or queue after adjustment for past usage.
func effectiveWeight[J any](a *weightAdjustment, n *node[J], past, capacity Resources) int64 {
	return a.adjust(n.weight, n.minWeight, n.maxWeight, past, capacity)
}
