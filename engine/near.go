package engine

import (
	ares "github.com/ares-scheduler/ares"
)

// reach is the nodes the shape's members may go to, however busy. It is false
// when there are none.
func (s *State) reach(sh *shape, w *want) (*set, bool) {
	f := s.sift(w)
	var barred []*window
	if len(s.calendar.windows) > 0 {
		barred = s.bars(sh, &f.nodes)
	}
	if len(sh.near)+len(sh.apart)+len(barred) == 0 {
		return &f.nodes, f.nodes.count > 0
	}
	out := &s.reached
	out.copy(&f.nodes)
	for _, v := range barred {
		out.subtract(&v.nodes)
	}
	for _, near := range sh.near {
		s.keep(out, sh, near)
	}
	for _, apart := range sh.apart {
		s.neighbours(sh, apart, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out.remove(i)
			}
		})
	}
	return out, out.count > 0
}

// welcome is the allowed nodes that nothing speaks against.
func (s *State) welcome(f *filter, allowed *set) *set {
	if allowed == &f.nodes {
		return &f.liked
	}
	s.welcomed.resize(len(s.nodes))
	allowed.common(&f.liked, 0, len(s.nodes), func(i int) bool {
		s.welcomed.add(i)
		return false
	})
	return &s.welcomed
}

// keep leaves only nodes near jobs of a kind. Where none runs yet, the first of
// its own kind may go anywhere.
func (s *State) keep(out *set, sh *shape, near ares.Near) {
	var there set
	there.resize(len(s.nodes))
	s.neighbours(sh, near, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			there.add(i)
		}
	})
	if there.count == 0 && near.Of(sh.labels) {
		return
	}
	for i := out.next(0); i >= 0; i = out.next(i + 1) {
		if !there.has(i) {
			out.remove(i)
		}
	}
}

// neighbours tells the ranges of nodes that are near running jobs of the
// shape's tenant with the labels, those this decision has placed included.
func (s *State) neighbours(sh *shape, near ares.Near, tell func(lo, hi int)) {
	for _, e := range sh.tenant.active {
		if !near.Of(e.job.Labels) {
			continue
		}
		for i := range e.run.Attempts {
			for k := range e.run.Attempts[i].Seats {
				if h := &e.run.Attempts[i].Seats[k]; !h.State.Free() {
					s.tellSpan(h.Node, near.Level, tell)
				}
			}
		}
	}
	for _, p := range s.try.placed {
		if p.entry.shape.tenant == sh.tenant && near.Of(p.entry.job.Labels) {
			for i := range p.seats {
				s.tellSpan(p.seats[i].Node, near.Level, tell)
			}
		}
	}
}

func (s *State) tellSpan(node string, level ares.Level, tell func(lo, hi int)) {
	if n := s.byID[node]; n != nil {
		tell(s.places.Span(n.at, level))
	}
}

// repelsItself says whether no two members may share a node.
func (sh *shape) repelsItself() bool {
	for _, a := range sh.apart {
		if a.Level == ares.LevelNode && a.Of(sh.labels) {
			return true
		}
	}
	return false
}
