package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// yield stops running jobs for waiting ones that found no place, each in its
// turn: of its own queue and class, only such as come later in the configured
// order, the last of them first, and no more than it takes for the waiting one
// to fit. It is placed by a later plan, when their seats are free. A job whose
// place is on the way to be free stops nobody.
//
// Nobody takes turns: a waiting job keeps its standing, and a running one comes
// earlier with OrderRemaining, and with OrderAttained later, but never later
// than whom it stopped.
func (t *try) yield(plan *ares.Plan, blocked []*entry) {
	if len(blocked) == 0 {
		return
	}
	t.supposing = true
	defer func() { t.supposing = false }()
	now := plan.Now
	t.clearOut(blocked)
	for _, e := range blocked {
		members, ban := t.state.allowed(e.shape, now)
		if members == 0 || len(e.shape.near)+len(e.shape.apart) > 0 { // of these those who leave may be what it wants to be near
			continue
		}
		if _, ok := t.place(e.shape, members, ban, e); ok {
			continue
		}
		worse := t.state.behind(e, now, plan)
		leave := t.victims(e, worse, members, ban)
		if len(plan.Stop)+len(leave) > MaxPlacings { // those of one job leave together, or others have their seats first
			if len(plan.Stop) > 0 {
				plan.Wake = now
				return
			}
			continue
		}
		for _, v := range leave {
			plan.Stop = append(plan.Stop, ares.Stopping{Job: v.entry.id, Stop: ares.Stop{
				Why: ares.StopPreempt, By: "job " + string(e.id), At: now,
			}})
		}
	}
	t.state.falling(blocked, plan)
}

// clearOut vacates the seats of those who are being stopped already, of the
// tenants that have somebody waiting.
func (t *try) clearOut(blocked []*entry) {
	var seen []*tenant
	var going []*entry
	for _, e := range blocked {
		if slices.Contains(seen, e.shape.tenant) {
			continue
		}
		seen = append(seen, e.shape.tenant)
		for v := range e.shape.tenant.active { // order-free: all of them
			if v.run.Current() != nil && v.run.Stop != nil {
				going = append(going, v)
			}
		}
	}
	slices.SortFunc(going, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	for _, v := range going {
		t.vacate(v)
	}
}

// rival is a running job with where it stands in the order.
type rival struct {
	entry    *entry
	standing uint64
}

// behind is who could give way to a waiting job, the last in the order first.
func (s *State) behind(e *entry, now time.Time, plan *ares.Plan) []rival {
	mine, class := s.standing(e, now), ares.ClassOf(e.job.PriorityValue())
	var out []rival
	for v := range e.shape.tenant.active { // order-free: sorted right below
		if v.shape.leaf != e.shape.leaf || v.run.Current() == nil || v.run.Stop != nil || !v.mayYield() || ares.ClassOf(v.job.PriorityValue()) != class {
			continue
		}
		if standing := s.standing(v, now); standing > mine {
			out = append(out, rival{v, standing})
		}
	}
	slices.SortFunc(out, func(a, b rival) int {
		return cmp.Or(cmp.Compare(b.standing, a.standing), cmp.Compare(b.entry.job.Revision, a.entry.job.Revision), cmp.Compare(b.entry.id, a.entry.id))
	})
	return slices.DeleteFunc(out, func(r rival) bool {
		return slices.ContainsFunc(plan.Stop, func(s ares.Stopping) bool { return s.Job == r.entry.id })
	})
}

// mayYield says whether the job goes on later where it was stopped, and may be
// stopped at all.
func (e *entry) mayYield() bool {
	return e.job.Checkpoint.Enabled && !e.job.Placement.LatencySensitive && !e.run.Endures(e.job)
}

// victims is the fewest of some rivals whose seats let the job fit, nil when not
// even all are enough. The job's place, and theirs, is taken from then on.
func (t *try) victims(e *entry, from []rival, members int, ban uint64) []rival {
	m, w := mark(len(t.taken)), t.state.without(e.shape.want, ban)
	reach, ok := t.state.reach(e.shape, w)
	if !ok {
		return nil
	}
	var out []rival
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
		t.backTo(m)
		return nil
	}
	// Whoever sits elsewhere stays, and then whoever is not needed after all,
	// the first in the order before the others.
	out = slices.DeleteFunc(out, func(v rival) bool { return !v.entry.shares(p.Seats) })
	for i := len(out) - 1; i >= 0 && len(out) > 1; i-- {
		rest := slices.Delete(slices.Clone(out), i, i+1)
		if t.fitsWithout(m, rest, e, members, ban) {
			out = rest
		}
	}
	if !t.fitsWithout(m, out, e, members, ban) {
		t.backTo(m)
		return nil
	}
	return out
}

// fitsWithout says whether the job fits when some leave, from a mark on. It is
// taken then.
func (t *try) fitsWithout(m mark, leave []rival, e *entry, members int, ban uint64) bool {
	t.backTo(m)
	for _, v := range leave {
		t.vacate(v.entry)
	}
	_, ok := t.place(e.shape, members, ban, e)
	return ok
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

// falling wakes the plan when the next running job comes behind one that waits
// in its queue, which no event tells.
func (s *State) falling(blocked []*entry, plan *ares.Plan) {
	if s.cfg.Queueing.Order != OrderAttained {
		return
	}
	level := int64(s.cfg.Queueing.level()) * wholeMilli
	for _, e := range blocked {
		if s.standing(e, plan.Now) > 0 {
			continue
		}
		for v := range e.shape.tenant.active { // order-free: the earliest of all
			if v.shape.leaf != e.shape.leaf || v.run.Current() == nil || v.run.Stop != nil || v.run.Current().StartedAt.IsZero() || !v.mayYield() {
				continue
			}
			lacks, rate := level-s.served(v, plan.Now), v.milli()
			if lacks <= 0 || rate == 0 {
				continue
			}
			at := plan.Now.Add(time.Duration((lacks*1000+rate-1)/rate) * time.Millisecond)
			if plan.Wake.IsZero() || at.Before(plan.Wake) {
				plan.Wake = at
			}
		}
	}
}
