package queue

import "github.com/ares-scheduler/ares"

// Use is an amount of each resource that counts for shares.
type Use struct {
	GPU    int64 // thousandths of a device, times the weight of its model
	CPU    int64 // cores
	Memory int64 // MB
}

// Add returns u + v, or u - v with sign -1.
func (u Use) Add(v Use, sign int64) Use {
	return Use{u.GPU + sign*v.GPU, u.CPU + sign*v.CPU, u.Memory + sign*v.Memory}
}

// addInPlace adds v, or subtracts it with sign -1.
func (u *Use) addInPlace(v *Use, sign int64) {
	u.GPU += sign * v.GPU
	u.CPU += sign * v.CPU
	u.Memory += sign * v.Memory
}

// vector returns the amounts as a list, to loop over.
func (u Use) vector() [3]int64 { return [3]int64{u.GPU, u.CPU, u.Memory} }

// Resource names a resource that counts for shares.
type Resource string

// The resources.
const (
	GPU    Resource = "gpu"
	CPU    Resource = "cpu"
	Memory Resource = "memory"
)

// Grant is what a job gets or has allocated, as each of the three rules counts it.
type Grant struct {
	Use  Use      // for shares
	Held ares.Use // for limits
	GPUs []Part   // for quotas
}

// Part is an amount of GPUs of one model.
type Part struct {
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
