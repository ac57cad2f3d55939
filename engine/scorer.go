package engine

import "github.com/ares-scheduler/ares/engine/config"

// Scorer says what placing a member on a node costs.
type Scorer struct {
	cfg     *config.Config
	cluster *Cluster

	demand      demandTracker
	scoreCaches scoreCachePool
	idleScratch []idleNode // scratch of weighAll, by profile
	jobDraw     uint64     // of the job under way, where lots are drawn
	// free is what each node has left and the mix could use of that, by position.
	// It is good where freeStamp is the node's count of changes.
	free       []freeCapacity
	freeStamp  []int
	freeLayout int                        // layout as of which positions are right
	freeMix    int                        // the mix as of which it is right
	types      []typeDemands              // by number of the node type
	fgdByType  []fgdWorkload              // by number of the node type
	fgdScores  map[*request][]cachedScore // by position of the node
	mixCount   int                        // and these
}

func newScorer(cfg *config.Config, cluster *Cluster) *Scorer {
	sc := &Scorer{cfg: cfg, cluster: cluster}
	sc.demand.kinds = map[demandKind]*demandCount{}
	return sc
}
