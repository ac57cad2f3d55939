package config

// PlacementPolicy is a rule that chooses the node of a member. Policies other than the default are for comparisons;
// see package score/baseline. Every policy except the default scores every node, so a decision takes longer on a
// larger cluster. Gangs of several members are placed by topology under every policy.
type PlacementPolicy string

// These are the available policies.
const (
	PolicyDefault    PlacementPolicy = ""           // least fragmentation for the expected jobs
	PolicyRandom     PlacementPolicy = "random"     // any node, any device
	PolicyBestFit    PlacementPolicy = "bestfit"    // fewest CPUs and GPUs left over
	PolicyDotProduct PlacementPolicy = "dotprod"    // smallest product of free and requested resources
	PolicyPacking    PlacementPolicy = "packing"    // shared devices, then used nodes, then idle ones
	PolicyClustering PlacementPolicy = "clustering" // nodes with jobs that request the same number of devices
	PolicyFGD        PlacementPolicy = "fgd"        // steepest descent of fragmentation
)

// PlacementPolicies returns the policies other than the default, in the order in which
// they are listed to users.
func PlacementPolicies() []PlacementPolicy {
	return []PlacementPolicy{PolicyRandom, PolicyDotProduct, PolicyClustering, PolicyPacking, PolicyBestFit, PolicyFGD}
}

// TypicalJob is a kind of job in the target workload of PolicyFGD. Set either GPUs or
// Milli.
type TypicalJob struct {
	GPUs  int // whole devices
	Milli int // thousandths of one device
	CPUs  int
	Model string // acceptable models, separated by |; "" for any
	Count int    // jobs of this kind in the workload
}
