package queue

// A `cursor` is the position of a round in a shape queue.
type cursor[J any] struct {
	item      *Item[J]  // the next item; nil if none is left or the queue is skipped
	rest      []slot[J] // the slots after the item in its chunk
	nextChunk int       // the chunk after that; 0 when the item is the head and no chunk was read
}

// An `entrant` is a shape queue that takes part in the tournament of its leaf queue.
type entrant struct {
	prefix uint64 // prefix of its next item
	queue  int    // index in the shapeQueues of the leaf queue
}

// The constant `exhausted` is the prefix of a shape queue that has no remaining items. An item can have the
// same prefix as an exhausted queue, so breakTie checks the cursors.
const exhausted = ^uint64(0)

// startTournament sets the cursors to the heads of the shape queues and builds a tree of winners. In this tree,
// tournament[n+i] is shape queue i, tournament[i] is the winner of tournament[2i] and tournament[2i+1], and
// tournament[1] is the overall winner. When the cursor of a shape queue moves, the matches of this queue are
// repeated from the bottom up, one match per level. The CPU cannot predict the result of a match, so the code
// avoids branches unless prefixes are equal.
func (l *LeafQueue[J]) startTournament() {
	n := len(l.heads)
	if cap(l.tournament) < 2*n {
		l.tournament, l.cursors = make([]entrant, 2*n), make([]cursor[J], n)
	}
	l.tournament, l.cursors, l.remaining = l.tournament[:2*n], l.cursors[:n], n
	for i := range l.heads {
		head := &l.heads[i]
		l.cursors[i] = cursor[J]{head.item, head.rest, min(len(head.rest), 1)}
		l.tournament[n+i] = entrant{head.prefix, i}
	}
	for i := n - 1; i > 0; i-- {
		l.tournament[i] = l.winner(l.tournament[2*i], l.tournament[2*i+1])
	}
}

// endTournament clears the state of the round.
func (l *LeafQueue[J]) endTournament() {
	clear(l.cursors)
	l.tournament, l.cursors, l.remaining = l.tournament[:0], l.cursors[:0], 0
}

// The method `winner` returns the entrant whose item comes first.
func (l *LeafQueue[J]) winner(a, b entrant) entrant {
	if a.prefix == b.prefix {
		return l.breakTie(a, b)
	}
	mask := -less(b.prefix, a.prefix)
	a.prefix ^= (a.prefix ^ b.prefix) & mask
	a.queue ^= (a.queue ^ b.queue) & int(mask)
	return a
}

// breakTie returns the winner of two entrants with equal prefixes.
func (l *LeafQueue[J]) breakTie(a, b entrant) entrant {
	x, y := l.cursors[a.queue].item, l.cursors[b.queue].item
	if x == nil || y != nil && y.before(x) {
		return b
	}
	return a
}

// The method `first` returns the next item of the leaf queue. The leaf queue must have at
// least one remaining item.
func (l *LeafQueue[J]) first() *Item[J] { return l.cursors[l.tournament[1].queue].item }

// skipShape removes the shape queue of the next item from the round.
func (l *LeafQueue[J]) skipShape() {
	i := l.tournament[1].queue
	l.cursors[i] = cursor[J]{}
	l.remaining--
	l.replay(entrant{exhausted, i})
}

// The method `advance` moves the cursor of the winner to its next item.
func (l *LeafQueue[J]) advance() {
	i := l.tournament[1].queue
	c := &l.cursors[i]
	if len(c.rest) == 0 && !l.shapeQueues[i].readChunk(c) {
		l.skipShape()
		return
	}
	if len(c.rest)%prefetchBatch == 0 {
		prefetch(c.rest[:prefetchBatch])
	}
	s := &c.rest[0]
	c.item = s.item
	c.rest = c.rest[1:]
	l.replay(entrant{s.prefix, i})
}

// The method `replay` repeats the matches of the last winner with its new prefix. For speed, the loop repeats the
// code of the method `winner` instead of calling it.
func (l *LeafQueue[J]) replay(e entrant) {
	at, tree := len(l.heads)+e.queue, l.tournament
	tree[at] = e
	for at > 1 {
		other := tree[at^1]
		if other.prefix == e.prefix {
			e = l.breakTie(e, other)
		} else {
			mask := -less(other.prefix, e.prefix)
			e.prefix ^= (e.prefix ^ other.prefix) & mask
			e.queue ^= (e.queue ^ other.queue) & int(mask)
		}
		at >>= 1
		tree[at] = e
	}
}

// readChunk moves a cursor to the slots of the next chunk, or returns false if no chunk is left.
func (q *shapeQueue[J]) readChunk(c *cursor[J]) bool {
	if c.nextChunk == 0 {
		q.sortArrivals()
		first := &q.chunks[0]
		c.rest = q.leaf.tree.sortChunk(first)[1:]
		c.nextChunk = 1
		if first.start == 0 {
			prefetch(c.rest[:len(c.rest)%prefetchBatch])
		}
	}
	if len(c.rest) == 0 && c.nextChunk < len(q.chunks) {
		c.rest = q.leaf.tree.sortChunk(&q.chunks[c.nextChunk])
		c.nextChunk++
		prefetch(c.rest[:len(c.rest)%prefetchBatch])
	}
	return len(c.rest) > 0
}

// The function `prefetch` reads the items that will be needed next. The items are scattered in memory, and reading
// several of them together takes little more time than reading one.
func prefetch[J any](in []slot[J]) {
	for i := range in {
		_ = *in[i].item
	}
}

// prefetchBatch is the number of items that `prefetch` reads at a time.
const prefetchBatch = 16
