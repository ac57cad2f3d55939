package cluster

import ares "github.com/ares-scheduler/ares"

// SeatKinds counts the seats of each kind on a node. The kind of a seat is a number that depends on how many devices
// the seat has.
type SeatKinds [64]uint16

// SeatKindOf returns the kind of a seat with the given devices. The kind is 0 for a seat without devices and 1 for a
// share of one device. For a seat with whole devices, the kind is the number of devices plus one. Seats with very
// many devices all have the last kind.
func SeatKindOf(gpus, milli int) int {
	switch {
	case milli > 0 && milli < WholeMilli:
		return 1
	case milli > 0:
		return 2
	case gpus > 0:
		return min(gpus+1, len(SeatKinds{})-1)
	}
	return 0
}

// KindOfSeat returns the kind of an existing seat.
func KindOfSeat(seat *ares.Seat) int {
	if len(seat.Shares) == 1 {
		return SeatKindOf(0, seat.Shares[0].Milli)
	}
	return SeatKindOf(len(seat.Shares), 0)
}

// Add adds a seat of the given kind to the counts if `sign` is 1. It subtracts the seat if `sign` is -1.
func (k *SeatKinds) Add(kind, sign int) { k[kind] += uint16(sign) }

// Present returns a bit mask of the seat kinds that occur on the node, except the kind without devices.
func (k *SeatKinds) Present() (out uint64) {
	for kind := 1; kind < len(k); kind++ {
		if k[kind] > 0 {
			out |= 1 << kind
		}
	}
	return out
}
