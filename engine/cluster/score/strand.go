package score

import (
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/topology"
)

// freeCapacity is what is left on a node, in plain units, to reckon with.
type freeCapacity struct {
	whole  [cluster.MaxGroups]int32 // free devices
	total  int32                    // all of these
	warm   int32                    // of these, near the limit of heat
	parts  int64                    // thousandths of all devices that shares will fill
	cpus   int64
	memory int64
	usable int64 // by the expected mix
}

// WarmCost is what using a device near the limit of heat costs: more than any
// fragmentation.
const WarmCost = 1 << 40

// StrandedMilli is the cost of a placement as people read it: what it adds to the
// capacity the expected jobs cannot use, in thousandths of a device.
func StrandedMilli(cost int64) int {
	if cost > WarmCost/2 {
		cost -= WarmCost
	}
	return int((cost >> tieBits) / mixTotal)
}

// tieBits are the lowest bits of a cost: they tell apart what strands the same.
const tieBits = 10

// SyncLayout drops what is kept for each node when nodes have other positions,
// and what is kept by the mix when that is another.
func (sc *Scorer) SyncLayout() {
	if sc.freeLayout != sc.cluster.Layout {
		sc.freeLayout = sc.cluster.Layout
		sc.free = slices.Grow(sc.free[:0], len(sc.cluster.Nodes))[:len(sc.cluster.Nodes)]
		sc.freeStamp = slices.Grow(sc.freeStamp[:0], len(sc.cluster.Nodes))[:len(sc.cluster.Nodes)]
		clear(sc.freeStamp)
		sc.ScoreCaches.clear()
	}
	if sc.freeMix != sc.Demand.Mix.ID {
		sc.freeMix = sc.Demand.Mix.ID
		clear(sc.freeStamp)
	}
}

// capacityOf is what a schedulable node has left, and what of that the mix can use.
func (sc *Scorer) capacityOf(n *cluster.Node) *freeCapacity {
	if sc.freeStamp[n.Pos] != n.Changes {
		sc.freeStamp[n.Pos] = n.Changes
		sc.refreshCapacity(n)
	}
	return &sc.free[n.Pos]
}

// refreshCapacity works out the capacity of a schedulable node.
func (sc *Scorer) refreshCapacity(n *cluster.Node) {
	o, p := &sc.Demand.Mix, n.Type
	h := freeCapacity{warm: int32(bits.OnesCount64(n.Free & n.Warm)), cpus: int64(max(p.CPUs-n.CPUs, 0)), memory: int64(max(n.Record.MemoryMB-n.Memory, 0))}
	for g, mask := range p.Groups {
		if mask != 0 {
			h.whole[g] = int32(bits.OnesCount64(n.Free & mask))
			h.total += h.whole[g]
		}
	}
	h.parts = int64(h.total) * int64(o.Fills[cluster.WholeMilli])
	for m := n.Usable &^ n.Free; m != 0; m &= m - 1 {
		h.parts += int64(o.Fills[max(cluster.WholeMilli-n.Devices[bits.TrailingZeros64(m)].Taken, 0)])
	}
	h.usable = h.usableBy(sc.demandsOn(p))
	sc.free[n.Pos] = h
}

// usableBy is how much of what is left the expected kinds could use, in thousandths
// of a device by their weights: each kind as if it came alone, bounded by
// devices, by CPUs and by memory. What a placement takes of it beyond what it
// holds itself is stranded: the fragmentation gradient of Weng and others
// (USENIX ATC 2023), with CPUs and memory counted as well, so that devices are
// not left beside too few of either.
func (h *freeCapacity) usableBy(kinds []mixDemand) int64 {
	if h.parts == 0 && h.total == 0 {
		return 0
	}
	var sum int64
	for i := range kinds {
		a := &kinds[i]
		most := h.parts
		if a.gpus > 0 {
			most = h.devicesFor(a) * cluster.WholeMilli
		}
		if a.cpu > 0 {
			most = min(most, h.cpus*a.cpu>>carryBits)
		}
		if a.memory > 0 {
			most = min(most, h.memory*a.memory>>carryBits)
		}
		sum += most * a.weight
	}
	return sum
}

// devicesFor is how many free devices asks of the kind could take.
func (h *freeCapacity) devicesFor(a *mixDemand) int64 {
	free := int64(h.whole[0])
	if a.groups != 1 {
		free = 0
		for g, n := range h.whole {
			free += int64(n) * int64(a.groups>>g&1)
		}
	}
	if a.gpus > 1 {
		free -= free % a.gpus
	}
	return free
}

// NoFit is the cost of a node that cannot take the want.
const NoFit = 1<<63 - 1

// FragmentationCost is what placing one member of the want on the node would strand: lower
// is better. noFit when it has no room. Who did badly so far costs more.
func (sc *Scorer) FragmentationCost(w *cluster.Request, n *cluster.Node) int64 {
	if sp := &sc.cluster.FreeCPUMem[n.Pos]; int(sp.CPUs) < w.CPUs || int(sp.Memory) < w.Memory || !n.Fits(w) {
		return NoFit
	}
	o, p := &sc.Demand.Mix, n.Type
	before := sc.capacityOf(n)
	h := *before
	h.cpus, h.memory = max(h.cpus-int64(w.CPUs), 0), max(h.memory-int64(w.Memory), 0)
	if w.NeedsDevices() {
		h.minus(w, n, o)
	}
	took := int64(w.GPUs*cluster.WholeMilli + w.Milli)
	cost := (before.usable - h.usableBy(sc.demandsOn(p)) - took*mixTotal) << tieBits
	// Then the tightest: fewest free devices left over, fewest CPUs.
	cost += int64(h.total) * 8
	if p.CPUs > 0 {
		cost += min(h.cpus*8/int64(p.CPUs), 7)
	}
	if w.NeedsDevices() && h.total < h.warm {
		cost += WarmCost
	}
	return cost + HistoryPenalty(n)
}

// minus removes the devices that the want would get on the node, or the part of
// one.
func (h *freeCapacity) minus(w *cluster.Request, n *cluster.Node, o *WorkloadMix) {
	mask := w.DeviceMask(n.Type)
	need := int32(w.GPUs)
	if w.Milli > 0 {
		set := n.TightestShare(mask, w.Milli)
		if set != 0 {
			left := cluster.WholeMilli - n.Devices[bits.TrailingZeros64(set)].Taken
			h.parts += int64(o.Fills[left-w.Milli] - o.Fills[left])
			return
		}
		h.parts += int64(o.Fills[cluster.WholeMilli-w.Milli])
		need = 1
	}
	h.parts -= int64(need) * int64(o.Fills[cluster.WholeMilli])
	h.total -= need
	for g := range h.whole {
		if mask&n.Type.Groups[g] != 0 {
			some := min(need, h.whole[g])
			h.whole[g] -= some
			need -= some
		}
	}
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
	return int64(topology.DefaultHistory-n.HistoryScore()) * maxHistoryPenalty / topology.DefaultHistory * mixTotal << tieBits
}
