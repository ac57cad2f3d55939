package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// victimsByOrder finds who gives way to a job that comes before them in the
// configured order: of its own queue and class, only such as come later, the
// last of them first, and no more than it takes for the waiting one to fit.
//
// Nobody takes turns: a waiting job keeps its standing, and a running one comes
// earlier with OrderRemaining, and with OrderAttained later, but never later
// than whom it stopped. One that waited for PeersAfter stops those of its own level
// too that were submitted after it.
func (t *try) victimsByOrder(e *entry, plan *ares.Plan) (choice, bool) {
	members, ban := t.state.allowed(e.shape, plan.Now)
	if members == 0 {
		return choice{}, false
	}
	base := mark(len(t.taken))
	c := choice{why: ares.YieldOrder}
	if !t.leave(e, t.behind(e, plan), &c, members, ban) {
		t.undo(base)
		return c, false
	}
	t.undo(base)
	if _, milli := c.cost(); t.state.cfg.Yielding.exceeds(milli, milliOf(c.seats)) {
		t.say("preempting would stop %s for %s (ceiling %s)", gpusOf(milli), gpusOf(milliOf(c.seats)), thousandthsOf(t.state.cfg.Yielding.Ceiling))
		return c, false
	}
	return c, true
}

// behind is who could give way to a waiting job, the last in the order first.
func (t *try) behind(e *entry, plan *ares.Plan) []*rival {
	s, now := t.state, plan.Now
	mine, rank := s.standing(e, now), e.rank()
	until, bounded := s.stopsPeers(e)
	waited := bounded && !now.Before(until)
	forebears, barred := s.forebears(e, plan), t.barred(0)
	standing := map[*entry]uint64{}
	var out []*rival
	for _, v := range e.shape.tenant.active { // in no order: sorted right below
		if v.shape.leaf != e.shape.leaf || v.run.Current() == nil || v.run.Stop != nil || !v.mayYield() || v.rank() != rank {
			continue
		}
		at := s.standing(v, now)
		after := at > mine || waited && at == mine && v.job.Revision > e.job.Revision
		if !after || forebears[v.id] || barred[v] || slices.Contains(t.leaving, v) {
			continue
		}
		if guard, _ := s.guarding(v, now); guard != unguarded {
			continue
		}
		milli := held(v)
		standing[v] = at
		out = append(out, &rival{entry: v, milli: milli, lost: s.losing(v, milli, now), why: ares.YieldOrder})
	}
	slices.SortFunc(out, func(a, b *rival) int {
		return cmp.Or(cmp.Compare(standing[b.entry], standing[a.entry]), cmp.Compare(b.entry.job.Revision, a.entry.job.Revision), cmp.Compare(b.entry.id, a.entry.id))
	})
	return out
}

// mayYield says whether the job goes on later where it was stopped, and may be
// stopped at all.
func (e *entry) mayYield() bool {
	return e.job.Checkpoint.Enabled && !e.job.Placement.LatencySensitive && !e.run.Endures(e.job)
}

// leave is the fewest of some rivals whose seats let the job fit. It is false
// when not even all are enough.
func (t *try) leave(e *entry, from []*rival, c *choice, members int, ban uint64) bool {
	m, w := mark(len(t.taken)), t.state.without(e.shape.want, ban)
	reach, ok := t.state.reach(e.shape, w)
	if !ok {
		return false
	}
	var out []*rival
	var p ares.Placing
	fits := false
	for _, v := range from {
		if !t.state.sitsIn(v.entry, reach) {
			continue
		}
		t.vacate(v.entry)
		out = append(out, v)
		if t.state.opens(v.entry, w) {
			if p, fits = t.place(e.shape, members, ban, e); fits {
				break
			}
		}
	}
	if !fits {
		return false
	}
	// Whoever sits elsewhere stays, and then whoever is not needed after all,
	// the first in the order before the others.
	out = slices.DeleteFunc(out, func(v *rival) bool { return !v.entry.shares(p.Seats) })
	for i := len(out) - 1; i >= 0 && len(out) > 1; i-- {
		rest := slices.Delete(slices.Clone(out), i, i+1)
		if _, fits = t.fitsWithout(m, rest, e, members, ban); fits {
			out = rest
		}
	}
	p, ok = t.fitsWithout(m, out, e, members, ban)
	c.seats, c.victims = p.Seats, out
	return ok
}

// fitsWithout says whether the job fits when some leave, from a mark on. It is
// taken then.
func (t *try) fitsWithout(m mark, leave []*rival, e *entry, members int, ban uint64) (ares.Placing, bool) {
	t.undo(m)
	for _, v := range leave {
		t.vacate(v.entry)
	}
	return t.place(e.shape, members, ban, e)
}

// sitsIn says whether a seat of the job is on one of the nodes.
func (s *State) sitsIn(e *entry, nodes *set) bool {
	a := e.run.Current()
	return slices.ContainsFunc(a.Seats, func(h ares.Held) bool {
		n := s.byID[h.Node]
		return n != nil && nodes.has(n.at)
	})
}

// shares says whether a seat of the job is on a node of others.
func (e *entry) shares(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.run.Current().Seats, func(h ares.Held) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}

// stopsPeers is when a waiting job begins to stop those of its own level that were
// submitted after it, false for never.
func (s *State) stopsPeers(e *entry) (time.Time, bool) {
	wait := s.cfg.Queueing.PeersAfter
	if wait == 0 {
		return time.Time{}, false
	}
	since := e.job.AcceptedAt
	if e.run != nil && e.run.Last() != nil {
		since = later(since, e.run.Last().EndedAt)
	}
	return since.Add(wait), true
}

// falling wakes the plan when the next running job comes behind one that waits
// in its queue, or when one may stop its peers, which no event tells.
func (s *State) falling(blocked []*entry, plan *ares.Plan) {
	if s.cfg.Queueing.Order != OrderAttained {
		return
	}
	level := int64(s.cfg.Queueing.level()) * wholeMilli
	for _, e := range blocked {
		if until, ok := s.stopsPeers(e); ok && plan.Now.Before(until) {
			wakeBy(plan, until)
		}
		if s.standing(e, plan.Now) > 0 {
			continue
		}
		for _, v := range e.shape.tenant.active { // in no order: the earliest of all
			if v.shape.leaf != e.shape.leaf || v.run.Current() == nil || v.run.Stop != nil || v.run.Current().StartedAt.IsZero() || !v.mayYield() {
				continue
			}
			lacks, rate := level-s.served(v, plan.Now), v.milli()
			if lacks <= 0 || rate == 0 {
				continue
			}
			wakeBy(plan, plan.Now.Add(time.Duration((lacks*1000+rate-1)/rate)*time.Millisecond))
		}
	}
}
