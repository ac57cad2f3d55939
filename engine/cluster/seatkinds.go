package cluster

import ares "github.com/ares-scheduler/ares"

// SeatKinds counts the seats on a node by how many devices each has.
type SeatKinds [64]uint16

// SeatKindOf is 0 for no device, 1 for a share of one, and one more than the number
// of whole devices; all beyond are one kind.
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

// KindOfSeat is the kind of a seat.
func KindOfSeat(seat *ares.Seat) int {
	if len(seat.Shares) == 1 {
		return SeatKindOf(0, seat.Shares[0].Milli)
	}
	return SeatKindOf(len(seat.Shares), 0)
}

func (k *SeatKinds) Add(kind, sign int) { k[kind] += uint16(sign) }

// Present is the kinds of which there are any, as a set.
func (k *SeatKinds) Present() (out uint64) {
	for kind := 1; kind < len(k); kind++ {
		if k[kind] > 0 {
			out |= 1 << kind
		}
	}
	return out
}
