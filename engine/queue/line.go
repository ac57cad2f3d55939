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
	key  uint64
	item *Item[J]
}

// A key is the beginning of the order in 64 bits: one that critical items lack,
// twice the level upside down, and the revision, or of a lifted item the rest of
// its time. What does not fit is cut off at the bounds, which never turns two
// items round, and equal keys are told apart by the items themselves.
const (
	levelBits    = 31
	revisionBits = 32
	levelMost    = 1<<levelBits - 1
	revisionMost = 1<<revisionBits - 1
)

// keyBase is the level where keys begin, upside down. It leaves room for
// 85 years from 2020 at ten seconds a step, and for 30 at one.
func (c Config) keyBase() int64 {
	if c.Ranked {
		return wholeRank
	}
	if c.Step <= 0 {
		return -2 * ares.MaxPriority
	}
	return 2 * (c.steps(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) - ares.MaxPriority)
}

// wholeRank is the base of keys that are the ranks themselves.
const wholeRank = math.MinInt64

func (t *Tree[J]) slotOf(it *Item[J]) slot[J] {
	rest := it.Revision
	if it.lifted {
		rest = t.cfg.rest(it.Due)
	}
	return slot[J]{keyOf(it.rank, rest, t.base), it}
}

// rest is the milliseconds since the step of a time began.
func (c Config) rest(at time.Time) int64 {
	return at.UnixMilli() - c.steps(at)*max(c.Step.Milliseconds(), 1)
}

func keyOf(rank uint64, rest, base int64) uint64 {
	if base == wholeRank {
		return rank
	}
	level := int64(rank&^belowCritical) - levelBias - base // upside down
	return rank&belowCritical | uint64(min(max(level, 0), levelMost))<<revisionBits | uint64(min(max(rest, 0), revisionMost))
}

// before is the total order of a leaf.
func (a *slot[J]) before(b *slot[J]) bool {
	return a.key < b.key || a.key == b.key && a.item.before(b.item)
}

func (it *Item[J]) before(other *Item[J]) bool {
	if it.rank != other.rank {
		return it.rank < other.rank
	}
	if it.lifted && !it.Due.Equal(other.Due) { // so is the other: nobody else is between two levels
		return it.Due.Before(other.Due)
	}
	if it.Revision != other.Revision {
		return it.Revision < other.Revision
	}
	return it.ID < other.ID
}

// line is the waiting jobs of one shape in one leaf. Nearly all are filed: they
// lie in order in chunks, each of them wholly before the next. Those that came
// since are late: they lie as they came, and are filed when somebody comes to
// read the line beyond its head, or takes one out of it. Many are filed by one
// sort, few are put in one by one.
type line[J any] struct {
	shape  int
	leaf   *Leaf[J]
	place  int // in leaf.lines and leaf.heads
	count  int
	late   []slot[J]   // in the order they came
	later  [][]slot[J] // full rooms of them, which came before
	floors []slot[J]   // where chunks begin, or before it; the first does not count
	chunks []chunk[J]
}

// chunk is neighbours of a line: first those in their order, and then some that
// came since. These are put in order when somebody comes to read the chunk.
type chunk[J any] struct {
	slots []slot[J]
	gone  int // from the front
	tidy  int // the end of what is in order
}

// chunkMost is when a chunk is split.
const chunkMost = 128

// insertMost is up to how many are put into a chunk one by one.
const insertMost = 6

func (c *chunk[J]) live() []slot[J] { return c.slots[c.gone:] }

// inOrder returns what is in the chunk, in order.
func (t *Tree[J]) inOrder(c *chunk[J]) []slot[J] {
	if len(c.slots)-c.tidy > insertMost {
		t.merge(c)
	}
	for ; c.tidy < len(c.slots); c.tidy++ {
		s := c.slots[c.tidy]
		at := c.gone + search(c.slots[c.gone:c.tidy], &s)
		copy(c.slots[at+1:c.tidy+1], c.slots[at:c.tidy])
		c.slots[at] = s
	}
	return c.live()
}

// merge puts the end of a chunk in order, and then among the others from the
// last one on.
func (t *Tree[J]) merge(c *chunk[J]) {
	end := c.slots[c.tidy:]
	room, other := t.desk(len(end))
	sortSlots(end, other)
	room = append(room, end...)
	left, right := c.tidy-1, len(room)-1
	for at := len(c.slots) - 1; right >= 0; at-- {
		if left >= c.gone && room[right].before(&c.slots[left]) {
			c.slots[at] = c.slots[left]
			left--
		} else {
			c.slots[at] = room[right]
			right--
		}
	}
	c.tidy = len(c.slots)
	clear(room)
	clear(other)
}

// head is where a line begins. Those of a leaf lie side by side, so that a pass
// looks at no line before its turn has come.
type head[J any] struct {
	slot[J]           // the first of the line
	rest    []slot[J] // behind it in its chunk; empty when that is not known
}

func (l *line[J]) head() *head[J] { return &l.leaf.heads[l.place] }

func (l *line[J]) push(s slot[J]) {
	head := l.head()
	if l.count == 0 || s.before(&head.slot) {
		head.slot = s
	}
	head.rest = nil
	l.count++
	if len(l.late) == cap(l.late) {
		l.widen()
	}
	l.late = append(l.late, s)
}

// widen makes room for one more late item.
func (l *line[J]) widen() {
	t := l.leaf.tree
	if len(l.late) == chunkMost {
		l.later = append(l.later, l.late)
		l.late = t.spare(chunkMost)
		return
	}
	wider := append(t.spare(len(l.late)+1), l.late...)
	t.reuse(l.late)
	l.late = wider
}

// file puts the late items where they belong.
func (l *line[J]) file() {
	if len(l.late) == 0 {
		return
	}
	late := len(l.later)*chunkMost + len(l.late)
	if late > l.count-late {
		l.fileAll()
		return
	}
	for _, room := range l.later {
		for i := range room {
			l.insert(&room[i])
		}
		l.leaf.tree.reuse(room)
	}
	for i := range l.late {
		l.insert(&l.late[i])
	}
	l.noLate()
}

// noLate forgets the late items, and keeps a little room for others.
func (l *line[J]) noLate() {
	clear(l.later)
	l.later = l.later[:0]
	if cap(l.late) == chunkMost {
		l.leaf.tree.reuse(l.late)
		l.late = nil
	}
	clear(l.late)
	l.late = l.late[:0]
}

// fileAll sorts the whole line.
func (l *line[J]) fileAll() {
	t := l.leaf.tree
	all, other := t.desk(l.count)
	for i := range l.chunks {
		all = append(all, l.chunks[i].live()...)
		t.reuse(l.chunks[i].slots)
	}
	for _, room := range l.later {
		all = append(all, room...)
		t.reuse(room)
	}
	all = append(all, l.late...)
	l.noLate()
	sortSlots(all, other)
	n := (l.count + chunkMost - 1) / chunkMost
	l.floors, l.chunks = make([]slot[J], 0, n), make([]chunk[J], 0, n)
	for some := range slices.Chunk(all, chunkMost) {
		l.floors = append(l.floors, some[0])
		l.chunks = append(l.chunks, chunk[J]{slots: append(t.spare(len(some)), some...), tidy: len(some)})
	}
	clear(all)
	clear(other)
}

// insert puts one among the filed, of which there are some.
func (l *line[J]) insert(s *slot[J]) {
	i := l.find(s)
	c := &l.chunks[i]
	if len(c.slots) == chunkMost {
		i = l.split(i, s)
		c = &l.chunks[i]
	}
	if len(c.slots) == cap(c.slots) {
		t := l.leaf.tree
		wider := append(t.spare(len(c.slots)+1), c.slots...)
		t.reuse(c.slots)
		c.slots = wider
	}
	c.slots = append(c.slots, *s)
}

// split makes room for s in a full chunk, and returns the chunk where it
// belongs then.
func (l *line[J]) split(i int, s *slot[J]) int {
	c := &l.chunks[i]
	l.leaf.tree.inOrder(c)
	if c.gone > 0 {
		n := copy(c.slots, c.live())
		clear(c.slots[n:])
		c.slots, c.gone, c.tidy = c.slots[:n], 0, n
		return i
	}
	var right chunk[J]
	floor := *s
	// The newest is often the last: then a full chunk stays behind.
	if last := i == len(l.chunks)-1; last && !s.before(&c.slots[chunkMost-1]) {
		right.slots = l.leaf.tree.spare(1)
	} else {
		const half = chunkMost / 2
		floor = c.slots[half]
		right = chunk[J]{slots: append(l.leaf.tree.spare(chunkMost), c.slots[half:]...), tidy: half}
		clear(c.slots[half:])
		c.slots, c.tidy = c.slots[:half], half
	}
	l.chunks = slices.Insert(l.chunks, i+1, right)
	l.floors = slices.Insert(l.floors, i+1, floor)
	if s.before(&floor) {
		return i
	}
	return i + 1
}

// find returns the chunk that s belongs to.
func (l *line[J]) find(s *slot[J]) int {
	if len(l.floors) == 1 {
		return 0
	}
	rest := l.floors[1:]
	i := search(rest, s)
	if i < len(rest) && rest[i].key == s.key && !s.before(&rest[i]) {
		i++ // it is the floor itself
	}
	return i
}

// remove takes out an item. Its line is gone when it was the only one.
func (l *line[J]) remove(it *Item[J]) {
	if l.count == 1 {
		l.drop()
		return
	}
	if len(l.late) > 0 {
		l.file()
	}
	l.count--
	if head := l.head(); head.item == it { // the usual one: nothing moves
		c := &l.chunks[0]
		if c.tidy < len(c.slots) {
			l.leaf.tree.inOrder(c)
		}
		c.slots[c.gone] = slot[J]{}
		if c.gone++; c.gone == len(c.slots) {
			l.leaf.tree.reuse(c.slots)
			l.chunks[0], l.floors[0] = chunk[J]{}, slot[J]{}
			l.chunks, l.floors = l.chunks[1:], l.floors[1:]
			c = &l.chunks[0]
			l.leaf.tree.inOrder(c)
		}
		head.slot, head.rest = c.slots[c.gone], c.slots[c.gone+1:]
		return
	}
	l.head().rest = nil
	s := l.leaf.tree.slotOf(it)
	i := l.find(&s)
	c := &l.chunks[i]
	at := c.gone + search(l.leaf.tree.inOrder(c), &s)
	if at == len(c.slots) || c.slots[at].item != it {
		panic("queue: an item changed while it waited")
	}
	c.slots = slices.Delete(c.slots, at, at+1)
	if c.tidy--; c.tidy > c.gone {
		if l.floors[i].item == it { // its owner may change it now, and let it wait again
			l.floors[i] = c.slots[c.gone]
		}
		return
	}
	l.leaf.tree.reuse(c.slots)
	l.chunks = slices.Delete(l.chunks, i, i+1)
	l.floors = slices.Delete(l.floors, i, i+1)
}

// drop empties a line and gives its room back.
func (l *line[J]) drop() {
	for i := range l.chunks {
		l.leaf.tree.reuse(l.chunks[i].slots)
	}
	l.leaf.tree.reuse(l.late)
	l.count, l.chunks, l.floors, l.late = 0, nil, nil, nil
}

// ahead counts the items of the line before s.
func (l *line[J]) ahead(s *slot[J]) int {
	n := 0
	for late := range l.unfiled() {
		if late.before(s) {
			n++
		}
	}
	if len(l.chunks) == 0 {
		return n
	}
	i := l.find(s)
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

// within says whether the rank of the slot's item is at most the one given, the
// last of its class. The key of that says so without a look at the item, unless
// it was cut off.
func (a *slot[J]) within(rank, key uint64) bool {
	if level := a.key >> revisionBits & levelMost; level == 0 || level == levelMost {
		return a.item.rank <= rank
	}
	return a.key <= key
}

// upTo counts the items whose rank is at most the one given, the last of its
// class, whose key is given too. It is not for a pass: late items are filed.
func (l *line[J]) upTo(rank, key uint64) int {
	if l.count == 0 || !l.leaf.heads[l.place].within(rank, key) {
		return 0
	}
	l.file()
	last := l.leaf.tree.inOrder(&l.chunks[len(l.chunks)-1])
	if len(last) > 0 && last[len(last)-1].within(rank, key) {
		return l.count
	}
	n := 0
	for i := range l.chunks {
		if i+1 < len(l.chunks) && l.floors[i+1].item.rank <= rank {
			n += len(l.chunks[i].live())
			continue
		}
		at, _ := slices.BinarySearchFunc(l.leaf.tree.inOrder(&l.chunks[i]), rank, func(s slot[J], rank uint64) int {
			if s.within(rank, key) {
				return -1
			}
			return 1
		})
		return n + at
	}
	return n
}

// unfiled yields the late items.
func (l *line[J]) unfiled() iter.Seq[*slot[J]] {
	return func(yield func(*slot[J]) bool) {
		for _, room := range l.later {
			for i := range room {
				if !yield(&room[i]) {
					return
				}
			}
		}
		for i := range l.late {
			if !yield(&l.late[i]) {
				return
			}
		}
	}
}

// desk returns room to sort n slots on: for them, and as much again. A large one
// is not kept.
func (t *Tree[J]) desk(n int) (empty, other []slot[J]) {
	room := t.scratch
	if len(room) < 2*n {
		room = make([]slot[J], 2*n)
		if n <= deskMost {
			t.scratch = room
		}
	}
	return room[:0:n], room[n : 2*n]
}

// deskMost bounds what a tree keeps to sort on, to 1 MB.
const deskMost = 1 << 15

// spare returns empty room for at least n slots.
func (t *Tree[J]) spare(n int) []slot[J] {
	if n <= chunkSmall {
		return make([]slot[J], 0, chunkSmall)
	}
	if last := len(t.spares) - 1; last >= 0 {
		room := t.spares[last]
		t.spares[last] = nil
		t.spares = t.spares[:last]
		return room
	}
	return make([]slot[J], 0, chunkMost)
}

// chunkSmall is the room of a line that never had more.
const chunkSmall = 8

// reuse keeps the room of a chunk for another.
func (t *Tree[J]) reuse(room []slot[J]) {
	if cap(room) == chunkMost && len(t.spares) < sparesMost {
		clear(room)
		t.spares = append(t.spares, room[:0])
	}
}

// sparesMost bounds what a tree keeps, at 2 KB each.
const sparesMost = 1024
