package engine

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// keeping is a nomination in one decision: its seats, and what of them is free
// and so held, in order that nobody else is given it.
type keeping struct {
	entry  *entry
	seats  []ares.Seat
	until  time.Time // its seats are free by then, or given up
	held   []taking
	free   int         // seats of which all is held
	grant  queue.Grant // counts for limits and quotas meanwhile, and for no share
	over   bool        // it has its place, or was given up: nothing is held
	spoilt string      // why it was given up
}

// uphold looks after every nomination before anybody has his turn. Who finds
// his seats free is placed there. Who cannot have them any more gives them up,
// and has his turn as any other.
// For the others what is free is held, and those who are still to give way are
// stopped. One job may be left out. What it counts for leaves is taken back by letGo.
func (t *try) uphold(plan *ares.Plan, but *entry, tell func(*entry, *ares.Placing, bool) bool) (more bool) {
	s := t.state
	more = true
	for _, e := range s.yard.nominated {
		if e == but || e.queue != inPending || s.doomed(e) {
			continue // an event will say what becomes of it
		}
		n := e.run.Nominated
		k := keeping{entry: e, seats: n.Seats, until: n.Until, over: true}
		why := t.spoilt(e, plan.Now)
		m := mark(len(t.taken))
		free := why == "" && more && t.sitDown(n.Seats)
		if free && !s.mayHave(e.shape, n.Seats, plan.Now) {
			// Those who are on their way out may hold what it lacks elsewhere. Were
			// the seats given up, it or another would have them kept again at once.
			t.undo(m)
			free = false
		}
		switch {
		case why != "":
			k.spoilt = why
		case free:
			k.grant = s.grantTo(e.shape, n.Seats)
			e.shape.leaf.Charge(k.grant, 1)
			t.offer = ares.Placing{Job: e.id, Seats: n.Seats, Score: s.score(n.Seats), Merit: s.meritOf(n.Seats)}
			t.placed = append(t.placed, placed{e, n.Seats})
			more = tell == nil || tell(e, &t.offer, true)
		default:
			k.over = false
			k.grant = s.grantTo(e.shape, n.Seats)
			k.grant.Use = queue.Use{}
			e.shape.leaf.Charge(k.grant, 1)
			k.held, k.free = t.holdSeats(n.Seats)
			t.pursue(plan, e)
			wakeBy(plan, n.Until)
		}
		t.kept = append(t.kept, k)
		t.upheld = len(t.kept)
	}
	return more
}

// wakeBy has the next decision made at a time at the latest.
func wakeBy(plan *ares.Plan, at time.Time) {
	if plan.Wake.IsZero() || at.Before(plan.Wake) {
		plan.Wake = later(at, plan.Now)
	}
}

// letGo takes back what upholding has counted.
func (t *try) letGo() {
	for i := range t.kept[:t.upheld] {
		k := &t.kept[i]
		k.entry.shape.leaf.Charge(k.grant, -1)
	}
	clear(t.kept)
	t.kept, t.upheld = t.kept[:0], 0
}

// keepingOf is the nomination of a job in this decision, nil for none.
func (t *try) keepingOf(e *entry) *keeping {
	for i := len(t.kept) - 1; i >= 0; i-- { // one that was spoilt may have another by now
		if t.kept[i].entry == e {
			return &t.kept[i]
		}
	}
	return nil
}

// giveUp writes down which nominations are over without their jobs having a
// place, or other seats.
func (t *try) giveUp(plan *ares.Plan) {
	for i := range t.kept[:t.upheld] {
		k := &t.kept[i]
		if k.spoilt == "" || slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == k.entry.id }) ||
			slices.ContainsFunc(plan.Nominate, func(n ares.Nominating) bool { return n.Job == k.entry.id }) {
			continue
		}
		plan.Withdraw = append(plan.Withdraw, ares.Withdrawing{Job: k.entry.id, Why: k.spoilt})
	}
}

// spoilt says why a nomination has to be given up, "" when it has not.
func (t *try) spoilt(e *entry, now time.Time) string {
	s, n := t.state, e.run.Nominated
	switch {
	case !now.Before(n.Until):
		return "they were not free in time"
	case s.topology.Revision > e.run.Revision:
		return "the topology has changed"
	}
	s.dated(now)
	s.stays(e)
	f := s.sift(e.shape.want)
	for i := range n.Seats {
		seat := &n.Seats[i]
		at := s.byID[seat.Node]
		if at == nil || !at.open() {
			return "node " + seat.Node + " takes no jobs any more"
		}
		if !f.nodes.has(at.at) {
			return "node " + seat.Node + " is not what it asks for any more"
		}
		if v := s.barredBy(e.shape, at); v != nil {
			return fmt.Sprintf("node %s is %s", seat.Node, s.calendar.words(v))
		}
		for k := range seat.Shares {
			if d := at.spot(&seat.Shares[k]); d < 0 || at.usable&(1<<d) == 0 {
				return fmt.Sprintf("device %s of node %s cannot be used any more", seat.Shares[k].Device, seat.Node)
			}
		}
	}
	for i := range n.Victims {
		if v := t.pending(&n.Victims[i]); v != nil && v.run.Endures(v.job) {
			return "one that was to give way has begun and must not be stopped" // it may be another tenant's
		}
	}
	return ""
}

// pending is the victim of a nomination that has not been asked to stop yet, nil
// when it has, or is gone already.
func (t *try) pending(v *ares.Victim) *entry {
	e := t.state.jobs[v.Job]
	if e == nil || e.job == nil || e.run == nil || e.run.Fence() != v.Fence || e.run.Stop != nil {
		return nil
	}
	return e
}

// pursue stops those of a nomination that are still to be: one plan may not have
// held them all.
func (t *try) pursue(plan *ares.Plan, e *entry) {
	for i := range e.run.Nominated.Victims {
		v := &e.run.Nominated.Victims[i]
		if o := t.pending(v); o != nil && !t.stop(plan, o, v.Yield) {
			return
		}
	}
}

// stop has a job give way by this plan. It is false when the plan is full.
func (t *try) stop(plan *ares.Plan, v *entry, y ares.Yield) bool {
	if slices.Contains(t.leaving, v) || t.state.doomed(v) {
		return true
	}
	if len(plan.Stop) >= MaxPlacings {
		plan.Wake = plan.Now
		return false
	}
	t.leaving = append(t.leaving, v)
	plan.Stop = append(plan.Stop, ares.Stopping{Job: v.id, Stop: ares.Stop{Why: ares.StopPreempt, By: "job " + string(y.To), At: plan.Now, Yield: &y}})
	return true
}

// sitDown takes seats if all of them are free, and else nothing.
func (t *try) sitDown(seats []ares.Seat) bool {
	m := mark(len(t.taken))
	for i := range seats {
		if !t.state.byID[seats[i].Node].takes(&seats[i]) {
			t.undo(m)
			return false
		}
		t.occupy(seats[i : i+1])
	}
	return true
}

// takes says whether the seat is free on the node.
func (n *node) takes(seat *ares.Seat) bool {
	if n == nil || !n.open() || n.seats >= MaxSeats || n.profile.cpus-n.cpus < seat.CPUs || n.record.MemoryMB-n.memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		d := n.spot(&seat.Shares[i])
		if d < 0 || n.usable&(1<<d) == 0 || wholeMilli-n.devices[d].taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.sparesAt(seat)
}

// holdSeats takes what is free of seats, and says what that was, and of how many
// it is all.
func (t *try) holdSeats(seats []ares.Seat) (held []taking, free int) {
	from := len(t.taken)
	for i := range seats {
		seat := &seats[i]
		n := t.state.byID[seat.Node]
		if n == nil || !n.open() {
			continue
		}
		if n.takes(seat) {
			free++
		}
		for k := range seat.Shares {
			d := n.spot(&seat.Shares[k])
			if d < 0 {
				continue
			}
			if some := min(seat.Shares[k].Milli, wholeMilli-n.devices[d].taken); some > 0 {
				t.take(taking{node: n, device: d, milli: some})
			}
		}
		cpus, memory := max(min(seat.CPUs, n.profile.cpus-n.cpus), 0), max(min(seat.Memory, n.record.MemoryMB-n.memory), 0)
		t.take(taking{node: n, device: restOfSeat, cpus: cpus, memory: memory, numa: seat.NUMA, kind: seatKind(seat)})
		t.state.move(n)
	}
	return slices.Clone(t.taken[from:]), free
}

// lift gives up what is held for a nomination, until the try goes back.
func (t *try) lift(k *keeping) {
	for _, h := range k.held {
		h.milli, h.cpus, h.memory = -h.milli, -h.cpus, -h.memory
		if h.device == restOfSeat {
			h.device = restOfLeaving
		}
		if t.take(h); h.device < 0 {
			t.state.move(h.node)
		}
	}
}

// elsewhere places a job for which seats are kept somewhere else, if it fits
// there now. What is held for it counts as free.
func (t *try) elsewhere(pass *queue.Pass[*entry], k *keeping, now time.Time) bool {
	s, sh, m := t.state, k.entry.shape, mark(len(t.taken))
	t.supposing = true
	defer func() { t.supposing = false }()
	t.lift(k)
	pass.Count(sh.leaf, k.grant, -1)
	ok := false
	if members, ban := s.allowed(sh, now); members >= len(k.seats) {
		s.drawFor(k.entry.id, 0)
		t.offer, ok = t.place(sh, members, ban, k.entry)
	}
	if !ok || len(t.offer.Seats) < len(k.seats) {
		t.undo(m)
		pass.Count(sh.leaf, k.grant, 1)
		return false
	}
	k.over = true
	t.offer.Job = k.entry.id
	t.placed = append(t.placed, placed{k.entry, t.offer.Seats})
	return true
}

// mayHave says whether a job may have these seats, by all that does not ask for
// room: what it waits for, its budget, limits and quotas.
func (s *State) mayHave(sh *shape, seats []ares.Seat, now time.Time) bool {
	if sh.tenant.record == nil || s.overBudget(sh.tenant, now) || slices.ContainsFunc(sh.after, func(id ares.JobID) bool { return !s.met(id) }) {
		return false
	}
	return sh.leaf.Free() || len(sh.leaf.Admit(s.grantOf(sh, seats))) == 0
}

// grantTo is grantOf for who keeps it.
func (s *State) grantTo(sh *shape, seats []ares.Seat) queue.Grant {
	g := s.grantOf(sh, seats)
	g.GPUs = slices.Clone(g.GPUs)
	return g
}

// meritOf is what speaks for seats that were chosen by an earlier decision.
func (s *State) meritOf(seats []ares.Seat) ares.Merit {
	m := ares.Merit{Bandwidth: s.bandwidth(seats)}
	lo, hi := len(s.nodes), 0
	for i := range seats {
		at := s.byID[seats[i].Node].at
		lo, hi = min(lo, at), max(hi, at)
	}
	if lo == hi {
		m.Level, m.Domain = ares.LevelNode, s.nodes[lo].id
		return m
	}
	for _, level := range slices.Backward(ares.Levels()) {
		if from, to := s.places.Span(lo, level); from <= lo && hi < to && level.Rank() < ares.LevelNode.Rank() {
			m.Level, m.Domain = level, s.places.Name(lo, level)
			break
		}
	}
	return m
}

// waits says how far the seats that are kept for a job are free.
func (k *keeping) waits() ares.Blocker {
	return ares.Blocker{Kind: kindYield, Detail: fmt.Sprintf("others give way to it: %d of %d seats are free", k.free, len(k.seats))}
}

// keeps says whether seats are kept for the job in this decision.
func (t *try) keeps(e *entry) bool {
	k := t.keepingOf(e)
	return k != nil && !k.over
}
