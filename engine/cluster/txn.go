package cluster

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// Txn is a transaction on the ledger. Txn logs every delta, so that all changes since a savepoint can be undone.
type Txn struct {
	Cluster *Cluster
	Deltas  []Delta
}

// Delta is one change to the allocations of a node. A delta changes either one device, or the CPUs, the memory and
// the number of seats on the node. A delta with negative amounts frees capacity.
type Delta struct {
	Node      *Node
	Device    int // position in Node.Devices, or RestOfSeat or RestOfLeaving
	Milli     int
	MilliCPUs int // thousandths of cores
	Memory    int // MB
	NUMA      int // ID of the NUMA node of a seat, or -1
	Kind      int // kind of a seat
}

// With these values of Delta.Device, the delta changes the CPUs, the memory and the number of seats instead of a
// device.
const (
	RestOfSeat    = -1 // the rest of a seat that is taken
	RestOfLeaving = -2 // the rest of a seat that is released
)

// Savepoint is a point in a transaction's log to which Undo can return. The value of a savepoint is the length of the
// log at that point.
type Savepoint int

// Mark returns a savepoint at the current state.
func (x *Txn) Mark() Savepoint { return Savepoint(len(x.Deltas)) }

// Undo reverses every delta that was applied since the savepoint, the last one first.
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

// Apply adds the delta to the node's allocations if `sign` is 1. It reverses the delta if `sign` is -1. Apply
// does not update the indexes.
func (k *Delta) Apply(sign int) {
	n := k.Node
	if k.Device < 0 { // the rest of a seat
		n.MilliCPUs += sign * k.MilliCPUs
		n.Memory += sign * k.Memory
		if k.NUMA >= 0 {
			n.chargeNUMA(k.NUMA, sign*k.MilliCPUs, sign*k.Memory)
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

// Take applies a delta and logs it. After the last delta of a node, the caller must call Cluster.CapacityChanged.
func (x *Txn) Take(k Delta) {
	k.Apply(+1)
	x.Deltas = append(x.Deltas, k)
}

// AssignDevices takes a seat for one member of a job. The seat consists of the given devices and of the CPUs and
// memory that the request needs. The seat is bound to the NUMA node with the index `numa`, unless `numa` is -1.
// After AssignDevices, the caller must call Cluster.CapacityChanged.
func (x *Txn) AssignDevices(n *Node, w *Request, rank int, set uint64, numa int) ares.Seat {
	seat := ares.Seat{Node: n.ID, Rank: rank, CPUs: w.MilliCPUs / 1000, CPUMilli: w.MilliCPUs % 1000, Memory: w.Memory, NUMA: -1}
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
	x.Take(Delta{Node: n, Device: RestOfSeat, MilliCPUs: w.MilliCPUs, Memory: w.Memory, NUMA: seat.NUMA, Kind: SeatKindOf(w.GPUs, w.Milli)})
	return seat
}

// TakeIfFree takes the seats if all of them are free, and reports whether it took them. If any of the seats is not
// free, TakeIfFree takes no seat.
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

// ReleaseSeat releases one seat that is taken on a node. After ReleaseSeat, the caller must call
// Cluster.CapacityChanged.
func (x *Txn) ReleaseSeat(n *Node, seat *ares.Seat) {
	for k := range seat.Shares {
		if at := n.DeviceIndex(&seat.Shares[k]); at >= 0 {
			x.Take(Delta{Node: n, Device: at, Milli: -seat.Shares[k].Milli})
		}
	}
	x.Take(Delta{Node: n, Device: RestOfLeaving, MilliCPUs: -seat.MilliCPUs(), Memory: -seat.Memory, NUMA: seat.NUMA, Kind: KindOfSeat(seat)})
}

// TakeSeats takes the given seats. The caller must ensure that the seats are free.
func (x *Txn) TakeSeats(seats []ares.Seat) {
	for i := range seats {
		seat := &seats[i]
		n := x.Cluster.NodesByID[seat.Node]
		for k := range seat.Shares {
			x.Take(Delta{Node: n, Device: n.DeviceIndex(&seat.Shares[k]), Milli: seat.Shares[k].Milli})
		}
		x.Take(Delta{Node: n, Device: RestOfSeat, MilliCPUs: seat.MilliCPUs(), Memory: seat.Memory, NUMA: seat.NUMA, Kind: KindOfSeat(seat)})
		x.Cluster.CapacityChanged(n)
	}
}
