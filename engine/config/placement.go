package config

// PlacementPolicy is a rule for which node a member goes to. All but the default are
// there to compare with: each gives every node that has room a score, as the
// simulator of "Beware of Fragmentation" (Weng and others, USENIX ATC 2023)
// does, and takes the first of those with the highest. Their time grows with the
// fleet. Gangs of several members are placed by the topology whatever the rule.
type PlacementPolicy string

// The rules.
const (
	PolicyDefault    PlacementPolicy = ""           // the least stranded capacity
	PolicyRandom     PlacementPolicy = "random"     // any node, any device
	PolicyBestFit    PlacementPolicy = "bestfit"    // the least CPUs and GPUs left over
	PolicyDotProduct PlacementPolicy = "dotprod"    // the least product of what is free and what is asked for
	PolicyPacking    PlacementPolicy = "packing"    // shared devices, then used nodes, then idle ones
	PolicyClustering PlacementPolicy = "clustering" // where jobs that ask for as many devices are
	PolicyFGD        PlacementPolicy = "fgd"        // the steepest descent of fragmentation
)

// PlacementPolicies are the rules by name, in an order for people.
func PlacementPolicies() []PlacementPolicy {
	return []PlacementPolicy{PolicyRandom, PolicyDotProduct, PolicyClustering, PolicyPacking, PolicyBestFit, PolicyFGD}
}

// TypicalJob is a kind of job that is expected, in the numbers a job asks for, and
// how many of the expected jobs are such: the target workload of PlaceFGD.
type TypicalJob struct {
	GPUs  int // whole devices, or
	Milli int // a part of one
	CPUs  int
	Model string // models that will do, separated by |; "" for any
	Count int
}
