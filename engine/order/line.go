package order

import (
	"cmp"
	"slices"
)

// slot is an item with what orders it, so that a search reads memory in a row.
type slot[J any] struct {
	rank     uint64
	revision int64
	item     *Item[J]
}

func slotOf[J any](it *Item[J]) slot[J] { return slot[J]{it.rank, it.Revision, it} }

// before is the total order of a leaf.
func (a *slot[J]) before(b *slot[J]) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if a.revision != b.revision {
		return a.revision < b.revision
	}
	return a.item.ID < b.item.ID
}

// line is the waiting jobs of one shape in one leaf, in order. They lie sorted
// in chunks, and heads has the first of each chunk: a job is found by two short
// binary searches, put in by moving less than a chunk, and taken from the front
// by moving nothing.
type line[J any] struct {
	shape  int
	leaf   *Leaf[J]
	place  int // in leaf.lines
	count  int
	heads  []slot[J]
	chunks [][]slot[J]

	// of a pass
	chunk, at int
}

// chunkMost is when a chunk is split.
const chunkMost = 128

// find returns the last chunk that begins at or before s, or the first one.
func (l *line[J]) find(s *slot[J]) int {
	lo, hi := 0, len(l.heads)
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); s.before(&l.heads[mid]) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// search returns how many slots of a chunk are before s.
func search[J any](chunk []slot[J], s *slot[J]) int {
	lo, hi := 0, len(chunk)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); chunk[mid].before(s) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (l *line[J]) push(s slot[J]) {
	l.count++
	last := len(l.chunks) - 1
	if last < 0 {
		l.heads = append(l.heads, s)
		l.chunks = append(l.chunks, []slot[J]{s})
		return
	}
	if c := l.chunks[last]; c[len(c)-1].before(&s) { // the newest is usually the last
		if len(c) < chunkMost {
			l.chunks[last] = append(c, s)
			return
		}
		l.heads = append(l.heads, s)
		l.chunks = append(l.chunks, append(make([]slot[J], 0, chunkMost), s))
		return
	}
	i := l.find(&s)
	if len(l.chunks[i]) >= chunkMost {
		l.split(i)
		if !s.before(&l.heads[i+1]) {
			i++
		}
	}
	c := l.chunks[i]
	l.chunks[i] = slices.Insert(c, search(c, &s), s)
	l.heads[i] = l.chunks[i][0]
}

// split halves a chunk.
func (l *line[J]) split(i int) {
	c := l.chunks[i]
	half := len(c) / 2
	right := append(make([]slot[J], 0, chunkMost), c[half:]...)
	clear(c[half:])
	l.chunks[i] = c[:half]
	l.chunks = slices.Insert(l.chunks, i+1, right)
	l.heads = slices.Insert(l.heads, i+1, right[0])
}

func (l *line[J]) remove(it *Item[J]) {
	l.count--
	i, at := 0, 0
	if l.chunks[0][0].item != it {
		s := slotOf(it)
		i = l.find(&s)
		at = search(l.chunks[i], &s)
	}
	c := l.chunks[i]
	if at == len(c) || c[at].item != it {
		panic("order: an item changed while it waited")
	}
	if at == 0 {
		c[0] = slot[J]{}
		c = c[1:]
	} else {
		c = slices.Delete(c, at, at+1)
	}
	switch {
	case len(c) > 0:
		l.chunks[i], l.heads[i] = c, c[0]
	case i == 0: // the usual one: nothing moves
		l.chunks[0], l.heads[0] = nil, slot[J]{}
		l.chunks, l.heads = l.chunks[1:], l.heads[1:]
	default:
		l.chunks = slices.Delete(l.chunks, i, i+1)
		l.heads = slices.Delete(l.heads, i, i+1)
	}
}

// ahead counts the items of the line before s.
func (l *line[J]) ahead(s *slot[J]) int {
	i := l.find(s)
	n := search(l.chunks[i], s)
	for _, c := range l.chunks[:i] {
		n += len(c)
	}
	return n
}

// upTo counts the items whose rank is at most the one given.
func (l *line[J]) upTo(rank uint64) int {
	n := 0
	for _, c := range l.chunks {
		if c[len(c)-1].rank <= rank {
			n += len(c)
			continue
		}
		k, _ := slices.BinarySearchFunc(c, rank, func(s slot[J], r uint64) int {
			return cmp.Or(cmp.Compare(s.rank, r), -1) // past equal ones
		})
		return n + k
	}
	return n
}

// head is the item at the cursor of a pass.
func (l *line[J]) head() *slot[J] { return &l.chunks[l.chunk][l.at] }

// advance moves the cursor; false means that the line is at its end.
func (l *line[J]) advance() bool {
	if l.at++; l.at < len(l.chunks[l.chunk]) {
		return true
	}
	l.chunk, l.at = l.chunk+1, 0
	return l.chunk < len(l.chunks)
}
