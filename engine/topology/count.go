package topology

import (
	"math/bits"
	"slices"
)

// Set notes that node i has so many whole free devices of so many in all; free
// is -1 where nothing may be placed. It is to be told whenever Room may answer
// otherwise, with the same numbers too. It costs the depth of the tree.
func (t *Tree) Set(i, free, total int) {
	if free >= t.width {
		t.widen(max(free+1, 2*t.width))
	}
	before, had := t.free[i], t.total[i]
	l := t.leafOf[i]
	t.changed(l)
	if before == free && had == total {
		return
	}
	sums := &t.sums[l]
	if before >= 0 {
		sums.devices -= had
		sums.free -= before
	}
	if free >= 0 {
		sums.devices += total
		sums.free += free
	}
	t.free[i], t.total[i] = free, total
	if before != free {
		t.mark(i, before, free)
		t.recount(l, before, free)
	}
}

// mark moves a node from one set of nodes to another.
func (t *Tree) mark(i, before, free int) {
	if before >= 0 {
		t.bits[before][i/64] &^= 1 << (i % 64)
	}
	if free >= 0 {
		t.bits[free][i/64] |= 1 << (i % 64)
	}
}

// next finds the first node from i on, before end, with so many free devices;
// it is end when there is none.
func (t *Tree) next(free, i, end int) int {
	if i >= end {
		return end
	}
	word := t.bits[free][i/64] >> (i % 64) << (i % 64)
	for at := i / 64; ; word = t.bits[free][at] {
		if word != 0 {
			return min(at*64+bits.TrailingZeros64(word), end)
		}
		if at++; at*64 >= end {
			return end
		}
	}
}

// recount notes that a node of a leaf has other free devices.
func (t *Tree) recount(l int32, before, free int) {
	more := t.more[:max(before, free)+1] // members that fit beside those that did
	clear(more)
	if before >= 0 {
		more[0]--
		for d := 1; d <= before; d++ {
			more[d] -= int32(before / d)
		}
	}
	if free >= 0 {
		more[0]++
		for d := 1; d <= free; d++ {
			more[d] += int32(free / d)
		}
	}
	for depth := fleet; depth <= leaf; depth++ {
		counts := t.counts[depth][int(t.up[l][depth])*t.width:]
		for d, n := range more {
			counts[d] += n
		}
	}
}

// Remember notes how node i has done so far, from 0 to 1000: DefaultHistory
// until it is told.
func (t *Tree) Remember(i, score int) {
	if t.history[i] == score {
		return
	}
	t.sums[t.leafOf[i]].history += score - t.history[i]
	t.history[i] = score
	t.changed(t.leafOf[i])
}

// History is what was told of node i.
func (t *Tree) History(i int) int { return t.history[i] }

// widen makes the counts reach so many devices a node.
func (t *Tree) widen(width int) {
	t.width = width
	for depth := range t.domains {
		t.counts[depth] = make([]int32, len(t.domains[depth])*width)
	}
	for len(t.bits) < width {
		t.bits = append(t.bits, make([]uint64, (len(t.free)+63)/64))
	}
	t.more = make([]int32, width)
	for i, free := range t.free {
		t.recount(t.leafOf[i], -1, free)
	}
}

// seats is how many members of so many devices each a domain has room for, as
// its free devices tell: Room may say less. Of members without devices it is
// not known, and there is a seat wherever a node is open.
func (t *Tree) seats(depth, i, devices int) int {
	if devices >= t.width {
		return 0
	}
	return int(t.counts[depth][i*t.width+devices])
}

// insert adds to an ascending list what is not in it.
func insert(list []int32, v int32) []int32 {
	at, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, at, v)
}
