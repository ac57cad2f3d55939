package engine

import ares "github.com/ares-scheduler/ares"

// An elastic job has between min_members and members seats, as many as fit
// when an attempt starts.

// asksOf is what an attempt with so many members counts against the tenant.
func (sh *shape) asksOf(members int) ares.Use {
	n := sh.members
	return ares.Use{
		GPUs: sh.asks.GPUs / n * members, GPUMilli: sh.asks.GPUMilli / n * members, GPUMemoryMB: sh.asks.GPUMemoryMB / n * members,
		CPUs: sh.asks.CPUs / n * members, MemoryMB: sh.asks.MemoryMB / n * members, Jobs: sh.asks.Jobs,
	}
}

// affords is the most members, up to those asked for, that the tenant's limits
// allow now.
func (sh *shape) affords() int {
	n := sh.members
	for ; n > sh.least; n-- {
		if _, _, _, over := sh.tenant.record.Limits.Excess(sh.tenant.use.Add(sh.asksOf(n))); !over {
			break
		}
	}
	return n
}
