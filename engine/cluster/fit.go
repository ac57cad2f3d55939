package cluster

import (
	"iter"
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// RoomWithout is how many members the node could take if some seats were free. It
// is the one place where that is worked out: for victims, for expected releases and
// for jobs that a user could end.
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

// SeatIsFree says whether the seat is free on the node.
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

// RoomFor is how many members of the want the node could take now.
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

// Fits says whether there is room for one member of the want on a node that has
// the CPUs and the memory.
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

// CPUMemSlots is how many members the node has seats, CPUs and memory for.
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

// shareSlots is how many shares of this size the devices have left.
func (n *Node) shareSlots(mask uint64, milli int) int {
	parts := 0
	for m := mask & n.Usable; m != 0; m &= m - 1 {
		parts += max(WholeMilli-n.Devices[bits.TrailingZeros64(m)].Taken, 0) / milli
	}
	return parts
}

// roomByNUMA is how many members fit when each stays within one NUMA node, or
// all of them in the same.
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

// NUMAFor is the NUMA node for members that stay together: the one with the
// least room that is enough.
func (n *Node) NUMAFor(w *Request, members int) int {
	best, least := -1, 0
	for k := range n.Type.numa {
		if room := n.roomInNUMA(w, k); room >= members && (best < 0 || room < least) {
			best, least = k, room
		}
	}
	return best
}

// roomInNUMA is how many members NUMA node k of the machine could take.
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

// EmptyRoom is how many members the node would take if it were empty and healthy.
func (n *Node) EmptyRoom(w *Request) int {
	bare := Node{Record: n.Record, Type: n.Type, Devices: make([]Device, len(n.Devices)), Usable: 1<<len(n.Devices) - 1}
	bare.Free = bare.Usable
	return bare.RoomFor(w)
}

// FitsBeside says whether the seat fits beside what is taken on the node.
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

// numaHasRoom says whether the seat's NUMA node has its CPUs and memory left.
func (n *Node) numaHasRoom(seat *ares.Seat) bool {
	taken := n.numaTaken(seat.NUMA)
	for _, at := range n.Type.numa {
		if at.ID == seat.NUMA {
			return at.CPUs-taken.CPUs >= seat.CPUs && at.MemoryMB-taken.Memory >= seat.Memory
		}
	}
	return false
}
