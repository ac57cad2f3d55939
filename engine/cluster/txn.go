package cluster

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// Txn is a transaction on the ledger. It logs every delta, so that all changes since a
// savepoint can be undone.
type Txn struct {
	Cluster *Cluster
	Deltas  []Delta
}

// Delta is one change to the account of a node: a part of one device, or the rest of a
// seat, which is its CPUs, memory and seat count. Negative amounts return capacity.
type Delta struct {
	Node   *Node
	Device int // position in Node.Devices, or RestOfSeat or RestOfLeaving
	Milli  int
	CPUs   int
	Memory int // MB
	NUMA   int // ID of the NUMA node of a seat, -1 for none
	Kind   int // kind of a seat
}

// The values of Delta.Device that are not devices.
const (
	RestOfSeat    = -1 // of a seat that is taken
	RestOfLeaving = -2 // of a seat that is released
)

// Savepoint is a length of the log to which Undo can return.
type Savepoint int

// Mark returns a savepoint at the current state.
func (x *Txn) Mark() Savepoint { return Savepoint(len(x.Deltas)) }

// Undo reverses every delta since the savepoint, in reverse order.
func (x *Txn) Undo(m Savepoint) {
	for i := len(x.Deltas) - 1; i >= int(m); i-- {
		x.Deltas[i].Apply(-1)
	}
	for i := int(m); i < len(x.Deltas); i++ {
		if n := x.Deltas[i].Node; x.Deltas[i].Device < 0 && (i+1 == len(x.Deltas) || x.Deltas[i+1].Node != n) {
			x.Cluster.CapacityChanged(n)
		}
	}
	clear(x.Deltas[m:])
	x.Deltas = x.Deltas[:m]
}

// Apply adds the delta to the account of its node; with sign -1 it reverses it. It does
// not update the indexes.
func (k *Delta) Apply(sign int) {
	n := k.Node
	if k.Device < 0 { // the rest of a seat
		n.CPUs += sign * k.CPUs
		n.Memory += sign * k.Memory
		if k.NUMA >= 0 {
			n.chargeNUMA(k.NUMA, sign*k.CPUs, sign*k.Memory)
		}
		if k.Device == RestOfLeaving {
			sign = -sign
		}
		n.Seats += sign
		n.Kinds.Add(k.Kind, sign)
		return
	}
	d := &n.Devices[k.Device]
	if d.Taken += sign * k.Milli; d.Taken == 0 {
		n.Free |= 1 << k.Device & n.Usable
	} else {
		n.Free &^= 1 << k.Device
	}
}

// Take applies a delta and logs it. The caller calls Cluster.CapacityChanged after the
// last delta of a node.
func (x *Txn) Take(k Delta) {
	k.Apply(+1)
	x.Deltas = append(x.Deltas, k)
}

// AssignDevices takes a seat for one member: the devices of the set, and its CPUs and
// memory, bound to the NUMA node with index numa unless that is -1. The caller calls
// Cluster.CapacityChanged afterwards.
func (x *Txn) AssignDevices(n *Node, w *Request, rank int, set uint64, numa int) ares.Seat {
	seat := ares.Seat{Node: n.ID, Rank: rank, CPUs: w.CPUs, Memory: w.Memory, NUMA: -1}
	if numa >= 0 {
		seat.NUMA = n.Type.numa[numa].ID
	}
	milli := WholeMilli
	if w.Milli > 0 {
		milli = w.Milli
	}
	if set != 0 {
		seat.Shares = make([]ares.Share, 0, bits.OnesCount64(set))
	}
	for m := set; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		x.Take(Delta{Node: n, Device: i, Milli: milli})
		seat.Shares = append(seat.Shares, ares.Share{Device: n.Devices[i].ID, Index: n.Devices[i].index, Milli: milli})
	}
	x.Take(Delta{Node: n, Device: RestOfSeat, CPUs: w.CPUs, Memory: w.Memory, NUMA: seat.NUMA, Kind: SeatKindOf(w.GPUs, w.Milli)})
	return seat
}

// TakeIfFree takes the seats if all of them are free, and otherwise none. It reports
// which.
func (x *Txn) TakeIfFree(seats []ares.Seat) bool {
	m := x.Mark()
	for i := range seats {
		if !x.Cluster.NodesByID[seats[i].Node].SeatIsFree(&seats[i]) {
			x.Undo(m)
			return false
		}
		x.TakeSeats(seats[i : i+1])
	}
	return true
}

// ReleaseSeat releases one taken seat of a node. The caller calls
// Cluster.CapacityChanged afterwards.
func (x *Txn) ReleaseSeat(n *Node, seat *ares.Seat) {
	for k := range seat.Shares {
		if at := n.DeviceIndex(&seat.Shares[k]); at >= 0 {
			x.Take(Delta{Node: n, Device: at, Milli: -seat.Shares[k].Milli})
		}
	}
	x.Take(Delta{Node: n, Device: RestOfLeaving, CPUs: -seat.CPUs, Memory: -seat.Memory, NUMA: seat.NUMA, Kind: KindOfSeat(seat)})
}

// TakeSeats takes seats. They must be free.
func (x *Txn) TakeSeats(seats []ares.Seat) {
	for i := range seats {
		seat := &seats[i]
		n := x.Cluster.NodesByID[seat.Node]
		for k := range seat.Shares {
			x.Take(Delta{Node: n, Device: n.DeviceIndex(&seat.Shares[k]), Milli: seat.Shares[k].Milli})
		}
		x.Take(Delta{Node: n, Device: RestOfSeat, CPUs: seat.CPUs, Memory: seat.Memory, NUMA: seat.NUMA, Kind: KindOfSeat(seat)})
		x.Cluster.CapacityChanged(n)
	}
}
