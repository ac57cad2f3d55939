package topology

import (
	"math/bits"
	"slices"
)

// SetFree records how many whole devices of node i are free, and how many the node has in total. If nothing may be
// placed on the node, the argument `free` is -1. The caller must call SetFree whenever the node's capacity may have
// changed, even if neither number has changed. The cost of a call is proportional to the depth of the tree.
func (t *Tree) SetFree(i, free, total int) {
	if free >= t.capacityWidth {
		t.growCapacityTable(max(free+1, 2*t.capacityWidth))
	}
	before, had := t.free[i], t.total[i]
	l := t.leafOf[i]
	t.logChange(l)
	if before == free && had == total {
		return
	}
	stats := &t.leafStats[l]
	if before >= 0 {
		stats.devices -= had
		stats.free -= before
	}
	if free >= 0 {
		stats.devices += total
		stats.free += free
	}
	t.free[i], t.total[i] = free, total
	if before != free {
		t.moveFreeBit(i, before, free)
		t.updateCapacity(l, before, free)
	}
}

// moveFreeBit moves a node from one bit set of nodesByFree to another.
func (t *Tree) moveFreeBit(i, before, free int) {
	if before >= 0 {
		t.nodesByFree[before][i/64] &^= 1 << (i % 64)
	}
	if free >= 0 {
		t.nodesByFree[free][i/64] |= 1 << (i % 64)
	}
}

// nextWithFree searches the nodes in [i, end). It returns the first node that has the given number of free devices,
// or `end` if there is none.
func (t *Tree) nextWithFree(free, i, end int) int {
	if i >= end {
		return end
	}
	word := t.nodesByFree[free][i/64] >> (i % 64) << (i % 64)
	for at := i / 64; ; word = t.nodesByFree[free][at] {
		if word != 0 {
			return min(at*64+bits.TrailingZeros64(word), end)
		}
		if at++; at*64 >= end {
			return end
		}
	}
}

// updateCapacity updates the capacity of a leaf and its ancestors after the
// free devices of one node have changed.
func (t *Tree) updateCapacity(l int32, before, free int) {
	delta := t.capacityDelta[:max(before, free)+1] // change of the number of members that fit, by devices per member
	clear(delta)
	if before >= 0 {
		delta[0]--
		for d := 1; d <= before; d++ {
			delta[d] -= int32(before / d)
		}
	}
	if free >= 0 {
		delta[0]++
		for d := 1; d <= free; d++ {
			delta[d] += int32(free / d)
		}
	}
	for depth := root; depth <= leaf; depth++ {
		row := t.capacityTable[depth][int(t.ancestors[l][depth])*t.capacityWidth:]
		for d, n := range delta {
			row[d] += n
		}
	}
}

// SetHistory sets the history score of node i. The score is a number from 0 to 1000. Until SetHistory
// is called, the score is DefaultHistory.
func (t *Tree) SetHistory(i, score int) {
	if t.history[i] == score {
		return
	}
	t.leafStats[t.leafOf[i]].history += score - t.history[i]
	t.history[i] = score
	t.logChange(t.leafOf[i])
}

// History returns the history score of node i.
func (t *Tree) History(i int) int { return t.history[i] }

// growCapacityTable extends the capacity table. The table then covers nodes with up to
// width-1 free devices.
func (t *Tree) growCapacityTable(width int) {
	t.capacityWidth = width
	for depth := range t.domains {
		t.capacityTable[depth] = make([]int32, len(t.domains[depth])*width)
	}
	for len(t.nodesByFree) < width {
		t.nodesByFree = append(t.nodesByFree, make([]uint64, (len(t.free)+63)/64))
	}
	t.capacityDelta = make([]int32, width)
	for i, free := range t.free {
		t.updateCapacity(t.leafOf[i], -1, free)
	}
}

// capacityBound returns an upper bound on the number of members that fit in a domain. Each member needs the given
// number of devices. The bound considers only free devices. For members without devices, capacityBound returns the
// number of schedulable nodes. This number is positive if any member can fit.
func (t *Tree) capacityBound(depth, i, devices int) int {
	if devices >= t.capacityWidth {
		return 0
	}
	return int(t.capacityTable[depth][i*t.capacityWidth+devices])
}

// insertSorted adds v to an ascending list, unless the list already contains it.
func insertSorted(list []int32, v int32) []int32 {
	at, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, at, v)
}
