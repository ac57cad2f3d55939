package topology

import (
	"math/bits"
	"slices"
)

// SetFree records that node i has this number of free whole devices of its total;
// free is -1 if nothing may be placed there. The caller must call Set whenever
// the node's capacity may have changed, even if both numbers are the same. The
// cost is proportional to the depth of the tree.
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

// moveFreeBit moves a node between the bit sets of nodesByFree.
func (t *Tree) moveFreeBit(i, before, free int) {
	if before >= 0 {
		t.nodesByFree[before][i/64] &^= 1 << (i % 64)
	}
	if free >= 0 {
		t.nodesByFree[free][i/64] |= 1 << (i % 64)
	}
}

// nextWithFree returns the first node in [i, end) with this number of free
// devices, or end if there is none.
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
	for depth := fleet; depth <= leaf; depth++ {
		row := t.capacityTable[depth][int(t.ancestors[l][depth])*t.capacityWidth:]
		for d, n := range delta {
			row[d] += n
		}
	}
}

// SetHistory sets the history score of node i, from 0 to 1000. It is
// DefaultHistory until it is set.
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

// growCapacityTable extends the capacity table to nodes with up to width-1 free
// devices.
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

// capacityBound returns an upper bound on the members of this many devices each
// that fit in a domain, from its free devices alone. For members without
// devices it returns the number of open nodes, which is positive if any member
// can fit.
func (t *Tree) capacityBound(depth, i, devices int) int {
	if devices >= t.capacityWidth {
		return 0
	}
	return int(t.capacityTable[depth][i*t.capacityWidth+devices])
}

// insertSorted adds v to an ascending list that does not have it yet.
func insertSorted(list []int32, v int32) []int32 {
	at, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, at, v)
}
