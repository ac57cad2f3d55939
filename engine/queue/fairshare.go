package queue

import "math/bits"

// shareUnit is the internal value of a share of 100% at weight 1.
const shareUnit = 1 << 38

// maxShare limits a weighted share, so that the class and the share fit in one integer. The class is in the higher
// bits of this integer.
const maxShare = 1<<60 - 1

// resourceShare returns used/total in thousandths of internal units, rounded down. If the cluster has none of a
// resource, the share of that resource is 0.
func resourceShare(used, total int64) uint64 {
	if used <= 0 || total <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(used), 1000*shareUnit)
	if hi >= uint64(total) {
		return ^uint64(0)
	}
	q, _ := bits.Div64(hi, lo, uint64(total))
	return q
}

// dominantShare returns the largest share among the three resources, and the name of that resource.
func dominantShare(u, capacity Resources) (uint64, ResourceName) {
	best, resource := resourceShare(u.GPU, capacity.GPU), GPU
	if p := resourceShare(u.CPU, capacity.CPU); p > best {
		best, resource = p, CPU
	}
	if p := resourceShare(u.Memory, capacity.Memory); p > best {
		best, resource = p, Memory
	}
	return best, resource
}

// weightedShare returns the dominant share divided by the weight, in internal
// units.
func weightedShare(u, capacity Resources, weight int64) uint64 {
	best, _ := dominantShare(u, capacity)
	return min(best/uint64(weight), maxShare)
}

// weightMilli converts a weight to thousandths. A weight of 0 means 1.
func weightMilli(weight float64) int64 {
	if weight == 0 {
		return 1000
	}
	return max(int64(float64(weight*1000)+0.5), 1) // the conversion prevents a fused multiply-add, which rounds differently
}
