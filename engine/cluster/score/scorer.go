package score

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// Scorer computes the cost of placing a member on a node, and finds the best node.
type Scorer struct {
	cfg     *config.Config
	cluster *cluster.Cluster

	policy Policy // nil for the default, fragmentation

	Demand      demandTracker
	ScoreCaches scoreCachePool
	idleScratch []idleNode // scratch of RescoreAll, by node type
	// free holds the free capacity of each node by position. An entry is valid while
	// freeStamp is the node's count of changes.
	free       []freeCapacity
	freeStamp  []int
	freeLayout int           // cluster layout that free is of
	freeMix    int           // ID of the mix that free is of
	types      []typeDemands // by node type
	MixCount   int           // mixes so far; the ID of the last one
}

// New returns a scorer. It panics when the configured policy is not linked in.
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
