package engine

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// hunt is the search for who gives way to one waiting job: the set that loses
// the least work and lets the job fit, by all the rules of a placement.
//
// Nodes are cleared one member at a time, always the cheapest next, until there
// is room for the whole gang; then the job is placed as any other, and whoever
// is not in its way after all stays. That is done by each of a few prices,
// because none is right for all sizes, and the cheapest outcome counts.
type hunt struct {
	try   *try
	entry *entry
	sh    *shape
	now   time.Time
	rank  int
	base  mark // with those gone who are being stopped

	forebears map[ares.JobID]bool
	barred    map[*entry]bool // sit where seats are kept for others
	promised  uint64          // models that quotas promise it
	owed      map[debtKey]queue.Debt
	debts     []debt
	partly    bool            // who is borrowed in part may go too
	stuck     map[*entry]bool // who has no other place; nil unless they are to be moved
	guards    guards
	id, found int

	want    *want
	reach   *set
	grounds []ground
	spots   []spot
	at      []int32 // by position of a node: its ground, and one more
	rooms   []int32 // by position of a node: members that fit
	left    []int32 // of these, as a set is put together
	queue   []ticket
	parts   []part   // scratch of bound
	gone    []*rival // of the set that is being put together
	fresh   int      // from here on they are gone since the last count

	best *choice
	over *choice // the smallest that is above the ceiling
}

// ground is a node where somebody could give way.
type ground struct {
	node     *node
	from, to int // of the spots
	moves    int // of the node, when it was weighed
	gain     int // members
	leave    []guest
}

// spot is a seat of who could give way.
type spot struct {
	rival *rival
	seat  *ares.Seat
	milli int64
}

// search finds who gives way to a job by its class, or because they borrowed;
// rather not where one ahead of it has a reservation.
func (t *try) search(e *entry, r rights, promised uint64, plan *ares.Plan) (choice, bool) {
	s := t.state
	h := &hunt{
		try: t, entry: e, sh: e.shape, now: plan.Now, rank: e.rank(), base: mark(len(t.taken)),
		forebears: s.forebears(e, plan), barred: t.barred(0), owed: map[debtKey]queue.Debt{}, promised: promised,
	}
	if t.holding != 0 {
		all := h.barred
		h.barred = t.barred(t.holding)
		h.byRights(r)
		h.barred = all
	}
	if h.best == nil {
		h.over = nil
		h.byRights(r)
	}
	t.undo(h.base)
	return h.verdict(r, plan)
}

// byRights looks for victims by each right alone, and then by both. What was
// promised comes first: it costs nobody what is his own.
func (h *hunt) byRights(r rights) {
	members, ban := h.try.state.allowed(h.sh, h.now)
	for _, by := range [3]rights{byQuota, byClass, byQuota | byClass} {
		if by&^r != 0 || !h.eligible(by) {
			continue
		}
		leaveOut := ban
		if members == 0 || by&byQuota != 0 {
			leaveOut = h.unpromised()
		}
		for _, h.partly = range [2]bool{false, true} {
			if h.run(leaveOut); h.best != nil || by&byQuota == 0 {
				break
			}
		}
		if h.best != nil {
			h.best.why = by.word()
			return
		}
	}
}

// verdict says what comes of a search: who gives way, or why nobody does.
func (h *hunt) verdict(r rights, plan *ares.Plan) (choice, bool) {
	t, s := h.try, h.try.state
	switch c := h.best; {
	case c != nil:
		if soon, ok := h.sooner(); ok {
			return soon, true
		}
		if until, ok := t.withinRate(h.entry, c, plan); !ok {
			h.tooMany(c, until, plan)
			return choice{}, false
		}
		return *c, true
	case h.over != nil:
		_, milli := h.over.cost()
		t.say("preempting would stop %s for %s (ceiling %s)", gpusOf(milli), gpusOf(milliOf(h.over.seats)), thousandthsOf(s.cfg.Yielding.Ceiling))
	case h.guards != guards{}:
		t.say("who could give way is protected: %s", h.guards.words(&s.cfg.Yielding))
	case h.found > 0:
		t.say("those that may be stopped for it are not enough to make room")
	}
	if until := h.guards.until; !until.IsZero() {
		wakeBy(plan, until)
	}
	if len(h.forebears) == 0 {
		t.vain = append(t.vain, vain{h.sh.want, h.sh, r, h.rank})
	}
	return choice{}, false
}

// tooMany says that the tenant's jobs would have too many stopped within an hour,
// and wakes the plan when that may have changed. It will not where this one needs
// more than that at once.
func (h *hunt) tooMany(c *choice, until time.Time, plan *ares.Plan) {
	most := h.try.state.cfg.Yielding.PerTenant
	if until.IsZero() {
		h.try.say("%d jobs would have to be stopped for it, and those of tenant %s may have %d stopped within an hour", len(c.victims), h.sh.tenant.id, most)
		return
	}
	h.try.say("jobs of tenant %s have had %d stopped within an hour, which is the most (until %s)", h.sh.tenant.id, most, until.UTC().Format(time.RFC3339))
	wakeBy(plan, until)
}

// gpusOf writes thousandths of devices.
func gpusOf(milli int64) string {
	if milli == wholeMilli {
		return "1 GPU"
	}
	return thousandthsOf(int(milli)) + " GPUs"
}

// thousandthsOf writes thousandths as a decimal.
func thousandthsOf(n int) string {
	if n%1000 == 0 {
		return fmt.Sprint(n / 1000)
	}
	return fmt.Sprintf("%d.%03d", n/1000, n%1000)
}

// milliOf is what seats take of devices, in thousandths.
func milliOf(seats []ares.Seat) (milli int64) {
	for i := range seats {
		for _, sh := range seats[i].Shares {
			milli += int64(sh.Milli)
		}
	}
	return milli
}

// withinRate says whether the tenant may have so many stopped by class now, and
// if not, when it may have one more.
func (t *try) withinRate(e *entry, c *choice, plan *ares.Plan) (until time.Time, ok bool) {
	most := t.state.cfg.Yielding.PerTenant
	if most == 0 {
		return until, true
	}
	stops, until := e.shape.tenant.lately(plan.Now)
	if until.IsZero() {
		until = plan.Now.Add(rateOver)
	}
	for i := range plan.Stop {
		if y := plan.Stop[i].Stop.Yield; y != nil && y.Why == ares.YieldClass && y.Tenant == e.job.Tenant {
			stops++
		}
	}
	for _, v := range c.victims {
		if v.why == ares.YieldClass {
			stops++
		}
	}
	return until, stops <= most
}

// barred is who sits where seats are kept for others, or is to give way to one of
// those. With some reservations it is also who sits where these have a place.
func (t *try) barred(reservations uint64) map[*entry]bool {
	out := map[*entry]bool{}
	bar := func(seats []ares.Seat) {
		for i := range seats {
			n := t.state.byID[seats[i].Node]
			if n == nil {
				continue
			}
			for _, sit := range n.sitters {
				if meets(sit.seat, &seats[i]) {
					out[sit.entry] = true
				}
			}
		}
	}
	for i := range t.reserved {
		if reservations&(1<<i) != 0 {
			bar(t.reserved[i].seats)
		}
	}
	for i := range t.kept {
		k := &t.kept[i]
		if k.over {
			continue
		}
		bar(k.seats)
		if nom := k.entry.run; nom != nil && nom.Nominated != nil {
			for j := range nom.Nominated.Victims {
				if v := t.pending(&nom.Nominated.Victims[j]); v != nil {
					out[v] = true
				}
			}
		}
	}
	return out
}

// meets says whether two seats on one node have a device in common.
func meets(a, b *ares.Seat) bool {
	return slices.ContainsFunc(a.Shares, func(x ares.Share) bool {
		return slices.ContainsFunc(b.Shares, func(y ares.Share) bool { return x.Device == y.Device })
	})
}

// unpromised is the models that quotas do not promise the job, as a set.
func (h *hunt) unpromised() (ban uint64) {
	for m := range h.try.state.suiting(h.sh.want) {
		if bit := modelBit(m); h.promised&bit == 0 {
			ban |= bit
		}
	}
	return ban
}

// run looks for the cheapest set among who is eligible, with some models left
// out.
func (h *hunt) run(ban uint64) {
	s := h.try.state
	h.want = s.without(h.sh.want, ban)
	var ok bool
	if h.reach, ok = s.reach(h.sh, h.want); !ok || s.overLeaf(h.want) {
		return
	}
	h.survey()
	if len(h.grounds) == 0 {
		h.reset(scope{})
		h.land() // it may be that only a quota keeps it waiting
		return
	}
	landed := false
	for _, price := range [3]price{priceSpread, priceWhole, priceTight} {
		for _, in := range h.scopes(price) {
			if h.choose(in, price) && h.land() {
				landed = true
			}
		}
	}
	if !landed && h.stuck == nil {
		h.everybody()
	}
}

// survey finds who sits where.
func (h *hunt) survey() {
	s := h.try.state
	h.grounds, h.spots = h.grounds[:0], h.spots[:0]
	h.at = slices.Grow(h.at[:0], len(s.nodes))[:len(s.nodes)]
	h.rooms = slices.Grow(h.rooms[:0], len(s.nodes))[:len(s.nodes)]
	clear(h.at)
	clear(h.rooms)
	for i := h.reach.next(0); i >= 0; i = h.reach.next(i + 1) {
		n := s.nodes[i]
		if !n.open() {
			continue
		}
		h.rooms[i] = int32(n.room(h.want))
		from := len(h.spots)
		for _, sit := range n.sitters {
			if v := sit.entry.rival; v != nil && v.search == h.id {
				milli := int64(0)
				for k := range sit.seat.Shares {
					milli += int64(sit.seat.Shares[k].Milli)
				}
				h.spots = append(h.spots, spot{v, sit.seat, milli})
			}
		}
		if len(h.spots) > from {
			h.grounds = append(h.grounds, ground{node: n, from: from, to: len(h.spots), moves: -1})
			h.at[i] = int32(len(h.grounds))
		}
	}
}

// land places the job where those were chosen to leave, and keeps the outcome if
// it is the best so far. It says whether the job fits at all.
func (h *hunt) land() bool {
	t := h.try
	p, ok := t.place(h.sh, h.sh.least, h.want.ban, h.entry)
	if !ok {
		return false
	}
	c := choice{seats: p.Seats, victims: h.trim(p.Seats, slices.Clone(h.gone))}
	if !h.admits(&c) {
		h.makeRoom(&c)
	}
	h.shrink(&c)
	if !h.affords(c.victims) || !h.admits(&c) {
		return true
	}
	_, milli := c.cost()
	if t.state.cfg.Yielding.exceeds(milli, milliOf(c.seats)) {
		if h.over == nil || c.smaller(h.over) {
			h.over = &c
		}
	} else if (h.best == nil || c.cheaper(h.best)) && (h.stuck == nil || h.resettle(&c)) {
		h.best = &c
	}
	return true
}

// smaller compares two choices by what they stop.
func (c *choice) smaller(o *choice) bool {
	_, a := c.cost()
	_, b := o.cost()
	return a < b
}

// trim leaves out those who are not in the way of the seats, the most costly
// first.
func (h *hunt) trim(seats []ares.Seat, victims []*rival) []*rival {
	t := h.try
	t.undo(h.base)
	for _, v := range victims {
		t.vacate(v.entry)
	}
	t.occupy(seats)
	slices.SortFunc(victims, func(a, b *rival) int { return byLoss(b, a) })
	return slices.DeleteFunc(victims, func(v *rival) bool { return !v.entry.sitsBy(seats) || t.stays(v.entry) })
}

// sitsBy says whether a running job has a seat on a node of some.
func (e *entry) sitsBy(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.run.Current().Seats, func(h ares.Held) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}

// stays puts a job that was to leave back on its seats, if nobody else is given
// what it has there.
func (t *try) stays(e *entry) bool {
	m, a := mark(len(t.taken)), e.run.Current()
	for i := range a.Seats {
		seat := &a.Seats[i].Seat
		n := t.state.byID[seat.Node]
		if a.Seats[i].State.Free() || n == nil || n.record == nil {
			continue
		}
		if !n.spares(seat) {
			t.undo(m)
			return false
		}
		t.occupy([]ares.Seat{*seat})
	}
	return true
}

// spares says whether the seat fits beside what is taken on the node.
func (n *node) spares(seat *ares.Seat) bool {
	if n.seats >= MaxSeats || seat.CPUs > 0 && n.profile.cpus-n.cpus < seat.CPUs || seat.Memory > 0 && n.record.MemoryMB-n.memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		if d := n.spot(&seat.Shares[i]); d >= 0 && wholeMilli-n.devices[d].taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.sparesAt(seat)
}

// sparesAt says whether the seat's NUMA node has its CPUs and memory left.
func (n *node) sparesAt(seat *ares.Seat) bool {
	taken := n.pinned(seat.NUMA)
	for _, at := range n.profile.numa {
		if at.ID == seat.NUMA {
			return at.CPUs-taken.cpus >= seat.CPUs && at.MemoryMB-taken.memory >= seat.Memory
		}
	}
	return false
}

// shrinkMost is up to how many victims each is tried without, with other seats.
const shrinkMost = 8

// shrink tries to do without one after the other, the most costly first, with
// whatever seats there are then.
func (h *hunt) shrink(c *choice) {
	if len(c.victims) < 2 || len(c.victims) > shrinkMost || !h.admits(c) {
		return
	}
	slices.SortFunc(c.victims, func(a, b *rival) int { return byLoss(b, a) })
	for i := 0; i < len(c.victims) && len(c.victims) > 1; {
		rest := slices.Delete(slices.Clone(c.victims), i, i+1)
		h.try.undo(h.base)
		for _, v := range rest {
			h.try.vacate(v.entry)
		}
		i++
		p, ok := h.try.place(h.sh, h.sh.least, h.want.ban, h.entry)
		if !ok {
			continue
		}
		less := choice{seats: p.Seats, victims: h.trim(p.Seats, slices.Clone(rest))}
		if !h.admits(&less) {
			less.victims = rest // who is not in its way may have borrowed what it lacks
		}
		if h.admits(&less) {
			c.seats, c.victims, i = less.seats, less.victims, 0
		}
	}
}

// everybody supposes that all who may give way do, where the topology's rules
// have kept the job out of what was cleared for it, and keeps who is in its way
// then.
func (h *hunt) everybody() {
	t := h.try
	t.undo(h.base)
	for i := range h.debts {
		h.debts[i].left = h.debts[i].Over
	}
	h.gone = h.gone[:0]
	for _, sp := range h.spots {
		sp.rival.gone = false
	}
	for _, sp := range h.spots {
		if v := sp.rival; !v.gone && h.owing(v) {
			v.gone = true
			h.gone = append(h.gone, v)
			t.vacate(v.entry)
		}
	}
	if len(h.gone) > 0 {
		h.land()
	}
}

// sooner finds the seats of a job that need nobody stopped: those who are there
// are predicted to be done before stopping others would have come to anything.
func (h *hunt) sooner() (choice, bool) {
	t, s := h.try, h.try.state
	takes := time.Duration(0)
	for _, v := range h.best.victims {
		takes = max(takes, v.entry.job.Grace())
	}
	takes += s.cfg.Yielding.Restart
	c := choice{why: h.best.why}
	var going []*entry
	for rank := range s.yard.running {
		for _, e := range s.yard.running[rank] {
			if _, all := e.runtime(); all == never {
				continue
			}
			if _, late := e.left(h.now); late <= takes && !h.barred[e] && !slices.Contains(t.leaving, e) {
				going = append(going, e)
				c.within = max(c.within, late)
			}
		}
	}
	if len(going) == 0 {
		return c, false
	}
	t.undo(h.base)
	for _, e := range going {
		t.vacate(e)
		e.shape.leaf.Charge(e.held.grant, -1)
	}
	members, ban := s.allowed(h.sh, h.now)
	var p ares.Placing
	ok := false
	if members > 0 {
		p, ok = t.place(h.sh, h.sh.least, ban, h.entry)
	}
	for _, e := range going {
		e.shape.leaf.Charge(e.held.grant, 1)
	}
	t.undo(h.base)
	c.seats = p.Seats
	return c, ok
}
