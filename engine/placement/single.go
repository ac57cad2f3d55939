package placement

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/job"
)

// placeSingle places a job of one member.
func (pl *Placer) placeSingle(sh *job.Shape, r *cluster.Request, allowed *cluster.Set, speculative bool) (ares.Placing, bool) {
	if allowed == &r.Constraints.Feasible.Nodes && r.FailedEpoch == pl.Epoch && !speculative {
		return ares.Placing{}, false // the same request failed in this epoch
	}
	n := pl.bestSingleNode(sh, r, allowed)
	if n == nil {
		if allowed == &r.Constraints.Feasible.Nodes && !speculative {
			r.FailedEpoch = pl.Epoch
		}
		return ares.Placing{}, false
	}
	m := ares.PlacementScore{Level: ares.LevelNode, Domain: n.ID}
	if !r.AnyNodeDoes {
		m.Stranded = score.StrandedMilli(pl.Scorer.FragmentationCost(r, n) - score.HistoryPenalty(n) - pl.Scorer.ScarcityCost(r, n))
	}
	if r.GPUs > 1 {
		m.FirstFit = n.Type.Links.BottleneckMBps(n.Type.Links.FirstFit(r.DeviceMask(n.Type)&n.Free, r.GPUs))
	}
	before := n.Free
	seats := []ares.Seat{pl.assign(n, r, 0)}
	if r.GPUs > 1 {
		m.Bandwidth = n.Type.Links.BottleneckMBps(before &^ n.Free)
	}
	pl.Cluster.CapacityChanged(n)
	return ares.Placing{Seats: seats, Score: pl.Cluster.PairScore(seats), PlacementScore: m}, true
}

// bestSingleNode returns the node for a job of one member, or nil if the job fits on no node. bestSingleNode tries
// preferred nodes in the preferred domain, then all nodes of that domain, then preferred nodes anywhere, and then
// all allowed nodes. In each of these steps, nodes with fewer jobs nearby that the job should be spread from come first.
func (pl *Placer) bestSingleNode(sh *job.Shape, r *cluster.Request, allowed *cluster.Set) *cluster.Node {
	preferred := allowed
	if r.Constraints.Feasible.HasPreference {
		preferred = pl.Cluster.PreferredNodes(&r.Constraints.Feasible, allowed)
	}
	crowd := pl.crowdFor(sh)
	for _, in := range [2]*cluster.Set{preferred, allowed} {
		for i := 0; ; i++ {
			lo, hi, ok := pl.Cluster.Domains.NamedDomain(sh.Wish.Domain, i)
			if !ok {
				break
			}
			if n := crowd.bestNode(pl.Scorer, r, in, lo, hi); n != nil {
				return n
			}
		}
	}
	if n := crowd.bestNode(pl.Scorer, r, preferred, 0, len(pl.Cluster.Nodes)); n != nil || preferred == allowed {
		return n
	}
	return crowd.bestNode(pl.Scorer, r, allowed, 0, len(pl.Cluster.Nodes))
}
