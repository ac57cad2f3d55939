package score

import (
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// freeCapacity is the free capacity of a node, and the part of it that jobs of the workload mix could use.
type freeCapacity struct {
	whole  [cluster.MaxGroups]int32 // free devices by group
	total  int32                    // sum of whole
	warm   int32                    // free devices near the thermal limit
	parts  int64                    // thousandths of all devices that shares are expected to fill
	cpus   int64
	memory int64
	usable int64 // capacity usable by the mix: see usableBy
}

// SyncLayout drops the cached capacities if the mix has changed. If nodes have new positions, SyncLayout drops the
// cached capacities and the cached scores.
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

// capacityOf returns the free capacity of a schedulable node. capacityOf recomputes the free capacity if the node has
// changed since the last call.
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
	f := freeCapacity{warm: int32(bits.OnesCount64(n.Free & n.Warm)), cpus: int64(max(p.MilliCPUs-n.MilliCPUs, 0) / 1000), memory: int64(max(n.Record.MemoryMB-n.Memory, 0))}
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
	f.usable = f.usableBy(sc.demandsOn(p).demands)
	sc.free[n.Pos] = f
}

// usableBy returns the free capacity that requests of the given kinds could use, in thousandths of a device. The
// result is a sum in which each kind counts with its weight. For each kind, usableBy assumes that all requests are of
// this kind, and computes how much of the free devices, CPUs and memory these requests could use. If a placement
// reduces the usable capacity by more than its own devices, the difference is fragmentation. The loss of usable
// capacity is the fragmentation gradient of Weng and others (USENIX ATC 2023). Unlike the original gradient, usableBy
// also considers CPUs and memory. So placements avoid idle devices on nodes with too few free CPUs or too little free
// memory.
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

// devicesFor returns how many of the free devices could be used by jobs of one kind. The number is a multiple of the
// number of devices that one member needs.
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

// The method `minus` subtracts the capacity that a member would use on a node. A member uses either whole devices or
// a share of one device. A share is taken from the device with the least free capacity among those where it fits.
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
