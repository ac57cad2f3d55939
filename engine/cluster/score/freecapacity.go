package score

import (
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// freeCapacity is the free capacity of a node, and what the workload mix could use of
// it.
type freeCapacity struct {
	whole  [cluster.MaxGroups]int32 // free devices by group
	total  int32                    // sum of whole
	warm   int32                    // free devices near the thermal limit
	parts  int64                    // thousandths of all devices that shares are expected to fill
	cpus   int64
	memory int64
	usable int64 // capacity usable by the mix: see usableBy
}

// SyncLayout drops the cached capacities and scores when nodes have new positions, and
// the cached capacities when the mix has changed.
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

// capacityOf returns the free capacity of a schedulable node. It is recomputed when
// the node has changed since.
func (sc *Scorer) capacityOf(n *cluster.Node) *freeCapacity {
	if sc.freeStamp[n.Pos] != n.Changes {
		sc.freeStamp[n.Pos] = n.Changes
		sc.refreshCapacity(n)
	}
	return &sc.free[n.Pos]
}

// refreshCapacity computes the free capacity of a schedulable node.
func (sc *Scorer) refreshCapacity(n *cluster.Node) {
	m, p := &sc.Demand.Mix, n.Type
	f := freeCapacity{warm: int32(bits.OnesCount64(n.Free & n.Warm)), cpus: int64(max(p.CPUs-n.CPUs, 0)), memory: int64(max(n.Record.MemoryMB-n.Memory, 0))}
	for g, mask := range p.Groups {
		if mask != 0 {
			f.whole[g] = int32(bits.OnesCount64(n.Free & mask))
			f.total += f.whole[g]
		}
	}
	f.parts = int64(f.total) * int64(m.Fills[cluster.WholeMilli])
	for rest := n.Usable &^ n.Free; rest != 0; rest &= rest - 1 {
		f.parts += int64(m.Fills[max(cluster.WholeMilli-n.Devices[bits.TrailingZeros64(rest)].Taken, 0)])
	}
	f.usable = f.usableBy(sc.demandsOn(p))
	sc.free[n.Pos] = f
}

// usableBy returns how much of the free capacity the kinds of a mix could use, in
// thousandths of a device times their weights. Each kind counts as if it came alone,
// bounded by devices, CPUs and memory. What a placement takes of this beyond its own
// devices is fragmentation: the gradient of Weng and others (USENIX ATC 2023),
// extended by CPUs and memory, so that devices are not left with too little of either.
func (f *freeCapacity) usableBy(kinds []mixDemand) int64 {
	if f.parts == 0 && f.total == 0 {
		return 0
	}
	var sum int64
	for i := range kinds {
		d := &kinds[i]
		most := f.parts
		if d.gpus > 0 {
			most = f.devicesFor(d) * cluster.WholeMilli
		}
		if d.cpu > 0 {
			most = min(most, f.cpus*d.cpu>>carryBits)
		}
		if d.memory > 0 {
			most = min(most, f.memory*d.memory>>carryBits)
		}
		sum += most * d.weight
	}
	return sum
}

// devicesFor returns how many free devices jobs of a kind could use: a multiple of the
// devices of one member.
func (f *freeCapacity) devicesFor(d *mixDemand) int64 {
	free := int64(f.whole[0])
	if d.groups != 1 {
		free = 0
		for g, n := range f.whole {
			free += int64(n) * int64(d.groups>>g&1)
		}
	}
	if d.gpus > 1 {
		free -= free % d.gpus
	}
	return free
}

// minus removes what a member would take on a node: whole devices, or a share of the
// device that fits it most tightly.
func (f *freeCapacity) minus(r *cluster.Request, n *cluster.Node, m *WorkloadMix) {
	mask := r.DeviceMask(n.Type)
	need := int32(r.GPUs)
	if r.Milli > 0 {
		set := n.TightestShare(mask, r.Milli)
		if set != 0 {
			left := cluster.WholeMilli - n.Devices[bits.TrailingZeros64(set)].Taken
			f.parts += int64(m.Fills[left-r.Milli] - m.Fills[left])
			return
		}
		f.parts += int64(m.Fills[cluster.WholeMilli-r.Milli])
		need = 1
	}
	f.parts -= int64(need) * int64(m.Fills[cluster.WholeMilli])
	f.total -= need
	for g := range f.whole {
		if mask&n.Type.Groups[g] != 0 {
			some := min(need, f.whole[g])
			f.whole[g] -= some
			need -= some
		}
	}
}
