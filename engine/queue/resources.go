package queue

import "github.com/ares-scheduler/ares"

// Resources holds an amount of each resource that counts for shares.
type Resources struct {
	GPU    int64 // thousandths of a device, times the weight of its model
	CPU    int64 // cores; those of a seat are rounded up
	Memory int64 // MB
}

// Add returns u + v if `sign` is 1, and u - v if `sign` is -1.
func (u Resources) Add(v Resources, sign int64) Resources {
	return Resources{u.GPU + sign*v.GPU, u.CPU + sign*v.CPU, u.Memory + sign*v.Memory}
}

// addInPlace adds v to u if `sign` is 1, and subtracts v from u if `sign` is -1.
func (u *Resources) addInPlace(v *Resources, sign int64) {
	u.GPU += sign * v.GPU
	u.CPU += sign * v.CPU
	u.Memory += sign * v.Memory
}

// The method `vector` returns the amounts as an array, so that callers can loop over them.
func (u Resources) vector() [3]int64 { return [3]int64{u.GPU, u.CPU, u.Memory} }

// ResourceName names a resource that counts for shares.
type ResourceName string

// These are the resources that count for shares.
const (
	GPU    ResourceName = "gpu"
	CPU    ResourceName = "cpu"
	Memory ResourceName = "memory"
)

// Allocation holds the resources allocated to a job, in the different units that shares, limits and quotas use.
type Allocation struct {
	ForShare  Resources   // for shares
	ForLimits ares.Use    // for limits
	ForQuotas []GPUAmount // for quotas
}

// GPUAmount is an amount of GPUs of one model.
type GPUAmount struct {
	Model int   // index of the model in the tree
	Milli int64 // thousandths of a device, without the weight of the model
}

// addLimitUse adds the second usage to the first if `sign` is 1. It subtracts the second from the first if
// `sign` is -1.
func addLimitUse(to, by *ares.Use, sign int) {
	to.GPUs += sign * by.GPUs
	to.GPUMilli += sign * by.GPUMilli
	to.GPUMemoryMB += sign * by.GPUMemoryMB
	to.CPUs += sign * by.CPUs
	to.CPUMilli += sign * by.CPUMilli
	to.MemoryMB += sign * by.MemoryMB
	to.Jobs += sign * by.Jobs
}
