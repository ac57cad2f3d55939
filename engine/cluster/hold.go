package cluster

import (
	"iter"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Hold is what is kept free for one job: for its nomination, its backfill
// reservation, its restart or its migration. It is a part of a transaction: undoing
// the transaction to before the hold ends it too.
type Hold struct {
	deltas []Delta
}

// HoldSeats holds what is free of seats. free is the number of seats of which that is
// all.
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

// HoldSince is a hold of everything that was taken since a savepoint.
func (x *Txn) HoldSince(m Savepoint) Hold { return Hold{slices.Clone(x.Deltas[m:])} }

// HoldParts holds what is left of some parts of nodes.
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

// Release gives up a hold, until the transaction is undone.
func (x *Txn) Release(h Hold) {
	for _, k := range h.deltas {
		k.reverse()
		if x.Take(k); k.Device < 0 {
			x.Cluster.CapacityChanged(k.Node)
		}
	}
}

// apply takes what the hold has on a node, or with sign -1 gives it back.
func (h Hold) apply(n *Node, sign int) {
	for i := range h.deltas {
		if h.deltas[i].Node == n {
			h.deltas[i].Apply(sign)
		}
	}
}

// RoomWithoutHolds is how many members of the request the node could take if it did
// not have some holds.
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

// reverse makes what is taken given.
func (k *Delta) reverse() {
	k.Milli, k.CPUs, k.Memory = -k.Milli, -k.CPUs, -k.Memory
	switch k.Device {
	case RestOfSeat:
		k.Device = RestOfLeaving
	case RestOfLeaving:
		k.Device = RestOfSeat
	}
}
