package cluster

import (
	"iter"
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// RoomWithout returns the number of members that would fit on the node if some occupied seats were free. RoomWithout
// does not change the node. The victim search, the expected releases and the suggestions to end jobs all use
// RoomWithout.
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

// SeatIsFree reports whether the seat can be taken unchanged: the node is schedulable, and the devices, CPUs and memory
// of the seat are free. If the node is nil, SeatIsFree returns false.
func (n *Node) SeatIsFree(seat *ares.Seat) bool {
	if n == nil || !n.Schedulable() || n.Seats >= n.SeatLimit || n.Type.MilliCPUs-n.MilliCPUs < seat.MilliCPUs() || n.Record.MemoryMB-n.Memory < seat.Memory {
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

// RoomFor returns the number of members that fit on the node now. RoomFor does not apply the static node filters.
func (n *Node) RoomFor(w *Request) int {
	fit := n.CPUMemSlots(w.MilliCPUs, w.Memory)
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

// Fits reports whether one member fits on the node. The caller must have checked that enough CPUs and memory are
// free.
func (n *Node) Fits(w *Request) bool {
	switch {
	case n.Seats >= n.SeatLimit:
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

// CPUMemSlots returns how many members fit on the node. It considers only the node's seat limit, free CPUs and free
// memory.
func (n *Node) CPUMemSlots(milliCPUs, memory int) int {
	fit := n.SeatLimit - n.Seats
	if milliCPUs > 0 {
		fit = min(fit, (n.Type.MilliCPUs-n.MilliCPUs)/milliCPUs)
	}
	if memory > 0 {
		fit = min(fit, (n.Record.MemoryMB-n.Memory)/memory)
	}
	return max(fit, 0)
}

// shareSlots returns how many shares of the given size fit on the devices in a mask.
func (n *Node) shareSlots(mask uint64, milli int) int {
	parts := 0
	for m := mask & n.Usable; m != 0; m &= m - 1 {
		parts += max(WholeMilli-n.Devices[bits.TrailingZeros64(m)].Taken, 0) / milli
	}
	return parts
}

// roomByNUMA returns the number of members that fit when each must be within one NUMA node. If OneNUMA is set, all
// members must be within the same NUMA node.
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

// NUMAFor returns the index of the best NUMA node for members that must all be in one NUMA node. The best NUMA node
// is the one with the least free capacity among those that have enough. NUMAFor returns -1 if no NUMA node has
// enough free capacity.
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
	fit := n.SeatLimit
	at := &n.Type.numa[k]
	taken := n.numaTaken(at.ID)
	if w.MilliCPUs > 0 {
		fit = min(fit, (at.MilliCPUs()-taken.MilliCPUs)/w.MilliCPUs)
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
// its devices were usable.
func (n *Node) EmptyRoom(w *Request) int {
	bare := Node{
		Record: n.Record, Type: n.Type, SeatLimit: n.SeatLimit, Devices: make([]Device, len(n.Devices)), Usable: 1<<len(n.Devices) - 1,
	}
	bare.Free = bare.Usable
	return bare.RoomFor(w)
}

// FitsBeside reports whether the seat fits on the node in addition to the current allocations. Unlike SeatIsFree,
// FitsBeside accepts nodes that are not schedulable and devices that are not usable.
func (n *Node) FitsBeside(seat *ares.Seat) bool {
	if n.Seats >= n.SeatLimit || seat.MilliCPUs() > 0 && n.Type.MilliCPUs-n.MilliCPUs < seat.MilliCPUs() || seat.Memory > 0 && n.Record.MemoryMB-n.Memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		if d := n.DeviceIndex(&seat.Shares[i]); d >= 0 && WholeMilli-n.Devices[d].Taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.numaHasRoom(seat)
}

// numaHasRoom reports whether the CPUs and memory of the seat are free on the seat's NUMA node.
func (n *Node) numaHasRoom(seat *ares.Seat) bool {
	taken := n.numaTaken(seat.NUMA)
	for _, at := range n.Type.numa {
		if at.ID == seat.NUMA {
			return at.MilliCPUs()-taken.MilliCPUs >= seat.MilliCPUs() && at.MemoryMB-taken.Memory >= seat.Memory
		}
	}
	return false
}
