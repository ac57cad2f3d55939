package engine

import (
	"iter"
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// roomWithout is how many members the node could take if some seats were free. It
// is the one place where that is worked out: for victims, for expected releases and
// for jobs that a user could end.
func (n *node) roomWithout(w *request, seats iter.Seq[*ares.Seat]) int {
	grew, free := n.gainedRoom, n.free
	for seat := range seats {
		n.charge(seat, -1)
	}
	for i := range n.devices {
		if n.devices[i].taken == 0 {
			n.free |= 1 << i & n.usable
		}
	}
	room := n.roomFor(w)
	for seat := range seats {
		n.charge(seat, +1)
	}
	n.gainedRoom, n.free = grew, free
	return room
}

// seatIsFree says whether the seat is free on the node.
func (n *node) seatIsFree(seat *ares.Seat) bool {
	if n == nil || !n.schedulable() || n.seats >= MaxSeats || n.typ.cpus-n.cpus < seat.CPUs || n.record.MemoryMB-n.memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		d := n.deviceIndex(&seat.Shares[i])
		if d < 0 || n.usable&(1<<d) == 0 || WholeMilli-n.devices[d].taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.numaHasRoom(seat)
}

// roomFor is how many members of the want the node could take now.
func (n *node) roomFor(w *request) int {
	fit := n.cpuMemSlots(w.cpus, w.memory)
	switch {
	case fit <= 0 || n.record == nil:
		return 0
	case w.numa == numaRequired:
		return min(fit, n.roomByNUMA(w))
	case w.gpus > 0:
		return min(fit, bits.OnesCount64(w.deviceMask(n.typ)&n.free)/w.gpus)
	case w.milli > 0:
		return min(fit, n.shareSlots(w.deviceMask(n.typ), w.milli))
	}
	return fit
}

// fits says whether there is room for one member of the want on a node that has
// the CPUs and the memory.
func (n *node) fits(w *request) bool {
	switch {
	case n.seats >= MaxSeats:
		return false
	case w.numa == numaRequired:
		return n.roomByNUMA(w) > 0
	case w.gpus > 0:
		return bits.OnesCount64(w.deviceMask(n.typ)&n.free) >= w.gpus
	case w.milli > WholeMilli:
		return false
	case w.milli > 0:
		mask := w.deviceMask(n.typ)
		return mask&n.free != 0 || n.tightestShare(mask, w.milli) != 0
	}
	return true
}

// cpuMemSlots is how many members the node has seats, CPUs and memory for.
func (n *node) cpuMemSlots(cpus, memory int) int {
	fit := MaxSeats - n.seats
	if cpus > 0 {
		fit = min(fit, (n.typ.cpus-n.cpus)/cpus)
	}
	if memory > 0 {
		fit = min(fit, (n.record.MemoryMB-n.memory)/memory)
	}
	return max(fit, 0)
}

// shareSlots is how many shares of this size the devices have left.
func (n *node) shareSlots(mask uint64, milli int) int {
	parts := 0
	for m := mask & n.usable; m != 0; m &= m - 1 {
		parts += max(WholeMilli-n.devices[bits.TrailingZeros64(m)].taken, 0) / milli
	}
	return parts
}

// roomByNUMA is how many members fit when each stays within one NUMA node, or
// all of them in the same.
func (n *node) roomByNUMA(w *request) int {
	total, most := 0, 0
	for k := range n.typ.numa {
		room := n.roomInNUMA(w, k)
		total += room
		most = max(most, room)
	}
	if w.oneNUMA {
		return most
	}
	return total
}

// numaFor is the NUMA node for members that stay together: the one with the
// least room that is enough.
func (n *node) numaFor(w *request, members int) int {
	best, least := -1, 0
	for k := range n.typ.numa {
		if room := n.roomInNUMA(w, k); room >= members && (best < 0 || room < least) {
			best, least = k, room
		}
	}
	return best
}

// roomInNUMA is how many members NUMA node k of the machine could take.
func (n *node) roomInNUMA(w *request, k int) int {
	fit := MaxSeats
	at := &n.typ.numa[k]
	taken := n.numaTaken(at.ID)
	if w.cpus > 0 {
		fit = min(fit, (at.CPUs-taken.cpus)/w.cpus)
	}
	if w.memory > 0 {
		fit = min(fit, (at.MemoryMB-taken.memory)/w.memory)
	}
	mask := w.deviceMask(n.typ) & n.typ.near[k]
	switch {
	case w.gpus > 0:
		fit = min(fit, bits.OnesCount64(mask&n.free)/w.gpus)
	case w.milli > 0:
		fit = min(fit, n.shareSlots(mask, w.milli))
	}
	return max(fit, 0)
}

// emptyRoom is how many members the node would take if it were empty and healthy.
func (n *node) emptyRoom(w *request) int {
	bare := node{record: n.record, typ: n.typ, devices: make([]device, len(n.devices)), usable: 1<<len(n.devices) - 1}
	bare.free = bare.usable
	return bare.roomFor(w)
}

// fitsBeside says whether the seat fits beside what is taken on the node.
func (n *node) fitsBeside(seat *ares.Seat) bool {
	if n.seats >= MaxSeats || seat.CPUs > 0 && n.typ.cpus-n.cpus < seat.CPUs || seat.Memory > 0 && n.record.MemoryMB-n.memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		if d := n.deviceIndex(&seat.Shares[i]); d >= 0 && WholeMilli-n.devices[d].taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.numaHasRoom(seat)
}

// numaHasRoom says whether the seat's NUMA node has its CPUs and memory left.
func (n *node) numaHasRoom(seat *ares.Seat) bool {
	taken := n.numaTaken(seat.NUMA)
	for _, at := range n.typ.numa {
		if at.ID == seat.NUMA {
			return at.CPUs-taken.cpus >= seat.CPUs && at.MemoryMB-taken.memory >= seat.Memory
		}
	}
	return false
}
