package score

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/topology"
)

// WarmCost is what using a device near the limit of heat costs: more than any
// fragmentation.
const WarmCost = 1 << 40

// StrandedMilli is the cost of a placement as people read it: what it adds to the
// capacity the expected jobs cannot use, in thousandths of a device.
func StrandedMilli(cost int64) int {
	if cost > WarmCost/2 {
		cost -= WarmCost
	}
	return int((cost >> TieBits) / MixTotal)
}

// TieBits are the lowest bits of a cost: they tell apart what strands the same.
const TieBits = 10

// NoFit is the cost of a node that cannot take the want.
const NoFit = 1<<63 - 1

// FragmentationCost is what placing one member of the want on the node would strand: lower
// is better. noFit when it has no room. Who did badly so far costs more.
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
	cost := (before.usable - after.usableBy(sc.demandsOn(p)) - took*MixTotal) << TieBits
	// Then the tightest: fewest free devices left over, fewest CPUs.
	cost += int64(after.total) * 8
	if p.CPUs > 0 {
		cost += min(after.cpus*8/int64(p.CPUs), 7)
	}
	if r.NeedsDevices() && after.total < after.warm {
		cost += WarmCost
	}
	return cost + HistoryPenalty(n)
}

// maxHistoryPenalty is what a node with the score 0 costs beside one with the full score:
// as much as to strand so many thousandths of a device. It is little: a node that
// did badly is still better than none, and than to break up much.
const maxHistoryPenalty = 250

// HistoryPenalty is what a node's score adds to every cost there.
func HistoryPenalty(n *cluster.Node) int64 {
	if n.Score == nil {
		return 0
	}
	return int64(topology.DefaultHistory-n.HistoryScore()) * maxHistoryPenalty / topology.DefaultHistory * MixTotal << TieBits
}
