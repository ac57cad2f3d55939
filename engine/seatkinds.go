package engine

import ares "github.com/ares-scheduler/ares"

// seatKinds counts the seats on a node by how many devices each has.
type seatKinds [64]uint16

// seatKindOf is 0 for no device, 1 for a share of one, and one more than the number
// of whole devices; all beyond are one kind.
func seatKindOf(gpus, milli int) int {
	switch {
	case milli > 0 && milli < WholeMilli:
		return 1
	case milli > 0:
		return 2
	case gpus > 0:
		return min(gpus+1, len(seatKinds{})-1)
	}
	return 0
}

// kindOfSeat is the kind of a seat.
func kindOfSeat(seat *ares.Seat) int {
	if len(seat.Shares) == 1 {
		return seatKindOf(0, seat.Shares[0].Milli)
	}
	return seatKindOf(len(seat.Shares), 0)
}

func (k *seatKinds) add(kind, sign int) { k[kind] += uint16(sign) }

// present is the kinds of which there are any, as a set.
func (k *seatKinds) present() (out uint64) {
	for kind := 1; kind < len(k); kind++ {
		if k[kind] > 0 {
			out |= 1 << kind
		}
	}
	return out
}
