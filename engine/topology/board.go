package topology

import "slices"

// Jobs come in few sizes, and between two choices few leaves change. A board
// keeps the bounds of all leaves, or what all spines promise, for one size of
// job, with the least at the top of a tree, and catches up by the tree's log of
// changed leaves. What proved not to hold the job is not listed until it changes.
type board struct {
	depth, members, devices, kind int
	strategy                      string

	seen int // changes it knows, counted from the first there ever was
	used int // the choice that used it last
	keys []key
	done []int // by domain: the choice that worked its key out last
	// wins[1] is the domain with the least key, wins[i] the one of wins[2*i] and
	// wins[2*i+1] with the lesser. Domain i itself is at len(keys)+i.
	wins []int32
}

const (
	maxBoards = 32
	maxLog    = 4096
)

// changed notes that a leaf is not as it was.
func (t *Tree) changed(l int32) {
	if n := len(t.log); n > t.read && t.log[n-1] == l {
		return
	}
	if len(t.log) == maxLog {
		t.logged += maxLog
		t.log, t.read = t.log[:0], 0
	}
	t.log = append(t.log, l)
}

// boardOf finds the board of the job's size at a depth, up to date.
func (s *search) boardOf(depth int) *board {
	t, a := s.tree, s.ask
	var b *board
	for _, have := range s.boards {
		if have.members == s.members && have.devices == a.Devices && have.kind == a.Kind &&
			have.depth == depth && have.strategy == a.Strategy {
			b = have
			break
		}
	}
	s.uses++
	if b == nil {
		b = s.newBoard(depth)
	}
	b.used = s.uses
	if b.seen < t.logged {
		s.relist(b)
	}
	for _, l := range t.log[b.seen-t.logged:] {
		i := int(t.up[l][depth])
		if b.done[i] == s.uses {
			continue // another leaf of it changed too
		}
		b.done[i] = s.uses
		if k := s.keyOf(b, i); k != b.keys[i] {
			b.set(i, k)
		}
	}
	t.read = len(t.log)
	b.seen = t.logged + t.read
	return b
}

// newBoard takes the place of the board that was used least lately.
func (s *search) newBoard(depth int) *board {
	if len(s.boards) < maxBoards {
		s.boards = append(s.boards, &board{})
	}
	b := slices.MinFunc(s.boards, func(a, b *board) int { return a.used - b.used })
	b.depth, b.members, b.devices, b.kind, b.strategy = depth, s.members, s.ask.Devices, s.ask.Kind, s.ask.Strategy
	b.seen = -1
	return b
}

// relist finds every key anew.
func (s *search) relist(b *board) {
	n := len(s.tree.domains[b.depth])
	b.keys, b.done = slices.Grow(b.keys[:0], n)[:n], slices.Grow(b.done[:0], n)[:n]
	b.wins = slices.Grow(b.wins[:0], 2*n)[:2*n]
	for i := range n {
		b.keys[i] = s.keyOf(b, i)
		b.wins[n+i] = int32(i)
	}
	for i := n - 1; i > 0; i-- {
		b.wins[i] = b.lesser(b.wins[2*i], b.wins[2*i+1])
	}
	b.seen = s.tree.logged + len(s.tree.log)
}

func (s *search) keyOf(b *board, i int) key {
	if b.depth == leaf {
		return s.bound(i)
	}
	return s.promise(b.depth, i)
}

func (b *board) lesser(i, k int32) int32 {
	if b.keys[k].compare(&b.keys[i]) < 0 {
		return k
	}
	return i
}

func (b *board) set(i int, k key) {
	b.keys[i] = k
	for at := (len(b.keys) + i) / 2; at > 0; at /= 2 {
		b.wins[at] = b.lesser(b.wins[2*at], b.wins[2*at+1])
	}
}

// first lists the least keys, at most so many, and leaves the board as it is.
func (b *board) first(list []key, size int) []key {
	for len(list) < size {
		top := 0
		if len(b.keys) > 1 {
			top = int(b.wins[1])
		}
		if b.keys[top].never {
			break
		}
		list = append(list, b.keys[top])
		b.set(top, key{never: true, domain: top})
	}
	for i := range list {
		b.set(list[i].domain, list[i])
	}
	return list
}

// after lists the least keys after a given one.
func (b *board) after(last *key, size int, list []key) []key {
	for i := range b.keys {
		list = enlist(list, &b.keys[i], last, size)
	}
	return list
}

// learn notes that a domain does not hold the job, whatever it promised.
func (b *board) learn(i int) { b.set(i, key{never: true, domain: i}) }
