package queue

// cursor is how far a pass is in a line.
type cursor[J any] struct {
	item      *Item[J]  // its turn is next; nil when the line is at its end or passed over
	rest      []slot[J] // behind the item in its chunk
	nextChunk int       // the chunk after that; 0 when the item is the head and no chunk was read
}

// entrant is who won in a contest of lines: the one whose turn comes first.
type entrant struct {
	prefix uint64
	queue  int // its place in the leaf
}

// exhausted is the key of a line with nothing left. There may be one with the same
// key that has something left.
const exhausted = ^uint64(0)

// startTournament lines up the heads of the leaf's lines. The matches are a tree in which
// each node won against the other child of its parent: the lines themselves are
// in the second half, the winner of all is matches[1]. One that changes plays
// again on its way up, one match a level, and who wins a match cannot be
// guessed, so there is no branch unless keys are the same.
func (l *Leaf[J]) startTournament() {
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

// endTournament forgets the contest.
func (l *Leaf[J]) endTournament() {
	clear(l.cursors)
	l.tournament, l.cursors, l.remaining = l.tournament[:0], l.cursors[:0], 0
}

func (l *Leaf[J]) winner(a, b entrant) entrant {
	if a.prefix == b.prefix {
		return l.breakTie(a, b)
	}
	mask := -less(b.prefix, a.prefix)
	a.prefix ^= (a.prefix ^ b.prefix) & mask
	a.queue ^= (a.queue ^ b.queue) & int(mask)
	return a
}

// breakTie is the winner among equal keys.
func (l *Leaf[J]) breakTie(a, b entrant) entrant {
	x, y := l.cursors[a.queue].item, l.cursors[b.queue].item
	if x == nil || y != nil && y.before(x) {
		return b
	}
	return a
}

// first is the item whose turn it is in the leaf, while there is one left.
func (l *Leaf[J]) first() *Item[J] { return l.cursors[l.tournament[1].queue].item }

// pass over the winner, with its whole line.
func (l *Leaf[J]) skipShape() {
	i := l.tournament[1].queue
	l.cursors[i] = cursor[J]{}
	l.remaining--
	l.replay(entrant{exhausted, i})
}

// advance lets the winner's line go on to its next item.
func (l *Leaf[J]) advance() {
	i := l.tournament[1].queue
	f := &l.cursors[i]
	if len(f.rest) == 0 && !l.shapeQueues[i].readChunk(f) {
		l.skipShape()
		return
	}
	if len(f.rest)%prefetchBatch == 0 {
		prefetch(f.rest[:prefetchBatch])
	}
	s := &f.rest[0]
	f.item = s.item
	f.rest = f.rest[1:]
	l.replay(entrant{s.prefix, i})
}

// replay enters a line anew that was the winner. It is winner written out, once a
// level.
func (l *Leaf[J]) replay(m entrant) {
	at, matches := len(l.heads)+m.queue, l.tournament
	matches[at] = m
	for at > 1 {
		other := matches[at^1]
		if other.prefix == m.prefix {
			m = l.breakTie(m, other)
		} else {
			mask := -less(other.prefix, m.prefix)
			m.prefix ^= (m.prefix ^ other.prefix) & mask
			m.queue ^= (m.queue ^ other.queue) & int(mask)
		}
		at >>= 1
		matches[at] = m
	}
}

// readChunk gives a front the next items of the line; false means that it is at its
// end.
func (l *shapeQueue[J]) readChunk(f *cursor[J]) bool {
	if f.nextChunk == 0 {
		l.sortArrivals()
		c := &l.chunks[0]
		f.rest = l.leaf.tree.sortChunk(c)[1:]
		f.nextChunk = 1
		if c.start == 0 {
			prefetch(f.rest[:len(f.rest)%prefetchBatch])
		}
	}
	if len(f.rest) == 0 && f.nextChunk < len(l.chunks) {
		f.rest = l.leaf.tree.sortChunk(&l.chunks[f.nextChunk])
		f.nextChunk++
		prefetch(f.rest[:len(f.rest)%prefetchBatch])
	}
	return len(f.rest) > 0
}

// prefetch looks at the items whose turn comes next. They lie all over the memory,
// and asked for together they come in little more time than one.
func prefetch[J any](in []slot[J]) {
	for i := range in {
		_ = *in[i].item
	}
}

const prefetchBatch = 16
