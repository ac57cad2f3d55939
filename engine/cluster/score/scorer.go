package score

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// Scorer computes the cost of placing a member on a node, and finds the node with the lowest cost.
type Scorer struct {
	cfg     *config.Config
	cluster *cluster.Cluster

	policy Policy // nil for the default policy, fragmentation

	Demand      demandTracker
	ScoreCaches scoreCachePool
	idleScratch []idleNode // scratch of RescoreAll, by node type
	// The slice `free` holds the free capacity of each node, indexed by the node's position. An entry is valid
	// while the value in freeStamp equals the node's change count.
	free       []freeCapacity
	freeStamp  []int
	freeLayout int           // cluster layout for which free was computed
	freeMix    int           // ID of the mix for which free was computed
	types      []typeDemands // by node type
	MixCount   int           // number of mixes so far, which is the ID of the last one
	supplySeen int           // number of changes of Cluster.Supply when the mix was last computed
}

// New returns a scorer. New panics if the configured policy is not linked into the program.
func New(cfg *config.Config, cluster *cluster.Cluster) *Scorer {
	sc := &Scorer{cfg: cfg, cluster: cluster}
	sc.Demand.Kinds = map[demandKind]*demandCount{}
	if policy := policies[cfg.Placement]; policy != nil {
		sc.policy = policy(Basis{cfg, cluster})
	} else if cfg.Placement != config.PolicyDefault {
		panic("engine: placement policy " + string(cfg.Placement) + " is not linked into this program") // a program that accepts the name must import the package
	}
	return sc
}
