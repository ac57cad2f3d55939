package engine

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Consolidation: where there is room for a waiting job in all, but in no one
// place, running jobs that keep their progress are moved out of its way. Nobody is
// robbed: each of them has another place at once, by all rules, limits and quotas,
// or nobody is moved. Whose class is higher does not matter, only whether what is
// gained is worth what is lost.

// assumedWait is what a waiting job is reckoned to wait yet when nothing says when
// it could start, or as long as it has waited already if that is longer.
const assumedWait = 10 * time.Minute

// longestWait bounds what a reckoning counts of a wait.
const longestWait = 30 * 24 * time.Hour

// Limits on one decision: for so many shapes somebody to move is looked for, each
// time after leaving out somebody who found no other place, up to so often.
const (
	maxConsolidations = 4
	maxResettlings    = 8
)

// Consolidate is what would be moved now, and for whom, whether or not that is
// enabled. It changes nothing.
func Consolidate(s *State, now time.Time) []ares.Consolidation {
	s.ready()
	s.dated(now)
	was := s.cfg.Yielding.Moving
	s.cfg.Yielding.Moving = true
	s.try.told = []ares.Consolidation{}
	plan := ares.Plan{Revision: s.revision, Now: now}
	s.settleAll(&plan)
	s.deal(&plan) // as the next plan will: what is shown is what is done
	out := s.try.told
	s.try.told, s.cfg.Yielding.Moving = nil, was
	return out
}

// consolidate finds whom to move for a job that found no place. It is false when
// that is not worth it, or when there is nobody to move, or one is being moved
// already: one thing at a time, so that what was reckoned stays true.
func (t *try) consolidate(e *entry, plan *ares.Plan) (choice, bool) {
	s, now := t.state, plan.Now
	if !t.moving || t.consolidations >= maxConsolidations || !e.shape.want.devices() || s.awaited(now) ||
		len(s.yard.nominated)+len(plan.Nominate) >= MaxNominations {
		return choice{}, false
	}
	members, ban := s.allowed(e.shape, now)
	if members == 0 || !t.scattered(e.shape, ban) {
		return choice{}, false
	}
	t.consolidations++
	was := t.holding
	wait, foreseen := t.foreseenWait(e, members, ban, now)
	t.holdOnly(1<<len(t.reserved) - 1) // nobody goes where one ahead of him has a reservation
	c, ok := t.movers(e, ban, plan)
	t.holdOnly(was)
	if !ok {
		return choice{}, false
	}
	c.wait, c.foreseen = max(wait-c.grace(), 0), foreseen
	if lost, _ := c.cost(); !s.cfg.Yielding.worth(c.gain(), lost) {
		t.say("moving %s would make room: that costs %s GPU-seconds and gains %s, and it takes %s times what it costs",
			jobs(len(c.victims)), thousandthsOf(int(lost)), thousandthsOf(int(c.gain())), thousandthsOf(s.cfg.Yielding.MoveGain))
		if !foreseen {
			t.askAgain(e, &c, plan)
		}
		return choice{}, false
	}
	return c, true
}

// grace is the longest that one of the victims has to stop.
func (c *choice) grace() (longest time.Duration) {
	for _, v := range c.victims {
		longest = max(longest, v.entry.job.Grace())
	}
	return longest
}

// gain is what a waiting job gains that starts so much sooner, in thousandths of
// GPU-seconds.
func (c *choice) gain() int64 { return milliOf(c.seats) * int64(c.wait/time.Second) }

// worth says whether a gain is worth a loss.
func (y *Yielding) worth(gain, lost int64) bool {
	return gain > 0 && gain*wholeMilli >= lost*int64(y.MoveGain)
}

// askAgain wakes the plan when a job will have waited for long enough to be worth
// what moving others costs today. That grows too, so it is asked anew then.
func (t *try) askAgain(e *entry, c *choice, plan *ares.Plan) {
	lost, _ := c.cost()
	needs := c.grace() + time.Duration(lost*int64(t.state.cfg.Yielding.MoveGain)/(wholeMilli*max(milliOf(c.seats), 1))+1)*time.Second
	if in := needs - e.waited(plan.Now); needs < longestWait {
		wakeBy(plan, plan.Now.Add(max(in, time.Minute)))
	}
}

// scattered says whether there are as many free devices as the shape asks for.
func (t *try) scattered(sh *shape, ban uint64) bool {
	s := t.state
	w := s.without(sh.want, ban)
	reach, ok := s.reach(sh, w)
	if !ok || s.overLeaf(w) {
		return false
	}
	lack := sh.leastMilli()
	for at := reach.next(0); at >= 0 && lack > 0; at = reach.next(at + 1) {
		n := s.nodes[at]
		if !n.open() {
			continue
		}
		mask := w.mask(n.profile) & n.usable
		if w.milli == 0 {
			lack -= int64(bits.OnesCount64(mask&n.free)) * wholeMilli
			continue
		}
		for ; mask != 0; mask &= mask - 1 {
			lack -= int64(n.remains(bits.TrailingZeros64(mask)))
		}
	}
	return lack <= 0
}

// foreseenWait is how long a job waits yet if nobody is moved.
func (t *try) foreseenWait(e *entry, members int, ban uint64, now time.Time) (wait time.Duration, foreseen bool) {
	t.holdOnly(0)
	m := mark(len(t.taken))
	t.supposing = true
	t.visit(now)
	r, ok := t.soonest(e, members, ban, now)
	t.undo(m)
	t.endVisit()
	t.supposing = false
	if !ok || r.at == endless {
		return min(max(assumedWait, e.waited(now)), longestWait), false
	}
	return min(time.Duration(r.at-now.UnixNano()), longestWait), true
}

// movers are those who are moved for a job at the least loss.
func (t *try) movers(e *entry, ban uint64, plan *ares.Plan) (choice, bool) {
	s, base := t.state, mark(len(t.taken))
	t.supposing = true
	t.foresee()
	s.stays(e)
	defer func() {
		t.discharge(1)
		t.undo(base)
		t.supposing = false
	}()
	if _, soon := t.onTheWay(e, ares.YieldMove, plan.Now); soon {
		return choice{}, false // others leave already
	}
	h := &hunt{
		try: t, entry: e, sh: e.shape, now: plan.Now, rank: e.rank(), base: mark(len(t.taken)),
		forebears: s.forebears(e, plan), barred: t.barred(0), stuck: map[*entry]bool{},
	}
	for range maxResettlings {
		stuck := len(h.stuck)
		if !h.eligible(byMove) {
			break
		}
		if h.run(ban); h.best != nil || len(h.stuck) == stuck {
			break
		}
	}
	if h.best == nil {
		return choice{}, false
	}
	h.best.why = ares.YieldMove
	return *h.best, true
}

// movable says whether a running job may be moved: it keeps its progress, nothing
// protects it, and it is bound to no other job.
func (h *hunt) movable(v *rival) bool {
	e := v.entry
	return v.guard == unguarded && e.mayYield() && !e.run.Current().StartedAt.IsZero() &&
		len(e.shape.near)+len(e.shape.apart) == 0 && !h.stuck[e]
}

// charged is what was counted for a leaf, to be counted back.
type charged struct {
	leaf  *leaf
	grant queue.Grant
	sign  int
}

// resettle finds another place for each of those who are to move, with the waiting
// job on its seats. If one finds none it is noted, and stays.
func (h *hunt) resettle(c *choice) bool {
	t, s := h.try, h.try.state
	var counted []charged
	charge := func(l *leaf, g queue.Grant, sign int) {
		l.Charge(g, sign)
		counted = append(counted, charged{l, g, sign})
	}
	defer func() {
		for _, k := range counted {
			k.leaf.Charge(k.grant, -k.sign)
		}
		t.undo(h.base)
	}()
	t.undo(h.base)
	c.to = map[*rival][]ares.Seat{}
	for _, v := range c.victims {
		t.vacate(v.entry)
		charge(v.entry.shape.leaf, v.entry.held.grant, -1)
	}
	t.occupy(c.seats)
	charge(h.sh.leaf, s.grantTo(h.sh, c.seats), 1)
	// The largest find a place the hardest.
	slices.SortFunc(c.victims, func(a, b *rival) int { return cmp.Or(cmp.Compare(b.milli, a.milli), byLoss(a, b)) })
	for _, v := range c.victims {
		sh, has := v.entry.shape, len(v.entry.run.Current().Seats)
		members, ban := s.allowed(sh, h.now)
		p, ok := ares.Placing{}, false
		if members >= has {
			p, ok = t.place(sh, has, ban, v.entry)
		}
		if !ok || len(p.Seats) < has {
			h.stuck[v.entry] = true
			return false
		}
		charge(sh.leaf, s.grantTo(sh, p.Seats), 1)
		c.to[v] = p.Seats
	}
	return true
}

// tell notes a consolidation for who asks, and keeps the places of those who are
// moved from everybody behind in this decision.
func (t *try) tell(e *entry, c *choice) {
	lost, _ := c.cost()
	out := ares.Consolidation{
		For: e.id, Tenant: e.job.Tenant, Seats: c.seats, Wait: c.wait, Foreseen: c.foreseen, Gain: c.gain(), Lost: lost,
	}
	for _, v := range c.victims {
		m := ares.Move{Job: v.entry.id, Tenant: v.entry.job.Tenant, To: c.to[v], Milli: v.milli, Lost: v.lost}
		for i := range v.entry.run.Current().Seats {
			m.From = append(m.From, v.entry.run.Current().Seats[i].Seat)
		}
		out.Moves = append(out.Moves, m)
		k := keeping{entry: v.entry, seats: c.to[v]}
		k.held, k.free = t.holdSeats(k.seats)
		t.bound = append(t.bound, k)
	}
	if t.told != nil {
		t.told = append(t.told, out)
	}
}
