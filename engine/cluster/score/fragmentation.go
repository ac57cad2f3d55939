package score

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/topology"
)

// WarmCost is the extra cost of using a device near the thermal limit. WarmCost is larger than the cost of any
// fragmentation.
const WarmCost = 1 << 40

// StrandedMilli converts a cost to the number that users see: the free capacity that the expected jobs can no longer
// use, in thousandths of a device.
func StrandedMilli(cost int64) int {
	if cost > WarmCost/2 {
		cost -= WarmCost
	}
	return int((cost >> tieBits) / mixTotal)
}

// tieBits is the number of low-order bits of a cost that break ties between nodes with the same fragmentation.
const tieBits = 10

// NoFit is the cost of a node on which the member does not fit.
const NoFit = 1<<63 - 1

// FragmentationCost returns the cost of placing one member on a node, where a lower cost is better. The cost is the
// sum of the fragmentation, the scarcity of the model, a tie breaker, WarmCost and HistoryPenalty. Placing a member reduces the capacity that
// the expected jobs can use. The fragmentation is the part of this loss that exceeds the member's own devices.
// FragmentationCost returns NoFit if the member does not fit on the node. If the cost gets a new term that depends
// on the node, cachedIdleCost must also compare that term. The reason is that cachedIdleCost reuses the cost of a
// similar node.
func (sc *Scorer) FragmentationCost(r *cluster.Request, n *cluster.Node) int64 {
	if sp := &sc.cluster.FreeCPUMem[n.Pos]; int(sp.MilliCPUs) < r.MilliCPUs || int(sp.Memory) < r.Memory || !n.Fits(r) {
		return NoFit
	}
	m, p := &sc.Demand.Mix, n.Type
	before := sc.capacityOf(n)
	after := *before
	after.cpus, after.memory = max(int64(p.MilliCPUs-n.MilliCPUs-r.MilliCPUs)/1000, 0), max(after.memory-int64(r.Memory), 0)
	if r.NeedsDevices() {
		after.minus(r, n, m)
	}
	took := int64(r.GPUs*cluster.WholeMilli + r.Milli)
	on := sc.demandsOn(p)
	cost := (before.usable - after.usableBy(on.demands) - took*mixTotal) << tieBits
	cost += on.scarcityCost(r, p)
	// On a tie, prefer the node that would have the fewest free devices left, and then the fewest free CPUs.
	cost += int64(after.total) * 8
	if cores := int64(p.MilliCPUs / 1000); cores > 0 {
		cost += min(after.cpus*8/cores, 7)
	}
	if r.NeedsDevices() && after.total < after.warm {
		cost += WarmCost
	}
	return cost + HistoryPenalty(n)
}

// maxHistoryPenalty is the penalty of a node with history score 0, in thousandths of a stranded device. The penalty
// is small, because using a node with a bad history is better than not starting the job or causing much
// fragmentation.
const maxHistoryPenalty = 250

// HistoryPenalty returns the extra cost of a node that results from its history score. HistoryPenalty returns 0 for
// a node without a history score.
func HistoryPenalty(n *cluster.Node) int64 {
	if n.Score == nil {
		return 0
	}
	return int64(topology.DefaultHistory-n.HistoryScore()) * maxHistoryPenalty / topology.DefaultHistory * mixTotal << tieBits
}
