package queue

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// Use is what counts for a share.
type Use struct {
	GPU    int64 // thousandths of a device, times the weight of its model
	CPU    int64 // cores
	Memory int64 // MB
}

// Add returns the sum of two uses, with the second one taken off for sign -1.
func (u Use) Add(v Use, sign int64) Use {
	return Use{u.GPU + sign*v.GPU, u.CPU + sign*v.CPU, u.Memory + sign*v.Memory}
}

// addInPlace is Add in place.
func (u *Use) addInPlace(v *Use, sign int64) {
	u.GPU += sign * v.GPU
	u.CPU += sign * v.CPU
	u.Memory += sign * v.Memory
}

// addLimitUse adds in place what is held.
func addLimitUse(to, by *ares.Use, sign int) {
	to.GPUs += sign * by.GPUs
	to.GPUMilli += sign * by.GPUMilli
	to.GPUMemoryMB += sign * by.GPUMemoryMB
	to.CPUs += sign * by.CPUs
	to.MemoryMB += sign * by.MemoryMB
	to.Jobs += sign * by.Jobs
}

// Resource names one part of a Use.
type Resource string

// The resources.
const (
	GPU    Resource = "gpu"
	CPU    Resource = "cpu"
	Memory Resource = "memory"
)

// Grant is what a job gets or holds: for shares, for limits, for quotas.
type Grant struct {
	Use  Use
	Held ares.Use
	GPUs []Part
}

// Part is how much of the devices of one model a job gets.
type Part struct {
	Model int   // as Tree.Model numbered it
	Milli int64 // thousandths of a device, without the weight of the model
}

// One is a whole share, of the fleet at weight 1, as shares are counted.
const One = 1 << 38

// maxShare bounds a weighted share, so that a class fits above it.
const maxShare = 1<<60 - 1

// shareOf is used/total in units of One/thousandths of a weight, rounded down.
// What the fleet does not have cannot be shared.
func shareOf(used, total int64) uint64 {
	if used <= 0 || total <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(used), 1000*One)
	if hi >= uint64(total) {
		return ^uint64(0)
	}
	q, _ := bits.Div64(hi, lo, uint64(total))
	return q
}

// dominantShare is the largest portion of the three, and of what.
func dominantShare(u, capacity Use) (uint64, Resource) {
	best, of := shareOf(u.GPU, capacity.GPU), GPU
	if p := shareOf(u.CPU, capacity.CPU); p > best {
		best, of = p, CPU
	}
	if p := shareOf(u.Memory, capacity.Memory); p > best {
		best, of = p, Memory
	}
	return best, of
}

// weightedShare is the dominant share divided by the weight, in units of One.
func weightedShare(u, capacity Use, weight int64) uint64 {
	best, _ := dominantShare(u, capacity)
	return min(best/uint64(weight), maxShare)
}

// weightMilli turns a weight into an integer; 0 means 1.
func weightMilli(weight float64) int64 {
	if weight == 0 {
		return 1000
	}
	return max(int64(float64(weight*1000)+0.5), 1) // the conversion keeps machines from fusing the two
}
