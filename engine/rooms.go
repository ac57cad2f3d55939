package engine

import (
	"iter"
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// FreeCapacity is what a node has left.
type FreeCapacity struct {
	Node     *ares.Node
	Whole    int      // devices of which nobody holds a part
	Parts    []uint16 // thousandths left of the devices of which a part is held
	CPUs     int
	MemoryMB int
}

// Milli is what is left of the node's devices, in thousandths.
func (r *FreeCapacity) Milli() int {
	sum := r.Whole * WholeMilli
	for _, left := range r.Parts {
		sum += int(left)
	}
	return sum
}

// FreeCapacities yields what every node has left, by place, then ID: for those who watch
// how full a fleet is. A room is good until the next one is asked for, and
// nothing of it may be changed.
func (s *State) FreeCapacities() iter.Seq[*FreeCapacity] {
	return func(yield func(*FreeCapacity) bool) {
		s.core.refresh()
		var room FreeCapacity
		for _, n := range s.core.cluster.nodes {
			if n.record == nil {
				continue
			}
			parts := room.Parts[:0]
			if n.schedulable() {
				for m := n.usable &^ n.free; m != 0; m &= m - 1 {
					if left := n.freeMilliOf(bits.TrailingZeros64(m)); left > 0 {
						parts = append(parts, uint16(left))
					}
				}
			}
			room = FreeCapacity{Node: n.record, Whole: bits.OnesCount64(n.free), Parts: parts, CPUs: n.record.CPUs - n.cpus, MemoryMB: n.record.MemoryMB - n.memory}
			if !yield(&room) {
				return
			}
		}
	}
}
