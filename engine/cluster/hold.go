package cluster

import (
	"iter"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Hold is capacity that a transaction withholds from other requests, for the sake of one
// job: for its nomination, its backfill reservation, its restart or its migration.
// Undoing the transaction to a savepoint before the hold ends the hold too.
type Hold struct {
	deltas []Delta
}

// HoldSeats holds the free part of each seat. free is the number of seats that are
// entirely free. Seats on nodes that are not schedulable are skipped.
func (x *Txn) HoldSeats(seats []ares.Seat) (hold Hold, free int) {
	from := x.Mark()
	for i := range seats {
		seat := &seats[i]
		n := x.Cluster.NodesByID[seat.Node]
		if n == nil || !n.Schedulable() {
			continue
		}
		if n.SeatIsFree(seat) {
			free++
		}
		for k := range seat.Shares {
			d := n.DeviceIndex(&seat.Shares[k])
			if d < 0 {
				continue
			}
			if some := min(seat.Shares[k].Milli, WholeMilli-n.Devices[d].Taken); some > 0 {
				x.Take(Delta{Node: n, Device: d, Milli: some})
			}
		}
		cpus, memory := max(min(seat.CPUs, n.Type.CPUs-n.CPUs), 0), max(min(seat.Memory, n.Record.MemoryMB-n.Memory), 0)
		x.Take(Delta{Node: n, Device: RestOfSeat, CPUs: cpus, Memory: memory, NUMA: seat.NUMA, Kind: KindOfSeat(seat)})
		x.Cluster.CapacityChanged(n)
	}
	return x.HoldSince(from), free
}

// HoldSince returns a hold of everything that was taken since a savepoint.
func (x *Txn) HoldSince(m Savepoint) Hold { return Hold{slices.Clone(x.Deltas[m:])} }

// HoldParts holds the free part of each delta. The rest of a seat must follow the
// devices of the seat.
func (x *Txn) HoldParts(parts []Delta) Hold {
	from := x.Mark()
	for _, k := range parts {
		n := k.Node
		if k.Device >= 0 {
			if k.Milli = min(k.Milli, WholeMilli-n.Devices[k.Device].Taken); k.Milli > 0 {
				x.Take(k)
			}
			continue
		}
		k.CPUs, k.Memory = max(min(k.CPUs, n.Type.CPUs-n.CPUs), 0), max(min(k.Memory, n.Record.MemoryMB-n.Memory), 0)
		x.Take(k)
		x.Cluster.CapacityChanged(n)
	}
	return x.HoldSince(from)
}

// Release ends a hold within the transaction: undoing to a savepoint before the release
// restores the hold.
func (x *Txn) Release(h Hold) {
	for _, k := range h.deltas {
		k.reverse()
		if x.Take(k); k.Device < 0 {
			x.Cluster.CapacityChanged(k.Node)
		}
	}
}

// apply takes the part of the hold that is on the node; with sign -1 it returns it.
func (h Hold) apply(n *Node, sign int) {
	for i := range h.deltas {
		if h.deltas[i].Node == n {
			h.deltas[i].Apply(sign)
		}
	}
}

// RoomWithoutHolds returns the number of members that would fit on the node without some
// of its holds. The node is the same afterwards.
func (n *Node) RoomWithoutHolds(w *Request, holds iter.Seq[Hold]) int {
	for h := range holds {
		h.apply(n, -1)
	}
	room := n.RoomFor(w)
	for h := range holds {
		h.apply(n, +1)
	}
	return room
}

// reverse turns the delta into its opposite: what it takes, it then returns.
func (k *Delta) reverse() {
	k.Milli, k.CPUs, k.Memory = -k.Milli, -k.CPUs, -k.Memory
	switch k.Device {
	case RestOfSeat:
		k.Device = RestOfLeaving
	case RestOfLeaving:
		k.Device = RestOfSeat
	}
}
