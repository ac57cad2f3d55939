package score

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// Scorer says what placing a member on a node costs.
type Scorer struct {
	cfg     *config.Config
	cluster *cluster.Cluster

	policy Policy // nil for the default

	Demand      demandTracker
	ScoreCaches scoreCachePool
	idleScratch []idleNode // scratch of weighAll, by profile
	// free is what each node has left and the mix could use of that, by position.
	// It is good where freeStamp is the node's count of changes.
	free       []freeCapacity
	freeStamp  []int
	freeLayout int           // layout as of which positions are right
	freeMix    int           // the mix as of which it is right
	types      []typeDemands // by number of the node type
	MixCount   int           // and these
}

func New(cfg *config.Config, cluster *cluster.Cluster) *Scorer {
	sc := &Scorer{cfg: cfg, cluster: cluster}
	sc.Demand.Kinds = map[demandKind]*demandCount{}
	if policy := policies[cfg.Placement]; policy != nil {
		sc.policy = policy(Basis{cfg, cluster})
	} else if cfg.Placement != config.PolicyDefault {
		panic("engine: placement policy " + string(cfg.Placement) + " is not linked into this program") // Config.Check is asked first
	}
	return sc
}
