package engine

// refused is what is known of a shape that found no place: as long as no node
// has gained room for one of its members, it will find none.
type refused struct {
	known  bool
	layout int
	seen   int // of State.grown
	ban    uint64
}

// gains are the nodes that grew since some shape with a want was refused, and
// may have room for a member of it. Shapes of many tenants share them.
type gains struct {
	known    bool
	layout   int
	from, to int // of State.grown
	nodes    []gained
}

// gained is a node that grew, and when.
type gained struct {
	at   int32
	when int // of State.grown
}

// gainsMost is how many are kept. Where more nodes have room, trying costs less.
const gainsMost = 256

// note remembers that the shape found no place in the state as it is. What the
// decision under way has taken by then may come free again: those nodes count as
// grown when it ends.
func (s *State) note(sh *shape, ban uint64) {
	if len(sh.near)+len(sh.apart) > 0 { // other jobs' places count too
		return
	}
	w := sh.want
	if !s.keepUp(w) {
		w.gains = gains{known: true, layout: s.layout, from: s.grown.count, to: s.grown.count, nodes: w.gains.nodes[:0]}
		if !w.listed {
			w.listed = true
			s.lost = append(s.lost, w)
		}
	}
	sh.lost = refused{true, s.layout, s.grown.count, ban}
	s.try.noted = true
}

// hopeless says whether the shape is known to find no place.
func (s *State) hopeless(sh *shape, ban uint64) bool {
	r := &sh.lost
	if r.known = r.known && r.layout == s.layout && r.ban&^ban == 0 && s.keepUp(sh.want) && r.seen >= sh.want.gains.from; !r.known {
		return false
	}
	for _, g := range sh.want.gains.nodes {
		if n := s.nodes[g.at]; g.when > r.seen && n.open() && s.try.roomOn(n, sh.want) > 0 {
			r.known = false
			return false
		}
	}
	return true
}

// keepUp adds the nodes that grew since to the gains of a want. It is false when
// nothing is known of these.
func (s *State) keepUp(w *want) bool {
	g := &w.gains
	if !g.known || g.layout != s.layout || s.grown.lost(g.to) {
		g.known = false
		return false
	}
	for i, at := range s.grown.since(g.to) {
		g.nodes = append(g.nodes, gained{at, g.to + i + 1})
	}
	g.to = s.grown.count
	return true
}

// siftGains drops from the gains of all wants what has no room for them. Nothing may
// be taken: it could come back.
func (s *State) siftGains() {
	kept := s.lost[:0]
	for _, w := range s.lost {
		if w.listed = false; w.refs == 0 || !s.keepUp(w) {
			continue
		}
		left := w.gains.nodes[:0]
		for _, g := range w.gains.nodes {
			if n := s.nodes[g.at]; n.open() && n.room(w) > 0 {
				left = append(left, g)
			}
		}
		if w.gains.nodes = left; len(left) > gainsMost {
			w.gains.known = false
			continue
		}
		w.listed = true
		kept = append(kept, w)
	}
	clear(s.lost[len(kept):])
	s.lost = kept
}

// regain lets the nodes from which a decision took something count as grown: it
// gives that back now.
func (t *try) regain() {
	if !t.noted {
		return
	}
	t.noted = false
	for i := range t.taken {
		if n := t.taken[i].node; i == 0 || t.taken[i-1].node != n {
			t.state.grown.note(n.at)
		}
	}
}
