package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

// Txn is undoable work on the ledger: what it takes from nodes it notes, and
// gives back in reverse, to a savepoint or altogether.
type Txn struct {
	cluster *Cluster
	deltas  []delta
}

// placedJob is a job the decision under way has placed.
type placedJob struct {
	entry *entry
	seats []ares.Seat
}

// delta is a part of one device, or the rest of a seat when device is restOfSeat.
// What is less than nothing is given.
type delta struct {
	node   *node
	device int
	milli  int
	cpus   int
	memory int
	numa   int
	kind   int
}

// The takings that are not devices.
const (
	restOfSeat    = -1
	restOfLeaving = -2 // of a seat that is given up
)

// savepoint is a point to go back to.
type savepoint int

// undo gives back everything taken since the mark.
func (x *Txn) undo(m savepoint) {
	for i := len(x.deltas) - 1; i >= int(m); i-- {
		x.deltas[i].apply(-1)
	}
	for i := int(m); i < len(x.deltas); i++ {
		if n := x.deltas[i].node; x.deltas[i].device < 0 && (i+1 == len(x.deltas) || x.deltas[i+1].node != n) {
			x.cluster.capacityChanged(n)
		}
	}
	clear(x.deltas[m:])
	x.deltas = x.deltas[:m]
}

func (k *delta) apply(sign int) {
	n := k.node
	if k.device < 0 { // the one taking of a seat that is not a device
		n.cpus += sign * k.cpus
		n.memory += sign * k.memory
		if k.numa >= 0 {
			n.chargeNUMA(k.numa, sign*k.cpus, sign*k.memory)
		}
		if k.device == restOfLeaving {
			sign = -sign
		}
		n.seats += sign
		n.kinds.add(k.kind, sign)
		return
	}
	d := &n.devices[k.device]
	if d.taken += sign * k.milli; d.taken == 0 {
		n.free |= 1 << k.device & n.usable
	} else {
		n.free &^= 1 << k.device
	}
}

func (x *Txn) take(k delta) {
	k.apply(+1)
	x.deltas = append(x.deltas, k)
}

// assign takes the place of one member on a node that has room for it: the
// devices that are linked best.
func (pl *Placer) assign(n *node, w *request, rank int) ares.Seat {
	if set := pl.scorer.policyDevice(n, w); set != 0 {
		return pl.txn.assignDevices(n, w, rank, set, -1)
	}
	set, numa := n.pickDevices(w)
	return pl.txn.assignDevices(n, w, rank, set, numa)
}

// assignAll takes the places of members of a gang, whose seats so far are given.
func (pl *Placer) assignAll(n *node, w *request, members int, seats []ares.Seat) []ares.Seat {
	home := -1
	if w.oneNUMA {
		home = n.numaFor(w, members)
	}
	for range members {
		if home < 0 {
			seats = append(seats, pl.assign(n, w, len(seats)))
			continue
		}
		set, _ := n.chooseDevices(w, w.deviceMask(n.typ)&n.typ.near[home], 0)
		seats = append(seats, pl.txn.assignDevices(n, w, len(seats), set, home))
	}
	return seats
}

// assignDevices takes these devices, and CPUs and memory of the NUMA node, -1 for any.
func (x *Txn) assignDevices(n *node, w *request, rank int, set uint64, numa int) ares.Seat {
	seat := ares.Seat{Node: n.id, Rank: rank, CPUs: w.cpus, Memory: w.memory, NUMA: -1}
	if numa >= 0 {
		seat.NUMA = n.typ.numa[numa].ID
	}
	milli := WholeMilli
	if w.milli > 0 {
		milli = w.milli
	}
	if set != 0 {
		seat.Shares = make([]ares.Share, 0, bits.OnesCount64(set))
	}
	for m := set; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		x.take(delta{node: n, device: i, milli: milli})
		seat.Shares = append(seat.Shares, ares.Share{Device: n.devices[i].id, Index: n.devices[i].index, Milli: milli})
	}
	x.take(delta{node: n, device: restOfSeat, cpus: w.cpus, memory: w.memory, numa: seat.NUMA, kind: seatKindOf(w.gpus, w.milli)})
	return seat
}

// pickDevices chooses the devices of one member, and the NUMA node it is bound to, -1
// for none. The node has room for it.
func (n *node) pickDevices(w *request) (set uint64, numa int) {
	if w.numa == numaNone || len(n.typ.numa) == 0 {
		set, _ = n.chooseDevices(w, w.deviceMask(n.typ), 0)
		return set, -1
	}
	if w.numa == numaRequired || !w.needsDevices() {
		if set, numa = n.pickWithinNUMA(w); numa >= 0 {
			return set, numa
		}
	}
	var home uint64
	for k := range n.typ.numa {
		if n.roomInNUMA(w, k) > 0 {
			home |= n.typ.near[k]
		}
	}
	set, _ = n.chooseDevices(w, w.deviceMask(n.typ), home)
	for k := range n.typ.numa {
		if set != 0 && set&^n.typ.near[k] == 0 && n.roomInNUMA(w, k) > 0 {
			return set, k
		}
	}
	return set, -1
}

// pickWithinNUMA chooses the NUMA node whose devices are linked best, then the one
// with the least room left.
func (n *node) pickWithinNUMA(w *request) (set uint64, numa int) {
	numa = -1
	var best links.Choice
	for k := range n.typ.numa {
		room := n.roomInNUMA(w, k)
		if room == 0 {
			continue
		}
		s, c := n.chooseDevices(w, w.deviceMask(n.typ)&n.typ.near[k], 0)
		c.RemainingValue = -room
		if numa < 0 || betterLinks(c, best) {
			set, numa, best = s, k, c
		}
	}
	return set, numa
}

func betterLinks(a, b links.Choice) bool {
	if a.BottleneckMBps != b.BottleneckMBps {
		return a.BottleneckMBps > b.BottleneckMBps
	}
	if a.TotalMBps != b.TotalMBps {
		return a.TotalMBps > b.TotalMBps
	}
	return a.RemainingValue > b.RemainingValue
}

// chooseDevices picks devices out of a mask: for a share the one with the least left
// that is enough, and whole devices by their links. Warm ones come last.
func (n *node) chooseDevices(w *request, mask, home uint64) (uint64, links.Choice) {
	if !w.needsDevices() {
		return 0, links.Choice{}
	}
	for _, m := range [2]uint64{mask &^ n.warm, mask} {
		if w.milli > 0 {
			if set := n.tightestShare(m, w.milli); set != 0 {
				return set, links.Choice{}
			}
		}
		if c, ok := n.typ.links.Best(m&n.free, home, max(w.gpus, 1)); ok {
			return c.Devices, c
		}
	}
	panic("engine: node " + n.id + " has no room for what it was given")
}

// tightestShare is the partly taken device of the mask with the least left that is
// enough, empty when there is none.
func (n *node) tightestShare(mask uint64, milli int) (set uint64) {
	least := WholeMilli
	for m := mask & n.usable &^ n.free; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if left := WholeMilli - n.devices[i].taken; left >= milli && left < least {
			set, least = 1<<i, left
		}
	}
	return set
}
