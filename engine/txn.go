package engine

import (
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Txn is undoable work on the ledger: what it takes from nodes it notes, and
// gives back in reverse, to a savepoint or altogether.
type Txn struct {
	cluster *Cluster
	deltas  []delta
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

// takeIfFree takes seats if all of them are free, and else nothing.
func (x *Txn) takeIfFree(seats []ares.Seat) bool {
	m := savepoint(len(x.deltas))
	for i := range seats {
		if !x.cluster.nodesByID[seats[i].Node].seatIsFree(&seats[i]) {
			x.undo(m)
			return false
		}
		x.takeSeats(seats[i : i+1])
	}
	return true
}

// holdSeats takes what is free of seats, and says what that was, and of how many
// it is all.
func (x *Txn) holdSeats(seats []ares.Seat) (held []delta, free int) {
	from := len(x.deltas)
	for i := range seats {
		seat := &seats[i]
		n := x.cluster.nodesByID[seat.Node]
		if n == nil || !n.schedulable() {
			continue
		}
		if n.seatIsFree(seat) {
			free++
		}
		for k := range seat.Shares {
			d := n.deviceIndex(&seat.Shares[k])
			if d < 0 {
				continue
			}
			if some := min(seat.Shares[k].Milli, WholeMilli-n.devices[d].taken); some > 0 {
				x.take(delta{node: n, device: d, milli: some})
			}
		}
		cpus, memory := max(min(seat.CPUs, n.typ.cpus-n.cpus), 0), max(min(seat.Memory, n.record.MemoryMB-n.memory), 0)
		x.take(delta{node: n, device: restOfSeat, cpus: cpus, memory: memory, numa: seat.NUMA, kind: kindOfSeat(seat)})
		x.cluster.capacityChanged(n)
	}
	return slices.Clone(x.deltas[from:]), free
}

// release gives up what was held by holdSeats, until the transaction is undone.
func (x *Txn) release(held []delta) {
	for _, h := range held {
		h.milli, h.cpus, h.memory = -h.milli, -h.cpus, -h.memory
		if h.device == restOfSeat {
			h.device = restOfLeaving
		}
		if x.take(h); h.device < 0 {
			x.cluster.capacityChanged(h.node)
		}
	}
}

// releaseSeat gives up one seat on a node. The node is to be moved afterwards.
func (x *Txn) releaseSeat(n *node, seat *ares.Seat) {
	for k := range seat.Shares {
		if at := n.deviceIndex(&seat.Shares[k]); at >= 0 {
			x.take(delta{node: n, device: at, milli: -seat.Shares[k].Milli})
		}
	}
	x.take(delta{node: n, device: restOfLeaving, cpus: -seat.CPUs, memory: -seat.Memory, numa: seat.NUMA, kind: kindOfSeat(seat)})
}

// reverse makes what is taken given.
func (k *delta) reverse() {
	k.milli, k.cpus, k.memory = -k.milli, -k.cpus, -k.memory
	switch k.device {
	case restOfSeat:
		k.device = restOfLeaving
	case restOfLeaving:
		k.device = restOfSeat
	}
}

// takeSeats takes seats that were found to be free.
func (x *Txn) takeSeats(seats []ares.Seat) {
	for i := range seats {
		seat := &seats[i]
		n := x.cluster.nodesByID[seat.Node]
		for k := range seat.Shares {
			x.take(delta{node: n, device: n.deviceIndex(&seat.Shares[k]), milli: seat.Shares[k].Milli})
		}
		x.take(delta{node: n, device: restOfSeat, cpus: seat.CPUs, memory: seat.Memory, numa: seat.NUMA, kind: kindOfSeat(seat)})
		x.cluster.capacityChanged(n)
	}
}
