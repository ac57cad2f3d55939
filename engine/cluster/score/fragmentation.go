package score

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/topology"
)

// WarmCost is the extra cost of a device near the thermal limit. It exceeds any
// fragmentation.
const WarmCost = 1 << 40

// StrandedMilli converts a cost to the unit that users read: the free capacity that
// the expected jobs can no longer use, in thousandths of a device.
func StrandedMilli(cost int64) int {
	if cost > WarmCost/2 {
		cost -= WarmCost
	}
	return int((cost >> tieBits) / mixTotal)
}

// tieBits is the number of low bits of a cost that break ties between nodes with the
// same fragmentation.
const tieBits = 10

// NoFit is the cost of a node that a member does not fit on.
const NoFit = 1<<63 - 1

// FragmentationCost returns the cost of placing one member on a node; lower is better.
// It is the usable capacity that the node loses beyond what the member itself takes,
// plus a tie breaker, WarmCost and HistoryPenalty. The result is NoFit when the member
// does not fit. A new term that depends on the node must also be compared in
// cachedIdleCost, which reuses the cost of a like node.
func (sc *Scorer) FragmentationCost(r *cluster.Request, n *cluster.Node) int64 {
	if sp := &sc.cluster.FreeCPUMem[n.Pos]; int(sp.CPUs) < r.CPUs || int(sp.Memory) < r.Memory || !n.Fits(r) {
		return NoFit
	}
	m, p := &sc.Demand.Mix, n.Type
	before := sc.capacityOf(n)
	after := *before
	after.cpus, after.memory = max(after.cpus-int64(r.CPUs), 0), max(after.memory-int64(r.Memory), 0)
	if r.NeedsDevices() {
		after.minus(r, n, m)
	}
	took := int64(r.GPUs*cluster.WholeMilli + r.Milli)
	cost := (before.usable - after.usableBy(sc.demandsOn(p)) - took*mixTotal) << tieBits
	// Ties go to the tightest node: fewest free devices left, then fewest CPUs.
	cost += int64(after.total) * 8
	if p.CPUs > 0 {
		cost += min(after.cpus*8/int64(p.CPUs), 7)
	}
	if r.NeedsDevices() && after.total < after.warm {
		cost += WarmCost
	}
	return cost + HistoryPenalty(n)
}

// maxHistoryPenalty is the penalty of a node with history score 0, in thousandths of a
// stranded device. It is small: a node with a bad history is still better than none,
// and better than much fragmentation.
const maxHistoryPenalty = 250

// HistoryPenalty returns the cost that the history score of a node adds for every
// request; 0 for a node without a score.
func HistoryPenalty(n *cluster.Node) int64 {
	if n.Score == nil {
		return 0
	}
	return int64(topology.DefaultHistory-n.HistoryScore()) * maxHistoryPenalty / topology.DefaultHistory * mixTotal << tieBits
}
