package sim

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// amounts are thousandths of devices, cores and megabytes. Devices of all models
// count alike.
type amounts [3]int64

// ledger is what tenants hold and want, counted from the events alone: it shares
// no code with the engine whose decisions it is there to judge.
type ledger struct {
	capacity amounts
	halfLife time.Duration
	parties  []*party // by name
	byName   map[string]*party
	jobs     map[ares.JobID]*claim
	nodes    map[string]amounts
	watch    watcher // nil when nobody looks at single jobs
}

// watcher hears of single jobs and nodes.
type watcher interface {
	waits(*claim)                      // it begins to wait
	sits(c *claim, seats []*ares.Seat) // all it has now
	stands(n *ares.Node)
}

// party is a tenant.
type party struct {
	name   string
	weight float64
	limits ares.Limits
	bound  bool // by limits or quotas
	held   amounts
	wanted amounts    // held and waiting together
	past   [3]float64 // average of what was held, where one half-life ago counts half
	as     time.Time  // of past
}

// claim is a job that is neither archived nor ended.
type claim struct {
	job     *ares.Job
	of      *party
	asks    amounts
	holds   amounts
	seats   []*ares.Seat // when somebody watches
	waiting bool
}

func newLedger(halfLife time.Duration) *ledger {
	return &ledger{halfLife: halfLife, byName: map[string]*party{}, jobs: map[ares.JobID]*claim{}, nodes: map[string]amounts{}}
}

// keepLedger has a ledger kept, from what the engine knows already on.
func (w *World) keepLedger() *ledger {
	if w.ledger != nil {
		return w.ledger
	}
	w.ledger = newLedger(w.state.Config().HalfLife)
	var known []ares.Event
	for t := range w.state.Tenants() {
		known = append(known, ares.Event{Tenant: t})
	}
	for q := range w.state.Queues() {
		known = append(known, ares.Event{Queue: q})
	}
	for n := range w.state.Nodes() {
		known = append(known, ares.Event{Node: n.Node})
	}
	w.ledger.hear(known, w.now)
	return w.ledger
}

// hear takes events in.
func (l *ledger) hear(events []ares.Event, now time.Time) {
	for i := range events {
		switch ev := &events[i]; {
		case ev.Job != nil:
			l.accept(ev.Job)
		case ev.Run != nil:
			l.run(ev.Run, now)
		case ev.Tenant != nil:
			l.party(ev.Tenant.ID).describe(ev.Tenant)
		case ev.Queue != nil:
			l.party(ev.Queue.Tenant).bound = true
		case ev.Node != nil:
			l.node(ev.Node.ID, amounts{int64(1000 * len(ev.Node.Devices)), int64(ev.Node.CPUs), int64(ev.Node.MemoryMB)})
			if l.watch != nil {
				l.watch.stands(ev.Node)
			}
		case ev.Gone.Kind == ares.KindNode:
			l.node(ev.Gone.ID, amounts{})
		case ev.Gone.Kind == ares.KindJob:
			l.drop(ares.JobID(ev.Gone.ID), now)
		}
	}
}

func (l *ledger) node(id string, has amounts) {
	for r := range has {
		l.capacity[r] += has[r] - l.nodes[id][r]
	}
	l.nodes[id] = has
}

func (l *ledger) party(name string) *party {
	p := l.byName[name]
	if p == nil {
		p = &party{name: name, weight: 1, limits: ares.NoLimits(), as: Epoch}
		l.byName[name] = p
		at, _ := slices.BinarySearchFunc(l.parties, name, func(p *party, name string) int { return strings.Compare(p.name, name) })
		l.parties = slices.Insert(l.parties, at, p)
	}
	return p
}

// describe takes over a tenant's record. A quota of all GPUs is a limit here:
// what it may borrow counts, whether or not somebody lends it.
func (p *party) describe(t *ares.Tenant) {
	p.weight, p.limits = cmp.Or(t.Weight, 1), t.Limits
	p.bound = p.limits != ares.NoLimits() || len(t.Quotas) > 0
	for _, q := range t.Quotas {
		if q.Model == "" {
			p.limits.GPUs = min(p.limits.GPUs, q.Nominal+q.Borrow)
		}
	}
}

// accept opens the claim of a job, which waits.
func (l *ledger) accept(job *ares.Job) {
	if l.jobs[job.ID] != nil {
		return
	}
	u := job.Asks()
	c := &claim{job: job, of: l.party(job.Tenant), asks: amounts{int64(1000*u.GPUs + u.GPUMilli), int64(u.CPUs), int64(u.MemoryMB)}, waiting: true}
	l.jobs[job.ID] = c
	c.of.want(c.asks, 1)
	if l.watch != nil {
		l.watch.waits(c)
	}
}

// run takes over the state of a job's run: what its seats hold, and whether it
// waits.
func (l *ledger) run(ev *ares.RunEvent, now time.Time) {
	c := l.jobs[ev.Job]
	if c == nil {
		return
	}
	var seats []*ares.Seat
	for i := range ev.Run.Attempts {
		for k := range ev.Run.Attempts[i].Seats {
			if h := &ev.Run.Attempts[i].Seats[k]; !h.State.Free() {
				seats = append(seats, &h.Seat)
			}
		}
	}
	l.sit(c, seats, now)
	l.wait(c, ev.Run.Phase.Waiting())
}

// sit says which seats a job has now.
func (l *ledger) sit(c *claim, seats []*ares.Seat, now time.Time) {
	var holds amounts
	for _, seat := range seats {
		holds.add(seat)
	}
	l.hold(c, holds, now)
	if l.watch != nil {
		l.watch.sits(c, seats)
	}
}

func (a *amounts) add(seat *ares.Seat) {
	for _, sh := range seat.Shares {
		a[0] += int64(sh.Milli)
	}
	a[1] += int64(seat.CPUs)
	a[2] += int64(seat.Memory)
}

// drop closes the claim of a job that is over.
func (l *ledger) drop(id ares.JobID, now time.Time) {
	if c := l.jobs[id]; c != nil {
		l.sit(c, nil, now)
		l.wait(c, false)
		delete(l.jobs, id)
	}
}

// hold changes what a job holds.
func (l *ledger) hold(c *claim, holds amounts, now time.Time) {
	if holds == c.holds {
		return
	}
	c.of.age(now, l.halfLife)
	for r := range holds {
		c.of.held[r] += holds[r] - c.holds[r]
		c.of.wanted[r] += holds[r] - c.holds[r]
	}
	c.holds = holds
}

// wait says whether a job waits.
func (l *ledger) wait(c *claim, waiting bool) {
	switch {
	case c.waiting == waiting:
		return
	case waiting:
		c.of.want(c.asks, 1)
	default:
		c.of.want(c.asks, -1)
	}
	c.waiting = waiting
	if waiting && l.watch != nil {
		l.watch.waits(c)
	}
}

func (p *party) want(a amounts, sign int64) {
	for r := range a {
		p.wanted[r] += sign * a[r]
	}
}

// age brings past use to now. What is held since it was last asked counts as
// held all that time.
func (p *party) age(now time.Time, halfLife time.Duration) {
	if halfLife <= 0 || !now.After(p.as) {
		return
	}
	left := math.Exp2(-now.Sub(p.as).Seconds() / halfLife.Seconds())
	for r := range p.past {
		p.past[r] = p.past[r]*left + float64(p.held[r])*(1-left)
	}
	p.as = now
}

// share is what a tenant holds of the fleet, of the resource where that is most.
func (p *party) share(capacity amounts) float64 { return dominant(p.held, capacity) }

func dominant(a, capacity amounts) float64 {
	most := 0.0
	for r := range a {
		if capacity[r] > 0 {
			most = max(most, float64(a[r])/float64(capacity[r]))
		}
	}
	return most
}

// most is the part of what it wants that its limits let the tenant have.
func (p *party) most() float64 {
	part := 1.0
	for r, limit := range []int64{1000 * int64(p.limits.GPUs), int64(p.limits.CPUs), int64(p.limits.MemoryMB)} {
		if p.wanted[r] > limit {
			part = min(part, float64(limit)/float64(p.wanted[r]))
		}
	}
	return part
}
