package queue

// front is how far a pass is in a line.
type front[J any] struct {
	item *Item[J]  // its turn is next; nil when the line is at its end or passed over
	rest []slot[J] // behind the item in its chunk
	next int       // the chunk after that; 0 when the item is the head and no chunk was read
}

// match is who won in a contest of lines: the one whose turn comes first.
type match struct {
	key  uint64
	line int // its place in the leaf
}

// nobody is the key of a line with nothing left. There may be one with the same
// key that has something left.
const nobody = ^uint64(0)

// enter lines up the heads of the leaf's lines. The matches are a tree in which
// each node won against the other child of its parent: the lines themselves are
// in the second half, the winner of all is matches[1]. One that changes plays
// again on its way up, one match a level, and who wins a match cannot be
// guessed, so there is no branch unless keys are the same.
func (l *Leaf[J]) enter() {
	n := len(l.heads)
	if cap(l.matches) < 2*n {
		l.matches, l.fronts = make([]match, 2*n), make([]front[J], n)
	}
	l.matches, l.fronts, l.left = l.matches[:2*n], l.fronts[:n], n
	for i := range l.heads {
		head := &l.heads[i]
		l.fronts[i] = front[J]{head.item, head.rest, min(len(head.rest), 1)}
		l.matches[n+i] = match{head.key, i}
	}
	for i := n - 1; i > 0; i-- {
		l.matches[i] = l.winner(l.matches[2*i], l.matches[2*i+1])
	}
}

// leave forgets the contest.
func (l *Leaf[J]) leave() {
	clear(l.fronts)
	l.matches, l.fronts, l.left = l.matches[:0], l.fronts[:0], 0
}

func (l *Leaf[J]) winner(a, b match) match {
	if a.key == b.key {
		return l.tie(a, b)
	}
	mask := -less(b.key, a.key)
	a.key ^= (a.key ^ b.key) & mask
	a.line ^= (a.line ^ b.line) & int(mask)
	return a
}

// tie is the winner among equal keys.
func (l *Leaf[J]) tie(a, b match) match {
	x, y := l.fronts[a.line].item, l.fronts[b.line].item
	if x == nil || y != nil && y.before(x) {
		return b
	}
	return a
}

// first is the item whose turn it is in the leaf, while there is one left.
func (l *Leaf[J]) first() *Item[J] { return l.fronts[l.matches[1].line].item }

// pass over the winner, with its whole line.
func (l *Leaf[J]) passOver() {
	i := l.matches[1].line
	l.fronts[i] = front[J]{}
	l.left--
	l.play(match{nobody, i})
}

// advance lets the winner's line go on to its next item.
func (l *Leaf[J]) advance() {
	i := l.matches[1].line
	f := &l.fronts[i]
	if len(f.rest) == 0 && !l.lines[i].read(f) {
		l.passOver()
		return
	}
	if len(f.rest)%fetchMost == 0 {
		fetch(f.rest[:fetchMost])
	}
	s := &f.rest[0]
	f.item = s.item
	f.rest = f.rest[1:]
	l.play(match{s.key, i})
}

// play enters a line anew that was the winner. It is winner written out, once a
// level.
func (l *Leaf[J]) play(m match) {
	at, matches := len(l.heads)+m.line, l.matches
	matches[at] = m
	for at > 1 {
		other := matches[at^1]
		if other.key == m.key {
			m = l.tie(m, other)
		} else {
			mask := -less(other.key, m.key)
			m.key ^= (m.key ^ other.key) & mask
			m.line ^= (m.line ^ other.line) & int(mask)
		}
		at >>= 1
		matches[at] = m
	}
}

// read gives a front the next items of the line; false means that it is at its
// end.
func (l *line[J]) read(f *front[J]) bool {
	if f.next == 0 {
		l.file()
		c := &l.chunks[0]
		f.rest = l.leaf.tree.inOrder(c)[1:]
		f.next = 1
		if c.gone == 0 {
			fetch(f.rest[:len(f.rest)%fetchMost])
		}
	}
	if len(f.rest) == 0 && f.next < len(l.chunks) {
		f.rest = l.leaf.tree.inOrder(&l.chunks[f.next])
		f.next++
		fetch(f.rest[:len(f.rest)%fetchMost])
	}
	return len(f.rest) > 0
}

// fetch looks at the items whose turn comes next. They lie all over the memory,
// and asked for together they come in little more time than one.
func fetch[J any](in []slot[J]) {
	for i := range in {
		_ = *in[i].item
	}
}

const fetchMost = 16
