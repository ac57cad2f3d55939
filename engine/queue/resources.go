package queue

import "github.com/ares-scheduler/ares"

// Resources is an amount of each resource that counts for shares.
type Resources struct {
	GPU    int64 // thousandths of a device, times the weight of its model
	CPU    int64 // cores
	Memory int64 // MB
}

// Add returns u + v, or u - v with sign -1.
func (u Resources) Add(v Resources, sign int64) Resources {
	return Resources{u.GPU + sign*v.GPU, u.CPU + sign*v.CPU, u.Memory + sign*v.Memory}
}

// addInPlace adds v, or subtracts it with sign -1.
func (u *Resources) addInPlace(v *Resources, sign int64) {
	u.GPU += sign * v.GPU
	u.CPU += sign * v.CPU
	u.Memory += sign * v.Memory
}

// vector returns the amounts as a list, to loop over.
func (u Resources) vector() [3]int64 { return [3]int64{u.GPU, u.CPU, u.Memory} }

// ResourceName names a resource that counts for shares.
type ResourceName string

// The resources.
const (
	GPU    ResourceName = "gpu"
	CPU    ResourceName = "cpu"
	Memory ResourceName = "memory"
)

// Allocation is what a job gets or has allocated, as each of the three rules counts it.
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

// addLimitUse adds by to to, or subtracts it with sign -1.
func addLimitUse(to, by *ares.Use, sign int) {
	to.GPUs += sign * by.GPUs
	to.GPUMilli += sign * by.GPUMilli
	to.GPUMemoryMB += sign * by.GPUMemoryMB
	to.CPUs += sign * by.CPUs
	to.MemoryMB += sign * by.MemoryMB
	to.Jobs += sign * by.Jobs
}
