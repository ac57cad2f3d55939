package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// rights are what a waiting job may stop others by.
type rights uint8

const (
	byClass rights = 1 << iota // they are two classes below it or more
	byQuota                    // they hold what its tenant was promised
	byOrder                    // they come later in the configured order of its queue
	byMove                     // they have another place at once
)

// word is the right as it is written down, the stronger of two.
func (r rights) word() ares.YieldWhy {
	switch {
	case r&byMove != 0:
		return ares.YieldMove
	case r&byOrder != 0:
		return ares.YieldOrder
	case r&byQuota != 0:
		return ares.YieldQuota
	}
	return ares.YieldClass
}

// maxSearches is for how many shapes one decision looks for victims, so that it
// stays short where many could have others stopped and none finds enough.
const maxSearches = 64

// kindYield is the kind of what says why nobody gives way to a job, or that
// somebody does.
const kindYield = "preemption"

// yield has running jobs give way to one that found no place, if it has a right
// to that and then fits. The seats are kept for it from now on; it is placed by
// a later plan.
func (t *try) yield(pass *queue.Pass[*entry], plan *ares.Plan, e *entry, admitted bool) bool {
	found, ok := t.givingWay(plan, e, admitted)
	if ok {
		t.nominate(pass, plan, e, &found)
	}
	return ok
}

// givingWay finds who gives way to a job, and where it is to be then. A job
// whose place is on the way to be free already, because others are being stopped
// or are predicted to be done sooner than stopping anybody would take, has it
// kept and stops nobody. Where nobody gives way to one that has a right to it,
// the words say why.
func (t *try) givingWay(plan *ares.Plan, e *entry, admitted bool) (found choice, ok bool) {
	s, sh := t.state, e.shape
	t.words = nil
	if t.keptOff || t.shut || e.isArray() || len(sh.near)+len(sh.apart) > 0 { // of these those who leave may be what it wants to be near
		return found, false
	}
	if admitted {
		if found, ok = t.consolidate(e, plan); ok {
			return found, true
		}
	}
	r, promised := s.rightsOf(e, admitted, plan.Now)
	if r == 0 && admitted {
		t.withheld(e)
	}
	if r == 0 || r&byOrder == 0 && t.askedInVain(sh, r, e.rank()) {
		return found, false
	}
	if t.gathers() {
		t.say("a gang that lost a node has its turn first: it may leave some of what it had")
		return found, false
	}
	if len(s.yard.nominated)+len(plan.Nominate) >= MaxNominations {
		t.say("seats are kept for %d jobs already, which is the most at once", MaxNominations)
		return found, false
	}
	if t.searches++; t.searches > maxSearches {
		return found, false
	}
	// Whoever's turn was before may have left other places held, or none.
	t.holdOnly(t.outlasted(e.endsIn(plan.Now)))
	base := mark(len(t.taken))
	t.supposing = true
	t.foresee()
	s.stays(e)
	switch found, ok = t.onTheWay(e, r.word(), plan.Now); {
	case ok:
	case r&byOrder != 0:
		found, ok = t.victimsByOrder(e, plan)
	default:
		found, ok = t.search(e, r, promised, plan)
	}
	t.discharge(1)
	t.undo(base)
	t.supposing = false
	return found, ok
}

// choice is who gives way to a job, and the seats it has then.
type choice struct {
	why     ares.YieldWhy
	seats   []ares.Seat
	victims []*rival
	within  time.Duration // without victims: how soon those who are there will be gone

	wait     time.Duration // of a consolidation: how much sooner the job starts
	foreseen bool          // and whether that is known
	to       map[*rival][]ares.Seat
}

// lost is what the choice costs, in thousandths of GPU-seconds, and milli what
// it stops, in thousandths of devices.
func (c *choice) cost() (lost, milli int64) {
	for _, v := range c.victims {
		lost, milli = lost+v.lost, milli+v.milli
	}
	return lost, milli
}

// cheaper compares two choices: by what is lost, then by what is stopped.
func (c *choice) cheaper(o *choice) bool {
	al, am := c.cost()
	bl, bm := o.cost()
	return cmp.Or(cmp.Compare(al, bl), cmp.Compare(am, bm), cmp.Compare(len(c.victims), len(o.victims))) < 0
}

// say notes why nobody gives way to the job whose turn it is.
func (t *try) say(format string, args ...any) {
	t.words = append(t.words, ares.Blocker{Kind: kindYield, Detail: fmt.Sprintf(format, args...)})
}

// rightsOf is what a waiting job may stop others by, and the models that quotas
// promise it. One that its own limits or
// quotas keep waiting may stop only who has borrowed what they promise it.
func (s *State) rightsOf(e *entry, admitted bool, now time.Time) (out rights, promised uint64) {
	switch record := e.shape.tenant.record; {
	case record == nil:
		return 0, 0
	case admitted && s.cfg.Queueing.Yield:
		return byOrder, 0
	case !s.cfg.Yielding.Enabled:
		return 0, 0
	case admitted && record.MayPreempt:
		for rank := range max(e.rank()-1, 0) {
			if len(s.yard.running[rank]) > 0 {
				out |= byClass
			}
		}
	}
	if s.order.HasQuotas() {
		if promised = s.promised(e.shape, admitted, now); promised != 0 {
			out |= byQuota
		}
	}
	return out, promised
}

// withheld says so where others would give way to a job by its class, but nobody
// may: people ask why an urgent job waits.
func (t *try) withheld(e *entry) {
	s, record := t.state, e.shape.tenant.record
	off := !s.cfg.Yielding.Enabled
	if record == nil || !off && record.MayPreempt || e.rank() < 2 {
		return
	}
	below := s.yard.running[:e.rank()-1]
	switch below := slices.ContainsFunc(below, func(list []*entry) bool { return len(list) > 0 }); {
	case !below:
	case off:
		t.say("nobody gives way to it: preemption is switched off (enable_preemption)")
	default:
		t.say("nobody gives way to it: jobs of its tenant stop no others (allow_preemption)")
	}
}

// promised is the models of which quotas promise the shape as much as it asks
// for, as a set. It is empty too when something else keeps it waiting.
func (s *State) promised(sh *shape, admitted bool, now time.Time) (models uint64) {
	if !sh.want.devices() {
		return 0
	}
	if !admitted {
		unmet := slices.ContainsFunc(sh.after, func(id ares.JobID) bool { return !s.met(id) })
		if unmet || s.overBudget(sh.tenant, now) || len(sh.leaf.Admit(queue.Grant{Held: sh.asks(sh.least)})) > 0 {
			return 0
		}
	}
	asked := sh.leastMilli()
	for m := range s.suiting(sh.want) {
		if room, ok := sh.leaf.Promised(m, nil); ok && room >= asked {
			models |= modelBit(m)
		}
	}
	return models
}

// borrows says whether the shape would hold more than its quotas promise it. Who
// has none borrows nothing.
func (s *State) borrows(sh *shape) bool {
	if !sh.want.devices() {
		return false
	}
	asked, bound := sh.leastMilli(), false
	for m := range s.suiting(sh.want) {
		room, ok := sh.leaf.Promised(m, nil)
		if ok && room >= asked {
			return false
		}
		bound = bound || ok
	}
	return bound
}

// Borrows says whether a waiting job would hold more than quotas promise it: it
// may have to wait, though it fits, while others take back what they lent.
func (s *State) Borrows(id ares.JobID) bool {
	e := s.jobs[id]
	return e != nil && e.job != nil && s.order.HasQuotas() && s.borrows(e.shape)
}

// leastMilli is the devices that the least asks for that the job can start with,
// in thousandths.
func (sh *shape) leastMilli() int64 {
	return int64(sh.least) * int64(max(sh.want.gpus*wholeMilli, sh.want.milli))
}

// vain is who is known to find no victims in this decision.
type vain struct {
	want   *want
	shape  *shape // by quota only those of the same leaf fare alike
	rights rights
	rank   int
}

// askedInVain says whether another with the same wish was found no victims in
// this decision. By class it does not matter whose it is.
func (t *try) askedInVain(sh *shape, r rights, rank int) bool {
	return slices.ContainsFunc(t.vain, func(v vain) bool {
		return v.want == sh.want && v.rights == r && v.rank >= rank && (v.shape == sh || r == byClass && v.shape.alike(sh))
	})
}

// alike says whether two shapes ask for the same number of members in the same
// places.
func (sh *shape) alike(o *shape) bool {
	return sh.members == o.members && sh.least == o.least && sh.wish == o.wish
}

// foresee makes the state as it will be when those are gone who are being
// stopped, and those there for whom seats are kept. Discharge puts back what it
// counts for leaves, and the try the rest.
func (t *try) foresee() {
	t.discharge(-1)
	for _, v := range t.state.yard.stopping {
		t.vacate(v)
	}
	for _, v := range t.leaving {
		t.vacate(v)
	}
	for i := range t.gangs { // what a drained one has left is kept for it only until it is gone
		if g := &t.gangs[i]; !g.given && g.entry.yard == inStopping && g.entry.run.Stop.Why == ares.StopDrain {
			t.part(g)
		}
	}
	for i := range t.kept {
		if k := &t.kept[i]; !k.over {
			t.lift(k)
			t.holdSeats(k.seats)
		}
	}
	t.keepBound()
}

// discharge counts what those hold who are being stopped, or with sign -1 counts
// it no more.
func (t *try) discharge(sign int) {
	for _, v := range t.state.yard.stopping {
		v.shape.leaf.Charge(v.held.grant, sign)
	}
	for _, v := range t.leaving {
		v.shape.leaf.Charge(v.held.grant, sign)
	}
}

// onTheWay finds the seats of a job that fits once those are gone who are being
// stopped.
func (t *try) onTheWay(e *entry, why ares.YieldWhy, now time.Time) (choice, bool) {
	if len(t.state.yard.stopping)+len(t.leaving) == 0 {
		return choice{}, false
	}
	members, ban := t.state.allowed(e.shape, now)
	if members == 0 {
		return choice{}, false
	}
	m := mark(len(t.taken))
	p, ok := t.place(e.shape, e.shape.least, ban, e)
	t.undo(m)
	c := choice{why: why, seats: p.Seats}
	for _, v := range t.state.yard.stopping {
		c.within = max(c.within, patience(v))
	}
	for _, v := range t.leaving {
		c.within = max(c.within, patience(v))
	}
	return c, ok
}

// patience is how long a job that is stopped may keep its seats, should its node
// go silent too.
func patience(v *entry) time.Duration { return v.job.Grace() + v.job.LostAfter() }

// stopMargin is how much longer than it should take seats are kept for a job:
// stops travel, and processes die in their own time.
const stopMargin = time.Minute

// nomination is how a choice is written down.
func (t *try) nomination(e *entry, c *choice, now time.Time) *ares.Nomination {
	milli := milliOf(c.seats)
	slices.SortFunc(c.victims, bySize)
	n := &ares.Nomination{Seats: c.seats, Why: c.why, At: now}
	for _, v := range c.victims {
		c.within = max(c.within, patience(v.entry))
		n.Victims = append(n.Victims, ares.Victim{Job: v.entry.id, Fence: v.entry.run.Fence(), Yield: ares.Yield{
			To: e.id, Tenant: e.job.Tenant, Why: v.why, Milli: v.milli, Lost: v.lost, Asked: milli,
			Restart: v.milli * int64(t.state.cfg.Yielding.Restart/time.Second),
		}})
	}
	n.Until = now.Add(c.within + stopMargin)
	return n
}

// nominate keeps seats for a job, and stops who sits there.
func (t *try) nominate(pass *queue.Pass[*entry], plan *ares.Plan, e *entry, c *choice) {
	s := t.state
	n := *t.nomination(e, c, plan.Now)
	plan.Nominate = append(plan.Nominate, ares.Nominating{Job: e.id, Nomination: n})
	wakeBy(plan, n.Until)
	for i := range n.Victims {
		if !t.stop(plan, c.victims[i].entry, n.Victims[i].Yield) {
			break
		}
	}
	k := keeping{entry: e, seats: c.seats, until: n.Until, grant: s.grantTo(e.shape, c.seats)}
	k.held, k.free = t.holdSeats(c.seats)
	if c.why == ares.YieldMove {
		t.tell(e, c)
	}
	pass.Count(e.shape.leaf, k.grant, 1)
	t.kept = append(t.kept, k)
}
