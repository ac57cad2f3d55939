package engine

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Limits on one plan, so that a commit stays small and a decision short.
const (
	// MaxPlacings is the most jobs one plan places, and the most delays it
	// ends. A plan that was cut there has Wake = now: decide again.
	MaxPlacings = 500
	// MaxRefusals is the most shapes one plan names as refused. Beyond it
	// shapes are refused without being named; Explain answers for each.
	MaxRefusals = 500
)

// Decide runs one cycle: which delays are over, and which waiting jobs are
// placed where. The plan touches each run at most once, so a job whose delay
// is over is placed by a later plan, when its run is pending. The state is as
// before afterwards; it changes when the committed plan comes back by Apply.
func Decide(s *State, now time.Time) ares.Plan {
	s.ready()
	s.dated(now)
	plan := ares.Plan{Revision: s.revision, Now: now}

	s.settleAll(&plan)
	blocked := s.deal(&plan)
	s.try.promises()
	s.falling(blocked, &plan)
	// Those that have waited for as long as they would are let go.
	s.giveUp(&plan)
	s.remark(&plan)
	plan.Wake = sooner(plan.Wake, s.shuffled())
	s.chime(&plan)
	s.lapse(&plan, now)
	s.refusals = len(plan.Refuse)
	return plan
}

// settleAll plans what has to be, whoever's turn it is.
func (s *State) settleAll(plan *ares.Plan) {
	// 1. Settle: arrays that are over, delays that are over, and the next one
	// that will be. Who is where others have a reservation leaves: nobody need
	// give way to have what he has.
	s.settle(plan, plan.Now)
	s.finish(plan)
	s.evict(plan)
}

// deal runs the cycle. Where it lends to some what others take back by stopping
// somebody, it runs again and lends nothing: what is free goes to who was promised
// it, and the others have their turn in the next plan.
func (s *State) deal(plan *ares.Plan) (blocked []*entry) {
	settled := *plan
	settled.Ready, settled.Arrays, settled.Stop = slices.Clip(plan.Ready), slices.Clip(plan.Arrays), slices.Clip(plan.Stop)
	if blocked = s.dealt(s.begin(), plan); !s.try.lent || !slices.ContainsFunc(plan.Nominate, takesBack) {
		return blocked
	}
	*plan = settled
	t := s.begin()
	t.sparing, t.told = true, t.told[:0]
	blocked = s.dealt(t, plan)
	if !plan.Empty() { // of the same state the next would be the same
		plan.Wake = plan.Now
	}
	return blocked
}

// takesBack says whether somebody is stopped for what a quota promises.
func takesBack(n ares.Nominating) bool {
	return n.Nomination.Why == ares.YieldQuota && len(n.Nomination.Victims) > 0
}

// dealt is one cycle into the plan, and who was admitted and found no place.
func (s *State) dealt(t *try, plan *ares.Plan) (blocked []*entry) {
	now := plan.Now
	// 2. Order: whose turn it is, by aged class, share, aged priority.
	t.cycle(plan, func(e *entry, placing *ares.Placing, admitted bool) bool {
		switch {
		case placing != nil:
			plan.Place = append(plan.Place, *placing)
			if placing.ArrayOf != "" {
				step(plan, placing)
				if s.try.cut(e) {
					plan.Wake = now
				}
			}
			if len(plan.Place) == MaxPlacings {
				plan.Wake = now
				return false
			}
			return true
		case admitted && s.cfg.Queueing.Yield:
			blocked = append(blocked, e)
		}
		s.renewal(plan, e.shape.tenant)
		if len(plan.Refuse) < MaxRefusals {
			if plan.Refuse == nil {
				plan.Refuse = make([]ares.Refusal, 0, s.refusals)
			}
			plan.Refuse = append(plan.Refuse, ares.Refusal{Job: e.id, Blockers: s.short(e, admitted, now)})
		}
		return true
	})
	return blocked
}

// cycle looks after the nominations, and then offers the waiting jobs in their
// order: each is admitted and placed, or has others give way, or is refused with
// its whole shape. tell hears of it, and ends the cycle by false; the placing it
// is shown is good until it returns. What it does to the plan is all but that.
func (s *State) cycle(plan *ares.Plan, tell func(e *entry, placing *ares.Placing, admitted bool) bool) {
	s.begin().cycle(plan, tell)
}

// cycle is the state's, in a decision that has begun.
func (t *try) cycle(plan *ares.Plan, tell func(e *entry, placing *ares.Placing, admitted bool) bool) {
	s := t.state
	defer t.end()
	t.expect(plan)
	s.siftGains()
	s.atClock(plan.Now)
	defer t.letGo()
	defer t.giveUp(plan)
	if !t.uphold(plan, nil, tell) {
		return
	}
	t.keepTogether(plan.Now, nil)
	t.keepPlaces(plan.Now, nil)
	pass := s.order.Begin(plan.Now)
	defer pass.End()
	t.turns(pass, plan, tell)
}

// expect counts on those to leave whom the plan stops already: elements of arrays
// that are to end, and who has to leave a reservation.
func (t *try) expect(plan *ares.Plan) {
	for i := range plan.Stop {
		if e := t.state.jobs[plan.Stop[i].Job]; e != nil && e.yard >= inRunning {
			t.leaving = append(t.leaving, e)
		}
	}
}

func (t *try) turns(pass *queue.Pass[*entry], plan *ares.Plan, tell func(e *entry, placing *ares.Placing, admitted bool) bool) {
	s, now := t.state, plan.Now
	for {
		it, ok := pass.Next()
		if !ok {
			return
		}
		e := it.Owner
		if !e.plain && (s.doomed(e) || e.isArray() && t.wanted(e) <= 0) {
			pass.Skip()
			continue
		}
		if len(t.kept) > 0 {
			if done, more := t.nominatedTurn(pass, e, now, tell); !more {
				return
			} else if done {
				continue
			}
		}
		var admitted bool
		if admitted, ok = t.attempt(e, now); !ok {
			if !t.blocked(pass, plan, e, admitted, tell) {
				return
			}
			continue
		}
		if grant := s.grantOf(e.shape, t.offer.Seats); !e.plain && e.isArray() {
			t.grow(e, &t.offer)
			pass.Again(grant)
			pass.Yield()
		} else {
			pass.Take(grant)
		}
		if !tell(e, &t.offer, true) {
			return
		}
	}
}

// nominatedTurn is the turn of a job for which seats are kept, if this is one:
// it may fit elsewhere by now. Others of its shape have their turn all the same.
func (t *try) nominatedTurn(pass *queue.Pass[*entry], e *entry, now time.Time, tell func(*entry, *ares.Placing, bool) bool) (done, more bool) {
	k := t.keepingOf(e)
	t.keptOff, t.shut = false, false
	switch {
	case k == nil || k.spoilt != "":
		return false, true
	case k.over:
		pass.Skip()
		return true, true
	case t.elsewhere(pass, k, now):
		pass.Take(t.state.grantOf(e.shape, t.offer.Seats))
		return true, tell(e, &t.offer, true)
	}
	t.passBy(pass, e)
	t.words = []ares.Blocker{k.waits()}
	return true, tell(e, nil, true)
}

// passBy passes over a job that has to wait for its seats, and where queues are
// strict over everybody behind it.
func (t *try) passBy(pass *queue.Pass[*entry], e *entry) {
	if s := t.state; s.cfg.Queueing.Blocked == BlockedHold && s.independent(e) {
		pass.Hold()
		return
	}
	pass.Skip()
}

// blocked is what becomes of a job that found no place.
func (t *try) blocked(pass *queue.Pass[*entry], plan *ares.Plan, e *entry, admitted bool, tell func(*entry, *ares.Placing, bool) bool) (more bool) {
	// 6. Yield: others give way to it, and the seats are kept for it.
	if !t.everybody && t.yield(pass, plan, e, admitted) {
		t.passBy(pass, e)
		t.words = []ares.Blocker{t.keepingOf(e).waits()}
		return tell(e, nil, admitted)
	}
	// 7. Refuse, once for each shape, and 5. reserve for the first that were:
	// others get a place behind them where that delays nobody.
	return !t.refuse(pass, e, admitted, plan.Now) || tell(e, nil, admitted)
}

// attempt admits one job, and places it by the offer.
func (t *try) attempt(e *entry, now time.Time) (admitted, ok bool) {
	s := t.state
	t.keptOff, t.shut, t.spared = false, false, false
	t.handOver(e)
	// 3. Admit: dependencies, budget, limits, quotas.
	members, ban := s.allowed(e.shape, now)
	if members == 0 || s.hopeless(e.shape, ban) {
		return members > 0, false
	}
	if t.outlasts(e) {
		return true, false
	}
	borrows := s.order.HasQuotas() && s.borrows(e.shape)
	if borrows && t.sparing {
		t.keptOff, t.spared = true, true
		return true, false
	}
	// 4. Place: the whole gang or nothing.
	s.drawFor(e.id, e.next()+e.made)
	if len(t.reserved) > 0 {
		t.offer, ok = t.beside(e, members, ban, now)
	} else {
		t.offer, ok = t.place(e.shape, members, ban, e)
	}
	if !ok {
		if !t.keptOff && !t.shutOut(e, members, ban) && !t.supposing {
			s.note(e.shape, ban)
		}
		return true, false
	}
	t.lent = t.lent || borrows
	t.offer.Job = e.id
	t.placed = append(t.placed, placed{e, t.offer.Seats})
	return true, true
}

// short is a refusal without a look at the nodes one by one: what forbids the
// job, or that it found no room. Explain says the rest. Plans share the words;
// nobody changes them.
func (s *State) short(e *entry, admitted bool, now time.Time) []ares.Blocker {
	sh := e.shape
	if sh.noRoom == nil {
		sh.noRoom = []ares.Blocker{noRoom(sh)}
	}
	out := sh.noRoom
	switch {
	case !admitted:
		out = s.admit(sh, now)
	case s.try.shut:
		return shutOff
	case s.try.spared:
		return spared
	case s.try.keptOff:
		return keptOff
	}
	if words := s.try.words; len(words) > 0 {
		if s.try.keeps(e) {
			return words // it has its place, and waits for it
		}
		return slices.Concat(out, words)
	}
	return out
}

// settle readies the jobs whose delay is over, once none of their seats can
// still hold a live process, and notes when the next delay ends.
func (s *State) settle(plan *ares.Plan, now time.Time) {
	for _, e := range s.delayed {
		if now.Before(e.due) {
			plan.Wake = e.due
			return
		}
		if !e.settled() || s.doomed(e) {
			continue // an event will say when
		}
		if len(plan.Ready) == MaxPlacings {
			plan.Wake = now
			return
		}
		plan.Ready = append(plan.Ready, e.id)
	}
}
