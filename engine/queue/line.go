package queue

import (
	"iter"
	"math"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// slot is an item with what orders it in nearly all cases, so that a search
// reads memory in a row and compares one number.
type slot[J any] struct {
	prefix uint64
	item   *Item[J]
}

// A key is the beginning of the order in 64 bits: one that critical items lack,
// twice the level upside down, and the revision, or of a lifted item the rest of
// its time. What does not fit is cut off at the bounds, which never turns two
// items round, and equal keys are told apart by the items themselves.
const (
	levelBits       = 31
	revisionBits    = 32
	maxLevelBits    = 1<<levelBits - 1
	maxRevisionBits = 1<<revisionBits - 1
)

// prefixBase is the level where keys begin, upside down. It leaves room for
// 85 years from 2020 at ten seconds a step, and for 30 at one.
func (c Config) prefixBase() int64 {
	if c.Ranked {
		return fullKeyBase
	}
	if c.Step <= 0 {
		return -2 * ares.MaxPriority
	}
	return 2 * (c.ageingSteps(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) - ares.MaxPriority)
}

// fullKeyBase is the base of keys that are the ranks themselves.
const fullKeyBase = math.MinInt64

func (t *Tree[J]) slotOf(it *Item[J]) slot[J] {
	rest := it.Revision
	if it.boosted {
		rest = t.cfg.stepOffset(it.Due)
	}
	return slot[J]{keyPrefix(it.orderKey, rest, t.prefixBase), it}
}

// stepOffset is the milliseconds since the step of a time began.
func (c Config) stepOffset(at time.Time) int64 {
	return at.UnixMilli() - c.ageingSteps(at)*max(c.Step.Milliseconds(), 1)
}

func keyPrefix(rank uint64, rest, base int64) uint64 {
	if base == fullKeyBase {
		return rank
	}
	level := int64(rank&^notCritical) - levelBias - base // upside down
	return rank&notCritical | uint64(min(max(level, 0), maxLevelBits))<<revisionBits | uint64(min(max(rest, 0), maxRevisionBits))
}

// before is the total order of a leaf.
func (a *slot[J]) before(b *slot[J]) bool {
	return a.prefix < b.prefix || a.prefix == b.prefix && a.item.before(b.item)
}

func (it *Item[J]) before(other *Item[J]) bool {
	if it.orderKey != other.orderKey {
		return it.orderKey < other.orderKey
	}
	if it.boosted && !it.Due.Equal(other.Due) { // so is the other: nobody else is between two levels
		return it.Due.Before(other.Due)
	}
	if it.Revision != other.Revision {
		return it.Revision < other.Revision
	}
	return it.ID < other.ID
}

// shapeQueue is the waiting jobs of one shape in one leaf. Nearly all are filed: they
// lie in order in chunks, each of them wholly before the next. Those that came
// since are late: they lie as they came, and are filed when somebody comes to
// read the line beyond its head, or takes one out of it. Many are filed by one
// sort, few are put in one by one.
type shapeQueue[J any] struct {
	shape        int
	leaf         *Leaf[J]
	index        int // in leaf.lines and leaf.heads
	count        int
	arrivals     []slot[J]   // in the order they came
	fullArrivals [][]slot[J] // full rooms of them, which came before
	chunkStarts  []slot[J]   // where chunks begin, or before it; the first does not count
	chunks       []chunk[J]
}

// chunk is neighbours of a line: first those in their order, and then some that
// came since. These are put in order when somebody comes to read the chunk.
type chunk[J any] struct {
	slots  []slot[J]
	start  int // from the front
	sorted int // the end of what is in order
}

// maxChunk is when a chunk is split.
const maxChunk = 128

// maxInsertions is up to how many are put into a chunk one by one.
const maxInsertions = 6

func (c *chunk[J]) live() []slot[J] { return c.slots[c.start:] }

// sortChunk returns what is in the chunk, in order.
func (t *Tree[J]) sortChunk(c *chunk[J]) []slot[J] {
	if len(c.slots)-c.sorted > maxInsertions {
		t.mergeTail(c)
	}
	for ; c.sorted < len(c.slots); c.sorted++ {
		s := c.slots[c.sorted]
		at := c.start + searchSlots(c.slots[c.start:c.sorted], &s)
		copy(c.slots[at+1:c.sorted+1], c.slots[at:c.sorted])
		c.slots[at] = s
	}
	return c.live()
}

// mergeTail puts the end of a chunk in order, and then among the others from the
// last one on.
func (t *Tree[J]) mergeTail(c *chunk[J]) {
	end := c.slots[c.sorted:]
	room, other := t.sortBuffers(len(end))
	sortSlots(end, other)
	room = append(room, end...)
	left, right := c.sorted-1, len(room)-1
	for at := len(c.slots) - 1; right >= 0; at-- {
		if left >= c.start && room[right].before(&c.slots[left]) {
			c.slots[at] = c.slots[left]
			left--
		} else {
			c.slots[at] = room[right]
			right--
		}
	}
	c.sorted = len(c.slots)
	clear(room)
	clear(other)
}

// head is where a line begins. Those of a leaf lie side by side, so that a pass
// looks at no line before its turn has come.
type head[J any] struct {
	slot[J]           // the first of the line
	rest    []slot[J] // behind it in its chunk; empty when that is not known
}

func (l *shapeQueue[J]) head() *head[J] { return &l.leaf.heads[l.index] }

func (l *shapeQueue[J]) push(s slot[J]) {
	head := l.head()
	if l.count == 0 || s.before(&head.slot) {
		head.slot = s
	}
	head.rest = nil
	l.count++
	if len(l.arrivals) == cap(l.arrivals) {
		l.growArrivals()
	}
	l.arrivals = append(l.arrivals, s)
}

// growArrivals makes room for one more late item.
func (l *shapeQueue[J]) growArrivals() {
	t := l.leaf.tree
	if len(l.arrivals) == maxChunk {
		l.fullArrivals = append(l.fullArrivals, l.arrivals)
		l.arrivals = t.takeBuffer(maxChunk)
		return
	}
	wider := append(t.takeBuffer(len(l.arrivals)+1), l.arrivals...)
	t.returnBuffer(l.arrivals)
	l.arrivals = wider
}

// sortArrivals puts the late items where they belong.
func (l *shapeQueue[J]) sortArrivals() {
	if len(l.arrivals) == 0 {
		return
	}
	late := len(l.fullArrivals)*maxChunk + len(l.arrivals)
	if late > l.count-late {
		l.sortWhole()
		return
	}
	for _, room := range l.fullArrivals {
		for i := range room {
			l.insertSorted(&room[i])
		}
		l.leaf.tree.returnBuffer(room)
	}
	for i := range l.arrivals {
		l.insertSorted(&l.arrivals[i])
	}
	l.clearArrivals()
}

// clearArrivals forgets the late items, and keeps a little room for others.
func (l *shapeQueue[J]) clearArrivals() {
	clear(l.fullArrivals)
	l.fullArrivals = l.fullArrivals[:0]
	if cap(l.arrivals) == maxChunk {
		l.leaf.tree.returnBuffer(l.arrivals)
		l.arrivals = nil
	}
	clear(l.arrivals)
	l.arrivals = l.arrivals[:0]
}

// sortWhole sorts the whole line.
func (l *shapeQueue[J]) sortWhole() {
	t := l.leaf.tree
	all, other := t.sortBuffers(l.count)
	for i := range l.chunks {
		all = append(all, l.chunks[i].live()...)
		t.returnBuffer(l.chunks[i].slots)
	}
	for _, room := range l.fullArrivals {
		all = append(all, room...)
		t.returnBuffer(room)
	}
	all = append(all, l.arrivals...)
	l.clearArrivals()
	sortSlots(all, other)
	n := (l.count + maxChunk - 1) / maxChunk
	l.chunkStarts, l.chunks = make([]slot[J], 0, n), make([]chunk[J], 0, n)
	for some := range slices.Chunk(all, maxChunk) {
		l.chunkStarts = append(l.chunkStarts, some[0])
		l.chunks = append(l.chunks, chunk[J]{slots: append(t.takeBuffer(len(some)), some...), sorted: len(some)})
	}
	clear(all)
	clear(other)
}

// insertSorted puts one among the filed, of which there are some.
func (l *shapeQueue[J]) insertSorted(s *slot[J]) {
	i := l.findChunk(s)
	c := &l.chunks[i]
	if len(c.slots) == maxChunk {
		i = l.splitChunk(i, s)
		c = &l.chunks[i]
	}
	if len(c.slots) == cap(c.slots) {
		t := l.leaf.tree
		wider := append(t.takeBuffer(len(c.slots)+1), c.slots...)
		t.returnBuffer(c.slots)
		c.slots = wider
	}
	c.slots = append(c.slots, *s)
}

// splitChunk makes room for s in a full chunk, and returns the chunk where it
// belongs then.
func (l *shapeQueue[J]) splitChunk(i int, s *slot[J]) int {
	c := &l.chunks[i]
	l.leaf.tree.sortChunk(c)
	if c.start > 0 {
		n := copy(c.slots, c.live())
		clear(c.slots[n:])
		c.slots, c.start, c.sorted = c.slots[:n], 0, n
		return i
	}
	var right chunk[J]
	floor := *s
	// The newest is often the last: then a full chunk stays behind.
	if last := i == len(l.chunks)-1; last && !s.before(&c.slots[maxChunk-1]) {
		right.slots = l.leaf.tree.takeBuffer(1)
	} else {
		const half = maxChunk / 2
		floor = c.slots[half]
		right = chunk[J]{slots: append(l.leaf.tree.takeBuffer(maxChunk), c.slots[half:]...), sorted: half}
		clear(c.slots[half:])
		c.slots, c.sorted = c.slots[:half], half
	}
	l.chunks = slices.Insert(l.chunks, i+1, right)
	l.chunkStarts = slices.Insert(l.chunkStarts, i+1, floor)
	if s.before(&floor) {
		return i
	}
	return i + 1
}

// findChunk returns the chunk that s belongs to.
func (l *shapeQueue[J]) findChunk(s *slot[J]) int {
	if len(l.chunkStarts) == 1 {
		return 0
	}
	rest := l.chunkStarts[1:]
	i := searchSlots(rest, s)
	if i < len(rest) && rest[i].prefix == s.prefix && !s.before(&rest[i]) {
		i++ // it is the floor itself
	}
	return i
}

// remove takes out an item. Its line is gone when it was the only one.
func (l *shapeQueue[J]) remove(it *Item[J]) {
	if l.count == 1 {
		l.release()
		return
	}
	if len(l.arrivals) > 0 {
		l.sortArrivals()
	}
	l.count--
	if head := l.head(); head.item == it { // the usual one: nothing moves
		c := &l.chunks[0]
		if c.sorted < len(c.slots) {
			l.leaf.tree.sortChunk(c)
		}
		c.slots[c.start] = slot[J]{}
		if c.start++; c.start == len(c.slots) {
			l.leaf.tree.returnBuffer(c.slots)
			l.chunks[0], l.chunkStarts[0] = chunk[J]{}, slot[J]{}
			l.chunks, l.chunkStarts = l.chunks[1:], l.chunkStarts[1:]
			c = &l.chunks[0]
			l.leaf.tree.sortChunk(c)
		}
		head.slot, head.rest = c.slots[c.start], c.slots[c.start+1:]
		return
	}
	l.head().rest = nil
	s := l.leaf.tree.slotOf(it)
	i := l.findChunk(&s)
	c := &l.chunks[i]
	at := c.start + searchSlots(l.leaf.tree.sortChunk(c), &s)
	if at == len(c.slots) || c.slots[at].item != it {
		panic("queue: an item changed while it waited")
	}
	c.slots = slices.Delete(c.slots, at, at+1)
	if c.sorted--; c.sorted > c.start {
		if l.chunkStarts[i].item == it { // its owner may change it now, and let it wait again
			l.chunkStarts[i] = c.slots[c.start]
		}
		return
	}
	l.leaf.tree.returnBuffer(c.slots)
	l.chunks = slices.Delete(l.chunks, i, i+1)
	l.chunkStarts = slices.Delete(l.chunkStarts, i, i+1)
}

// release empties a line and gives its room back.
func (l *shapeQueue[J]) release() {
	for i := range l.chunks {
		l.leaf.tree.returnBuffer(l.chunks[i].slots)
	}
	l.leaf.tree.returnBuffer(l.arrivals)
	l.count, l.chunks, l.chunkStarts, l.arrivals = 0, nil, nil, nil
}

// countBefore counts the items of the line before s.
func (l *shapeQueue[J]) countBefore(s *slot[J]) int {
	n := 0
	for late := range l.allArrivals() {
		if late.before(s) {
			n++
		}
	}
	if len(l.chunks) == 0 {
		return n
	}
	i := l.findChunk(s)
	for k := range l.chunks[:i] {
		n += len(l.chunks[k].live())
	}
	for _, other := range l.chunks[i].live() {
		if other.before(s) {
			n++
		}
	}
	return n
}

// isWithin says whether the rank of the slot's item is at most the one given, the
// last of its class. The key of that says so without a look at the item, unless
// it was cut off.
func (a *slot[J]) isWithin(rank, key uint64) bool {
	if level := a.prefix >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return a.item.orderKey <= rank
	}
	return a.prefix <= key
}

// countUpTo counts the items whose rank is at most the one given, the last of its
// class, whose key is given too. It is not for a pass: late items are filed.
func (l *shapeQueue[J]) countUpTo(rank, key uint64) int {
	if l.count == 0 || !l.leaf.heads[l.index].isWithin(rank, key) {
		return 0
	}
	l.sortArrivals()
	last := l.leaf.tree.sortChunk(&l.chunks[len(l.chunks)-1])
	if len(last) > 0 && last[len(last)-1].isWithin(rank, key) {
		return l.count
	}
	n := 0
	for i := range l.chunks {
		if i+1 < len(l.chunks) && l.chunkStarts[i+1].item.orderKey <= rank {
			n += len(l.chunks[i].live())
			continue
		}
		at, _ := slices.BinarySearchFunc(l.leaf.tree.sortChunk(&l.chunks[i]), rank, func(s slot[J], rank uint64) int {
			if s.isWithin(rank, key) {
				return -1
			}
			return 1
		})
		return n + at
	}
	return n
}

// allArrivals yields the late items.
func (l *shapeQueue[J]) allArrivals() iter.Seq[*slot[J]] {
	return func(yield func(*slot[J]) bool) {
		for _, room := range l.fullArrivals {
			for i := range room {
				if !yield(&room[i]) {
					return
				}
			}
		}
		for i := range l.arrivals {
			if !yield(&l.arrivals[i]) {
				return
			}
		}
	}
}

// sortBuffers returns room to sort n slots on: for them, and as much again. A large one
// is not kept.
func (t *Tree[J]) sortBuffers(n int) (empty, other []slot[J]) {
	room := t.sortScratch
	if len(room) < 2*n {
		room = make([]slot[J], 2*n)
		if n <= maxSortScratch {
			t.sortScratch = room
		}
	}
	return room[:0:n], room[n : 2*n]
}

// maxSortScratch bounds what a tree keeps to sort on, to 1 MB.
const maxSortScratch = 1 << 15

// takeBuffer returns empty room for at least n slots.
func (t *Tree[J]) takeBuffer(n int) []slot[J] {
	if n <= smallBuffer {
		return make([]slot[J], 0, smallBuffer)
	}
	if last := len(t.spareBuffers) - 1; last >= 0 {
		room := t.spareBuffers[last]
		t.spareBuffers[last] = nil
		t.spareBuffers = t.spareBuffers[:last]
		return room
	}
	return make([]slot[J], 0, maxChunk)
}

// smallBuffer is the room of a line that never had more.
const smallBuffer = 8

// returnBuffer keeps the room of a chunk for another.
func (t *Tree[J]) returnBuffer(room []slot[J]) {
	if cap(room) == maxChunk && len(t.spareBuffers) < maxSpareBuffers {
		clear(room)
		t.spareBuffers = append(t.spareBuffers, room[:0])
	}
}

// maxSpareBuffers bounds what a tree keeps, at 2 KB each.
const maxSpareBuffers = 1024
