package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// A job that is moved is promised another place. Until it has it, a place is kept
// for it in every decision: while it stops, while it waits to be placed again, and
// for no longer than keepFor after it stopped.

// moved says whether a yield is a move.
func moved(y *ares.Yield) bool { return y != nil && y.Why == ares.YieldMove }

// returns says whether the job is being moved: it stops for that, or has stopped
// and has no place again yet.
func (e *entry) returns() bool {
	if e.job == nil || e.run == nil {
		return false
	}
	if e.run.Current() != nil {
		return e.run.Stop != nil && moved(e.run.Stop.Yield)
	}
	last := e.run.Last()
	return last != nil && moved(last.Yield) && (e.run.Phase == ares.Pending || e.run.Phase == ares.Preempted)
}

// noteReturn notes whether an entry is one of those who are being moved.
func (s *State) noteReturn(e *entry) {
	at, known := slices.BinarySearchFunc(s.returning, e, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	switch wants := e.returns(); {
	case wants && !known:
		s.returning = slices.Insert(s.returning, at, e)
	case wants:
		s.returning[at] = e // a job of that ID may have gone and come again
	case known && s.returning[at] == e:
		s.returning = slices.Delete(s.returning, at, at+1)
	}
}

// dueBack says whether a place is kept for one that is being moved. A clock that is far
// off keeps nothing.
func (e *entry) dueBack(now time.Time) bool {
	if e.run.Current() != nil {
		return true
	}
	_, due := e.keptUntil(now)
	return due
}

// awaited says whether somebody is being moved.
func (s *State) awaited(now time.Time) bool {
	return slices.ContainsFunc(s.returning, func(e *entry) bool { return e.dueBack(now) })
}

// keepPlaces takes a place for each one that is being moved, but for one of them.
func (t *try) keepPlaces(now time.Time, but *entry) {
	s := t.state
	for _, e := range s.returning {
		if e == but || !e.dueBack(now) || s.doomed(e) || e.run.Nominated != nil {
			continue
		}
		has := len(e.run.Last().Seats)
		members, ban := e.shape.members, uint64(0)
		if e.run.Current() == nil { // else its own counts against it yet
			members, ban = s.allowed(e.shape, now)
		}
		if members < e.shape.least {
			continue
		}
		t.supposing = true
		p, ok := t.place(e.shape, min(has, members), ban, e)
		t.supposing = false
		if !ok {
			continue
		}
		g := gathering{entry: e}
		for i := range p.Seats {
			g.seats = append(g.seats, &p.Seats[i])
		}
		t.gangs = append(t.gangs, g)
	}
}

// keepBound takes the places of those who are being moved, where all are gone who are
// being stopped, they themselves too: a place of theirs may be in part what they still
// sit on, and is nobody else's for that.
func (t *try) keepBound() {
	for i := range t.bound {
		t.lift(&t.bound[i])
		t.holdSeats(t.bound[i].seats)
	}
	for _, e := range t.state.returning {
		kept := slices.ContainsFunc(t.gangs, func(g gathering) bool { return g.entry == e })
		if kept || e.run.Current() == nil || t.state.doomed(e) {
			continue
		}
		t.place(e.shape, len(e.run.Current().Seats), 0, e)
	}
}
