package engine

import (
	"iter"
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// Room is what a node has left.
type Room struct {
	Node     *ares.Node
	Whole    int      // devices of which nobody holds a part
	Parts    []uint16 // thousandths left of the devices of which a part is held
	CPUs     int
	MemoryMB int
}

// Milli is what is left of the node's devices, in thousandths.
func (r *Room) Milli() int {
	sum := r.Whole * wholeMilli
	for _, left := range r.Parts {
		sum += int(left)
	}
	return sum
}

// Rooms yields what every node has left, by place, then ID: for those who watch
// how full a fleet is. A room is good until the next one is asked for, and
// nothing of it may be changed.
func (s *State) Rooms() iter.Seq[*Room] {
	return func(yield func(*Room) bool) {
		s.ready()
		var room Room
		for _, n := range s.nodes {
			if n.record == nil {
				continue
			}
			parts := room.Parts[:0]
			if n.open() {
				for m := n.usable &^ n.free; m != 0; m &= m - 1 {
					if left := n.remains(bits.TrailingZeros64(m)); left > 0 {
						parts = append(parts, uint16(left))
					}
				}
			}
			room = Room{Node: n.record, Whole: bits.OnesCount64(n.free), Parts: parts, CPUs: n.record.CPUs - n.cpus, MemoryMB: n.record.MemoryMB - n.memory}
			if !yield(&room) {
				return
			}
		}
	}
}
