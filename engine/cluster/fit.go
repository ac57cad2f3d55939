package cluster

import (
	"iter"
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// RoomWithout returns the number of members that would fit on the node if some occupied
// seats were free. The node is the same afterwards. Victims, expected releases and
// suggestions to end jobs all use this computation.
func (n *Node) RoomWithout(w *Request, seats iter.Seq[*ares.Seat]) int {
	grew, free := n.GainedRoom, n.Free
	for seat := range seats {
		n.Charge(seat, -1)
	}
	for i := range n.Devices {
		if n.Devices[i].Taken == 0 {
			n.Free |= 1 << i & n.Usable
		}
	}
	room := n.RoomFor(w)
	for seat := range seats {
		n.Charge(seat, +1)
	}
	n.GainedRoom, n.Free = grew, free
	return room
}

// SeatIsFree reports whether the seat can be taken as it is: the node is schedulable and
// has its devices, CPUs and memory free. A nil node has no free seats.
func (n *Node) SeatIsFree(seat *ares.Seat) bool {
	if n == nil || !n.Schedulable() || n.Seats >= MaxSeats || n.Type.CPUs-n.CPUs < seat.CPUs || n.Record.MemoryMB-n.Memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		d := n.DeviceIndex(&seat.Shares[i])
		if d < 0 || n.Usable&(1<<d) == 0 || WholeMilli-n.Devices[d].Taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.numaHasRoom(seat)
}

// RoomFor returns the number of members that fit on the node now. It does not apply the
// static filters of nodes.
func (n *Node) RoomFor(w *Request) int {
	fit := n.CPUMemSlots(w.CPUs, w.Memory)
	switch {
	case fit <= 0 || n.Record == nil:
		return 0
	case w.NUMA == NUMARequired:
		return min(fit, n.roomByNUMA(w))
	case w.GPUs > 0:
		return min(fit, bits.OnesCount64(w.DeviceMask(n.Type)&n.Free)/w.GPUs)
	case w.Milli > 0:
		return min(fit, n.shareSlots(w.DeviceMask(n.Type), w.Milli))
	}
	return fit
}

// Fits reports whether one member fits on the node, if the caller knows that its CPUs
// and memory are free.
func (n *Node) Fits(w *Request) bool {
	switch {
	case n.Seats >= MaxSeats:
		return false
	case w.NUMA == NUMARequired:
		return n.roomByNUMA(w) > 0
	case w.GPUs > 0:
		return bits.OnesCount64(w.DeviceMask(n.Type)&n.Free) >= w.GPUs
	case w.Milli > WholeMilli:
		return false
	case w.Milli > 0:
		mask := w.DeviceMask(n.Type)
		return mask&n.Free != 0 || n.TightestShare(mask, w.Milli) != 0
	}
	return true
}

// CPUMemSlots returns the number of members that fit by the seat limit, the free CPUs
// and the free memory of the node.
func (n *Node) CPUMemSlots(cpus, memory int) int {
	fit := MaxSeats - n.Seats
	if cpus > 0 {
		fit = min(fit, (n.Type.CPUs-n.CPUs)/cpus)
	}
	if memory > 0 {
		fit = min(fit, (n.Record.MemoryMB-n.Memory)/memory)
	}
	return max(fit, 0)
}

// shareSlots returns the number of shares of this size that fit on the devices of a mask.
func (n *Node) shareSlots(mask uint64, milli int) int {
	parts := 0
	for m := mask & n.Usable; m != 0; m &= m - 1 {
		parts += max(WholeMilli-n.Devices[bits.TrailingZeros64(m)].Taken, 0) / milli
	}
	return parts
}

// roomByNUMA returns the number of members that fit when each must lie within one NUMA
// node, or with OneNUMA all of them within the same one.
func (n *Node) roomByNUMA(w *Request) int {
	total, most := 0, 0
	for k := range n.Type.numa {
		room := n.roomInNUMA(w, k)
		total += room
		most = max(most, room)
	}
	if w.OneNUMA {
		return most
	}
	return total
}

// NUMAFor returns the index of the NUMA node for members that must share one: the best
// fit, which is the one with the least free capacity that is enough. It is -1 if none.
func (n *Node) NUMAFor(w *Request, members int) int {
	best, least := -1, 0
	for k := range n.Type.numa {
		if room := n.roomInNUMA(w, k); room >= members && (best < 0 || room < least) {
			best, least = k, room
		}
	}
	return best
}

// roomInNUMA returns the number of members that fit in the NUMA node with index k.
func (n *Node) roomInNUMA(w *Request, k int) int {
	fit := MaxSeats
	at := &n.Type.numa[k]
	taken := n.numaTaken(at.ID)
	if w.CPUs > 0 {
		fit = min(fit, (at.CPUs-taken.CPUs)/w.CPUs)
	}
	if w.Memory > 0 {
		fit = min(fit, (at.MemoryMB-taken.Memory)/w.Memory)
	}
	mask := w.DeviceMask(n.Type) & n.Type.Near[k]
	switch {
	case w.GPUs > 0:
		fit = min(fit, bits.OnesCount64(mask&n.Free)/w.GPUs)
	case w.Milli > 0:
		fit = min(fit, n.shareSlots(mask, w.Milli))
	}
	return max(fit, 0)
}

// EmptyRoom returns the number of members that would fit if the node were empty and all
// its devices usable.
func (n *Node) EmptyRoom(w *Request) int {
	bare := Node{Record: n.Record, Type: n.Type, Devices: make([]Device, len(n.Devices)), Usable: 1<<len(n.Devices) - 1}
	bare.Free = bare.Usable
	return bare.RoomFor(w)
}

// FitsBeside reports whether the seat fits beside the allocations of the node. Unlike
// SeatIsFree it ignores whether the node is schedulable and its devices are usable.
func (n *Node) FitsBeside(seat *ares.Seat) bool {
	if n.Seats >= MaxSeats || seat.CPUs > 0 && n.Type.CPUs-n.CPUs < seat.CPUs || seat.Memory > 0 && n.Record.MemoryMB-n.Memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		if d := n.DeviceIndex(&seat.Shares[i]); d >= 0 && WholeMilli-n.Devices[d].Taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.numaHasRoom(seat)
}

// numaHasRoom reports whether the NUMA node of the seat has its CPUs and memory free.
func (n *Node) numaHasRoom(seat *ares.Seat) bool {
	taken := n.numaTaken(seat.NUMA)
	for _, at := range n.Type.numa {
		if at.ID == seat.NUMA {
			return at.CPUs-taken.CPUs >= seat.CPUs && at.MemoryMB-taken.Memory >= seat.Memory
		}
	}
	return false
}
