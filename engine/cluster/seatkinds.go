package cluster

import ares "github.com/ares-scheduler/ares"

// SeatKinds is the number of seats on a node of each kind. The kind of a seat tells how
// many devices it has.
type SeatKinds [64]uint16

// SeatKindOf returns the kind of a seat: 0 without devices, 1 for a share of one device,
// and else one more than the number of whole devices. The last kind is for all larger
// numbers too.
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

// KindOfSeat returns the kind of a seat.
func KindOfSeat(seat *ares.Seat) int {
	if len(seat.Shares) == 1 {
		return SeatKindOf(0, seat.Shares[0].Milli)
	}
	return SeatKindOf(len(seat.Shares), 0)
}

// Add counts a seat of a kind; with sign -1 it discounts it.
func (k *SeatKinds) Add(kind, sign int) { k[kind] += uint16(sign) }

// Present returns the kinds with a device that some seat has, as a bit mask.
func (k *SeatKinds) Present() (out uint64) {
	for kind := 1; kind < len(k); kind++ {
		if k[kind] > 0 {
			out |= 1 << kind
		}
	}
	return out
}
