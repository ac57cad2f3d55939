package ares

// Fairness says who holds how much of the fleet against what is theirs.
type Fairness struct {
	Shares []FairShare // by tenant, then queue
	// Jain is Jain's index over the weighted shares of the tenants that hold or
	// want something, in thousandths: 1000 when all are equal.
	Jain int
}

// FairShare is what a tenant, or one of its queues, holds. Shares are in
// millionths.
type FairShare struct {
	Tenant        string
	Queue         string // "" for the tenant as a whole
	Weight        float64
	Counts        float64 // what the weight comes to: another where it follows past use
	GPUMilli      int     // devices in thousandths, times the weight of their model
	CPUs          int
	MemoryMB      int
	Waiting       int    // jobs
	Resource      string // of which it holds the largest part: gpu, cpu or memory, "" for nothing
	DominantShare int    // that part of the fleet's
	PastShare     int    // of what it used before, decayed
	WeightedShare int    // both together, divided by the weight
	FairShare     int    // what its weight entitles it to beside the others that hold or want something
}
