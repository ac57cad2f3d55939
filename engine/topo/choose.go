package topo

import (
	ares "github.com/ares-scheduler/ares"
)

// scratch is memory that choosing uses again and again.
type scratch struct {
	judged, reached []int32
	picks           []Pick
}

// Choose finds nodes for a job, in the order of their indexes, and what speaks
// for them. False means that nothing in the fleet holds it. The picks are valid
// until the next choice. Of the merit it fills in the level, the domain (but
// not the name of a single node) and the weighted parts.
func (t *Tree) Choose(a *Ask, f Fleet) (picks []Pick, merit ares.Merit, ok bool) {
	for members := a.Members; members >= max(a.min(), 1); members-- {
		for depth := leaf; depth >= fleet; depth-- {
			for i := range t.domains[depth] {
				d := &t.domains[depth][i]
				t.scratch.picks = t.scratch.picks[:0]
				left := members
				for n := d.lo; n < d.hi && left > 0; n++ {
					if room := min(f.Room(n), left); room > 0 {
						t.scratch.picks = append(t.scratch.picks, Pick{n, room})
						left -= room
					}
				}
				if left == 0 {
					if _, merit, ok = t.Value(a, f, t.scratch.picks); ok {
						return t.scratch.picks, merit, true
					}
				}
			}
		}
	}
	return nil, ares.Merit{}, false
}
