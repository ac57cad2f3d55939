package ares

// Fairness holds two shares of the cluster for each tenant and queue: the current share and the
// fair share.
type Fairness struct {
	Shares []FairShare // by tenant, then queue
	// Jain is Jain's fairness index, in thousandths. It is computed from the weighted shares of
	// all tenants that use or request resources. It is 1000 when these shares are equal.
	Jain int
}

// FairShare is the share of a tenant or of one of its queues. Shares are in millionths.
type FairShare struct {
	Tenant        string
	Queue         string // "" for the tenant as a whole
	Weight        float64
	Counts        float64 // the effective weight; it differs from Weight if the weight follows past use
	GPUMilli      int     // devices in thousandths, times the weight of their model
	CPUs          int
	MemoryMB      int
	Waiting       int    // number of waiting jobs
	Resource      string // the dominant resource: gpu, cpu or memory, "" when it holds nothing
	DominantShare int    // the share of the cluster's capacity of that resource that it holds
	PastShare     int    // its decayed past use, as a share
	WeightedShare int    // current and past share together, divided by the weight
	FairShare     int    // the share that its weight entitles it to, among all tenants or queues that hold or request something
}
