package cluster

import (
	"iter"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Hold is capacity that a transaction withholds from other requests because one job will need it. A job has a hold if
// it has a nomination or a backfill reservation, or if it is restarting or migrating. If the transaction is undone to
// a savepoint that is older than the hold, the hold also ends.
type Hold struct {
	deltas []Delta
}

// HoldSeats holds the free part of each seat. The result named `free` is the number of the given
// seats that are entirely free. HoldSeats skips seats on nodes that are not schedulable.
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
		cpus, memory := max(min(seat.MilliCPUs(), n.Type.MilliCPUs-n.MilliCPUs), 0), max(min(seat.Memory, n.Record.MemoryMB-n.Memory), 0)
		x.Take(Delta{Node: n, Device: RestOfSeat, MilliCPUs: cpus, Memory: memory, NUMA: seat.NUMA, Kind: KindOfSeat(seat)})
		x.Cluster.CapacityChanged(n)
	}
	return x.HoldSince(from), free
}

// HoldSince returns a hold for everything that was taken since a savepoint.
func (x *Txn) HoldSince(m Savepoint) Hold { return Hold{slices.Clone(x.Deltas[m:])} }

// HoldParts holds the free part of each delta. In the list, the deltas for the devices of a seat must come before
// the delta for the rest of the seat.
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
		k.MilliCPUs, k.Memory = max(min(k.MilliCPUs, n.Type.MilliCPUs-n.MilliCPUs), 0), max(min(k.Memory, n.Record.MemoryMB-n.Memory), 0)
		x.Take(k)
		x.Cluster.CapacityChanged(n)
	}
	return x.HoldSince(from)
}

// Release ends a hold within the transaction. If the transaction is later undone to a savepoint that is older than
// the release, the hold is restored.
func (x *Txn) Release(h Hold) {
	for _, k := range h.deltas {
		k.reverse()
		if x.Take(k); k.Device < 0 {
			x.Cluster.CapacityChanged(k.Node)
		}
	}
}

// If `sign` is 1, the method `apply` allocates the capacity that the hold has on the node. If `sign` is -1, it frees
// this capacity.
func (h Hold) apply(n *Node, sign int) {
	for i := range h.deltas {
		if h.deltas[i].Node == n {
			h.deltas[i].Apply(sign)
		}
	}
}

// RoomWithoutHolds returns the number of members that would fit on the node if some of its holds were released.
// RoomWithoutHolds does not change the node.
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

// The method `reverse` negates the delta, so that applying the negated delta gives back the capacity that was taken.
func (k *Delta) reverse() {
	k.Milli, k.MilliCPUs, k.Memory = -k.Milli, -k.MilliCPUs, -k.Memory
	switch k.Device {
	case RestOfSeat:
		k.Device = RestOfLeaving
	case RestOfLeaving:
		k.Device = RestOfSeat
	}
}
