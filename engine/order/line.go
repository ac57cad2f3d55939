package order

import (
	"math/bits"
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
// the level upside down, the revision. What does not fit is cut off at the
// bounds, which never turns two items round, and equal keys are told apart by
// the items themselves.
const (
	levelBits    = 30
	revisionBits = 33
	levelMost    = 1<<levelBits - 1
	revisionMost = 1<<revisionBits - 1
)

// keyBase is the level where keys begin, upside down. It leaves room for
// 85 years from 2020 at ten seconds a step, and for 30 at one.
func (c Config) keyBase() int64 {
	if c.Step <= 0 {
		return -ares.MaxPriority
	}
	return c.steps(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) - ares.MaxPriority
}

func slotOf[J any](it *Item[J], base int64) slot[J] {
	return slot[J]{keyOf(it.rank, it.Revision, base), it}
}

func keyOf(rank uint64, revision, base int64) uint64 {
	level := int64(rank&^belowCritical) - levelBias - base // upside down
	return rank&belowCritical | uint64(min(max(level, 0), levelMost))<<revisionBits | uint64(min(max(revision, 0), revisionMost))
}

// before is the total order of a leaf.
func (a *slot[J]) before(b *slot[J]) bool {
	return a.key < b.key || a.key == b.key && a.item.before(b.item)
}

func (it *Item[J]) before(other *Item[J]) bool {
	if it.rank != other.rank {
		return it.rank < other.rank
	}
	if it.Revision != other.Revision {
		return it.Revision < other.Revision
	}
	return it.ID < other.ID
}

// line is the waiting jobs of one shape in one leaf, in order. They lie in
// chunks, each of them wholly before the next, and floors has where each one
// begins. A chunk is sorted when somebody comes to read it: a push finds its
// chunk by one short search and appends, and most of a line is never sorted
// before it has changed again.
type line[J any] struct {
	shape  int
	leaf   *Leaf[J]
	place  int // in leaf.lines
	count  int
	floors []slot[J] // nothing in the chunk is before it; the first does not count
	chunks []chunk[J]

	// of a pass
	chunk, at int
}

type chunk[J any] struct {
	slots  []slot[J]
	gone   int // from the front
	sorted bool
}

// chunkMost is when a chunk is split.
const chunkMost = 256

func (c *chunk[J]) live() []slot[J] { return c.slots[c.gone:] }

// sort puts a chunk in order. Jobs come nearly in the order of their revisions,
// so spreading them by level, which keeps that order, does nearly all of it.
func (t *Tree[J]) sort(c *chunk[J]) {
	if c.sorted {
		return
	}
	c.sorted = true
	in := c.live()
	if len(in) > spreadLeast {
		differ := uint64(0)
		for i := range in {
			differ |= in[i].key ^ in[0].key
		}
		for shift := uint(revisionBits); shift < 64; shift += 8 {
			if differ>>shift&0xff != 0 {
				t.spread(in, shift)
			}
		}
	}
	for i := 1; i < len(in); i++ {
		if s := in[i]; s.before(&in[i-1]) {
			at := i
			for ; at > 0 && s.before(&in[at-1]); at-- {
				in[at] = in[at-1]
			}
			in[at] = s
		}
	}
}

// spreadLeast is up to how many slots are sooner moved one by one.
const spreadLeast = 24

// spread orders slots by eight bits of their key, and leaves alone the order of
// those that have them in common.
func (t *Tree[J]) spread(in []slot[J], shift uint) {
	var starts [257]uint16
	for i := range in {
		starts[in[i].key>>shift&0xff+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	old := t.scratch[:copy(t.scratch[:], in)]
	for i := range old {
		at := &starts[old[i].key>>shift&0xff]
		in[*at] = old[i]
		*at++
	}
}

// search returns how many of the slots are before s. It compares keys without
// a branch that could be guessed wrongly, and looks at items only when there is
// a key like its own.
func search[J any](in []slot[J], s *slot[J]) int {
	at, key := 0, s.key
	for rest := len(in); rest > 0; {
		half := (rest + 1) >> 1
		at += half & -int(less(in[at+half-1].key, key))
		rest -= half
	}
	if at == len(in) || in[at].key != s.key {
		return at
	}
	hi := len(in)
	for at < hi {
		if mid := int(uint(at+hi) >> 1); in[mid].before(s) {
			at = mid + 1
		} else {
			hi = mid
		}
	}
	return at
}

// less is 1 when a is less than b, and 0 otherwise, without a branch.
func less(a, b uint64) uint64 {
	_, borrow := bits.Sub64(a, b, 0)
	return borrow
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

func (l *line[J]) push(s slot[J]) {
	l.count++
	if len(l.chunks) == 0 {
		l.floors = append(l.floors, s)
		l.chunks = append(l.chunks, chunk[J]{slots: l.leaf.tree.spare(1), sorted: true})
	}
	i := l.find(&s)
	c := &l.chunks[i]
	if len(c.slots) == chunkMost {
		i = l.split(i, &s)
		c = &l.chunks[i]
	}
	if n := len(c.slots); c.sorted && n > c.gone && s.before(&c.slots[n-1]) {
		c.sorted = false
	}
	if len(c.slots) == cap(c.slots) {
		grown := append(l.leaf.tree.spare(len(c.slots)+1), c.slots...)
		l.leaf.tree.reuse(c.slots)
		c.slots = grown
	}
	c.slots = append(c.slots, s)
}

// split makes room for s in a full chunk, and returns the chunk where it
// belongs then. It sorts nothing: the later part is what is not before a pivot.
func (l *line[J]) split(i int, s *slot[J]) int {
	c := &l.chunks[i]
	if c.gone > 0 {
		n := copy(c.slots, c.live())
		clear(c.slots[n:])
		c.slots, c.gone = c.slots[:n], 0
		return i
	}
	right := chunk[J]{slots: l.leaf.tree.spare(chunkMost), sorted: c.sorted}
	floor := *s
	// The newest is often the last: then a full chunk stays behind.
	if !c.sorted || s.before(&c.slots[chunkMost-1]) {
		floor = c.middle()
		c.slots, right.slots = part(c.slots, right.slots, &floor)
	}
	l.chunks = slices.Insert(l.chunks, i+1, right)
	l.floors = slices.Insert(l.floors, i+1, floor)
	if s.before(&floor) {
		return i
	}
	return i + 1
}

// part leaves in a full chunk what is before a pivot, and puts the rest into
// room for another. It writes each slot to both and counts it in one, so that
// there is no branch to guess.
func part[J any](full, room []slot[J], pivot *slot[J]) (left, right []slot[J]) {
	room = room[:chunkMost]
	l, r := 0, 0
	for _, each := range full {
		full[l], room[r] = each, each
		first := int(less(each.key, pivot.key))
		if each.key == pivot.key && each.item != pivot.item && each.item.before(pivot.item) {
			first = 1
		}
		l += first
		r += 1 - first
	}
	clear(full[l:])
	clear(room[r:])
	return full[:l], room[:r]
}

// middle returns a slot of a full chunk with about as many before it as behind
// it, and never the very first.
func (c *chunk[J]) middle() slot[J] {
	var some [9]slot[J]
	for i := range some {
		some[i] = c.slots[i*(chunkMost-1)/(len(some)-1)]
		for at := i; at > 0 && some[at].before(&some[at-1]); at-- {
			some[at], some[at-1] = some[at-1], some[at]
		}
	}
	return some[len(some)/2]
}

func (l *line[J]) remove(it *Item[J]) {
	l.count--
	i := 0
	c := &l.chunks[0]
	at := c.gone
	if c.slots[at].item != it || !c.sorted {
		s := slotOf(it, l.leaf.tree.base)
		i = l.find(&s)
		c = &l.chunks[i]
		at = c.position(&s)
	}
	if at == c.gone {
		c.slots[at] = slot[J]{}
		c.gone++
	} else {
		c.slots = slices.Delete(c.slots, at, at+1)
	}
	if c.gone < len(c.slots) {
		return
	}
	l.leaf.tree.reuse(c.slots)
	if i == 0 { // the usual one: nothing moves
		l.chunks[0], l.floors[0] = chunk[J]{}, slot[J]{}
		l.chunks, l.floors = l.chunks[1:], l.floors[1:]
		return
	}
	l.chunks = slices.Delete(l.chunks, i, i+1)
	l.floors = slices.Delete(l.floors, i, i+1)
}

// position is where in the chunk an item is.
func (c *chunk[J]) position(s *slot[J]) int {
	if c.sorted {
		if at := c.gone + search(c.live(), s); at < len(c.slots) && c.slots[at].item == s.item {
			return at
		}
	} else {
		for at := c.gone; at < len(c.slots); at++ {
			if c.slots[at].item == s.item {
				return at
			}
		}
	}
	panic("order: an item changed while it waited")
}

// ahead counts the items of the line before s.
func (l *line[J]) ahead(s *slot[J]) int {
	i := l.find(s)
	n := 0
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

// upTo counts the items whose rank is at most the one given.
func (l *line[J]) upTo(rank uint64) int {
	n := 0
	for i := range l.chunks {
		if i+1 < len(l.chunks) && l.floors[i+1].item.rank <= rank {
			n += len(l.chunks[i].live())
			continue
		}
		l.leaf.tree.sort(&l.chunks[i])
		at, _ := slices.BinarySearchFunc(l.chunks[i].live(), rank, func(s slot[J], rank uint64) int {
			if s.item.rank <= rank {
				return -1
			}
			return 1
		})
		return n + at
	}
	return n
}

// first is the item at the front of the line.
func (l *line[J]) first() *Item[J] {
	l.leaf.tree.sort(&l.chunks[0])
	return l.chunks[0].live()[0].item
}

// rewind sets the cursor of a pass to the front and returns what is there.
func (l *line[J]) rewind() slot[J] {
	l.leaf.tree.sort(&l.chunks[0])
	l.chunk, l.at = 0, l.chunks[0].gone
	return l.chunks[0].slots[l.at]
}

// advance moves the cursor; false means that the line is at its end.
func (l *line[J]) advance() (slot[J], bool) {
	c := &l.chunks[l.chunk]
	if l.at++; l.at == len(c.slots) {
		if l.chunk++; l.chunk == len(l.chunks) {
			return slot[J]{}, false
		}
		c = &l.chunks[l.chunk]
		l.leaf.tree.sort(c)
		l.at = c.gone
	}
	if l.at%fetchMost == 0 {
		c.fetch(l.at)
	}
	return c.slots[l.at], true
}

// fetch looks at the items whose turn comes next. They lie all over the memory,
// and asked for together they come in little more time than one.
func (c *chunk[J]) fetch(at int) {
	for i := at; i < min(at+fetchMost, len(c.slots)); i++ {
		_ = *c.slots[i].item
	}
}

const fetchMost = 16

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
