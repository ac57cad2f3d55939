package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// A gang that loses a node is stopped as a whole, and placed again when all its
// seats are settled. Its living ranks die one by one meanwhile. Decisions leave
// alone what they left, until the last of them is dead and then for the gang until
// it had its turn: it had been placed, and moves as few members as the rules allow.
// Somebody who took one of the seats would force it to move altogether. Nothing is
// kept for one that would find no place even so. The accounts know nothing of this:
// what somebody else has been given by then is his.

// keepFor is for how long after the end of a gang by the loss of a node those who
// come before it in the order leave it what it had on the others.
const keepFor = 2 * time.Minute

// regroups says whether the last attempt of a gang ends or ended because of its
// nodes, and some of the job's seats are not settled yet.
func (e *entry) regroups() bool {
	if e.run == nil || len(e.run.Attempts) == 0 {
		return false
	}
	a, stop := e.run.Last(), e.run.Stop
	again := e.run.Phase == ares.Pending || e.run.Phase == ares.Retrying
	switch {
	case len(a.Seats) < 2:
		return false
	case !a.Ended() && stop != nil && (stop.Why == ares.StopLost || stop.Why == ares.StopDrain):
	case a.Ended() && again && (a.Outcome == ares.OutcomeLost || a.Outcome == ares.OutcomeStopped):
	default:
		return false
	}
	return !e.run.Settled()
}

// rejoin lets every rank that can stay on its node of the last attempt; the others
// follow in the order of the nodes. What a rank keeps on its node's disks is then
// where it was.
func (e *entry) rejoin(seats []ares.Seat) {
	if e == nil || e.run == nil {
		return
	}
	last := e.run.Last()
	if last == nil {
		return
	}
	left := slices.Clone(seats)
	taken := make([]bool, len(seats))
	for rank := range seats {
		if rank >= len(last.Seats) {
			break
		}
		was := last.Seats[rank].Node
		if at := slices.IndexFunc(left, func(s ares.Seat) bool { return s.Node == was }); at >= 0 {
			seats[rank], taken[rank] = left[at], true
			left = slices.Delete(left, at, at+1)
		}
	}
	for rank := range seats {
		if !taken[rank] {
			seats[rank], left = left[0], left[1:]
		}
		seats[rank].Rank = rank
	}
}

// regrouped says whether a gang lost a node, and is about to end or waits.
func (e *entry) regrouped() bool {
	if e.regroups() {
		return true
	}
	if e.queue != inPending || e.run == nil {
		return false
	}
	last := e.run.Last()
	return last != nil && last.Outcome == ares.OutcomeLost && len(last.Seats) > 1
}

// regroup notes whether an entry is one of the gangs that seats are kept for.
func (s *State) regroup(e *entry) {
	at, known := slices.BinarySearchFunc(s.regrouping, e, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	switch wants := e.regrouped(); {
	case wants && !known:
		s.regrouping = slices.Insert(s.regrouping, at, e)
	case wants:
		s.regrouping[at] = e // a job of that ID may have gone and come again
	case known && s.regrouping[at] == e:
		s.regrouping = slices.Delete(s.regrouping, at, at+1)
	}
}

// keptUntil is until when those who come before a regrouping gang that has ended
// leave it its seats, false when they need not. A clock that is far off keeps nothing.
func (e *entry) keptUntil(now time.Time) (time.Time, bool) {
	ended := e.run.Last().EndedAt
	return ended.Add(keepFor), now.Sub(ended).Abs() < keepFor
}

// gathering is what is kept in a decision for a gang that lost a node.
type gathering struct {
	entry *entry
	seats []*ares.Seat
	given bool // its turn has come
}

// keepTogether takes the seats that are kept for gangs, but for one of them.
func (t *try) keepTogether(now time.Time, but *entry) {
	for _, e := range t.state.regrouping {
		if e == but || e.run.Nominated != nil || !e.keptOn(now) || !e.regroups() && !t.couldGoOn(e, now) {
			continue
		}
		g := gathering{entry: e}
		last := e.run.Last()
		for i := range last.Seats {
			seat := &last.Seats[i].Seat
			if last.Seats[i].State.Free() && t.state.byID[seat.Node].takes(seat) {
				t.occupy([]ares.Seat{*seat})
				g.seats = append(g.seats, seat)
			}
		}
		t.gangs = append(t.gangs, g)
	}
}

// keptOn says whether seats are kept for a gang that lost a node: until the last of
// its ranks is dead, and for a while then.
func (e *entry) keptOn(now time.Time) bool {
	if e.regroups() {
		return true
	}
	_, due := e.keptUntil(now)
	return due
}

// couldGoOn says whether a gang would find a place if it were its turn.
func (t *try) couldGoOn(e *entry, now time.Time) bool {
	members, ban := t.state.allowed(e.shape, now)
	if members == 0 || t.state.doomed(e) {
		return false
	}
	m := mark(len(t.taken))
	_, ok := t.place(e.shape, members, ban, e)
	t.undo(m)
	return ok
}

// gathers says whether seats are kept for a gang whose turn is still to come in this
// decision.
func (t *try) gathers() bool {
	return slices.ContainsFunc(t.gangs, func(g gathering) bool { return !g.given && g.entry.queue == inPending && g.entry.settled() })
}

// handOver gives a gang whose turn it is what was kept for it. If it does not take
// it, those behind it may.
func (t *try) handOver(e *entry) {
	at := slices.IndexFunc(t.gangs, func(g gathering) bool { return g.entry == e && !g.given })
	if at < 0 {
		return
	}
	t.part(&t.gangs[at])
	t.gangs[at].given = true
	t.state.sight++ // what asked in vain so far may find room now
}

// part gives up what is kept for a gang.
func (t *try) part(g *gathering) {
	for _, seat := range g.seats {
		n := t.state.byID[seat.Node]
		t.vacateSeat(n, seat)
		t.state.move(n)
	}
}

// lapse has the plan wake when seats are no longer kept for a gang it does not
// place, if somebody waits.
func (s *State) lapse(plan *ares.Plan, now time.Time) {
	if len(plan.Refuse) == 0 {
		return
	}
	for i := range s.try.gangs {
		e := s.try.gangs[i].entry
		if !e.run.Settled() {
			continue // an event will say when
		}
		if until, _ := e.keptUntil(now); !slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == e.id }) {
			wakeBy(plan, until)
		}
	}
}

// keepsSeats says whether seats are kept for some gang, or one that is being moved.
func (s *State) keepsSeats(now time.Time) bool {
	return s.awaited(now) || slices.ContainsFunc(s.regrouping, func(e *entry) bool { return e.keptOn(now) })
}
