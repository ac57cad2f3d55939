package choose

import (
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/federation/summary"
)

// Options are what an administrator says about costs.
type Options struct {
	// ValueMicros is what an hour of waiting of a job costs, by class, in millionths of the currency.
	ValueMicros map[ares.Class]int64
	// AssumedRuntime is the runtime of a job without a prediction and without a time limit.
	AssumedRuntime time.Duration
	// Bandwidth is the number of bytes a second that move between two regions.
	Bandwidth int64
	// EgressMicros is the price of data from a region without clusters, for each GiB.
	EgressMicros int64
	// Needs returns the hard constraints of a job. Nil stands for NeedsOf.
	Needs func(*ares.Job) Needs
}

// Default returns the options that apply if nothing is configured. The unit of the currency is about the price of an
// hour of one device.
func Default() Options {
	return Options{
		ValueMicros:    map[ares.Class]int64{ares.BestEffort: 10_000, ares.Low: 100_000, ares.Normal: 1_000_000, ares.High: 4_000_000, ares.Critical: 16_000_000},
		AssumedRuntime: time.Hour, Bandwidth: 1 << 30, EgressMicros: 20_000,
	}
}

// These constants limit the offers: MaxOffers in one decision, so that it stays short, and MaxAhead that are open at the
// same time, because each of them is a question that its clusters answer again and again. A cluster takes an offer ahead
// when capacity becomes free, before the hub can choose another job for it. So only jobs that have waited for AheadAfter
// get such an offer; otherwise it would replace the order of the queue.
const (
	MaxOffers  = 64
	MaxAhead   = 16
	AheadAfter = 5 * time.Minute
)

// Chooser decides which waiting jobs are offered to which clusters. It is not safe for concurrent use.
type Chooser struct {
	options  Options
	state    *engine.State
	revision int64 // of the engine's state; the hub's revisions and the changes of summaries count together
	jobs     map[ares.JobID]*entry
	fleets   []*fleet // sorted by name
	egress   map[string]int64
	left     map[ares.JobID]bool // jobs that some cluster gave back lately
	tenants  map[string]bool     // that the hub knows
	local    map[string]bool     // tenants for which some cluster runs no jobs of the hub
	ranked   map[rankKey][]Candidate
	// openAhead counts the grants that are offers ahead.
	openAhead int
	stops     []ares.Stopping // of the last decision
}

// entry is a job of the hub.
type entry struct {
	job *ares.Job // as the hub has it
	run *ares.Run // nil if there is none
	// predicted is the runtime of a job that is only planned. The engine has that of the others.
	predicted *ares.RuntimePredicted

	needs Needs
	ask   request
	grant *hold // nil if the job has no grant
	wish  *hold // what the last decision chose for the job
}

// hold is what a granted job will take of a cluster, until its run says what it has taken.
type hold struct {
	fleet *fleet
	ahead bool // it was an offer ahead; it holds nothing
	parts []taken
	seats []ares.Seat // nil before the grant
}

// New returns a chooser without jobs and clusters. The configuration is that of the hub's scheduler. Preemption and
// backfill reservations are a matter of each cluster, so the chooser does not use them.
func New(cfg config.Config, o Options) *Chooser {
	cfg.Preemption, cfg.Backfill, cfg.Queue.Preempt = config.PreemptionConfig{}, config.BackfillConfig{}, false
	if o.Needs == nil {
		o.Needs = NeedsOf
	}
	c := &Chooser{options: o, state: engine.NewWith(cfg)}
	c.reset()
	return c
}

func (c *Chooser) reset() {
	c.jobs, c.left, c.tenants, c.ranked, c.openAhead = map[ares.JobID]*entry{}, map[ares.JobID]bool{}, map[string]bool{}, map[rankKey][]Candidate{}, 0
	c.revision++
	c.state.Apply(ares.Batch{Revision: c.revision, Reset: true, Events: []ares.Event{{Tenant: &ares.Tenant{ID: holderTenant, Limits: ares.NoLimits()}}}})
}

// Apply applies records of the hub's store: jobs, runs, tenants, queues, usage and predictions. Other records are not
// used. After a batch with Reset, the caller sets the grants again.
func (c *Chooser) Apply(b ares.Batch) {
	if b.Reset {
		c.reset()
		for _, f := range c.fleets {
			again := f.Cluster
			*f = fleet{byType: map[summary.Type][]*slot{}, granted: map[string]summary.TenantUse{}}
			f.Name = again.Name
			c.apply(f.update(again), b.At)
		}
	}
	var events []ares.Event
	for i := range b.Events {
		events = append(events, c.translate(&b.Events[i], b.At)...)
	}
	c.apply(events, b.At)
}

// apply passes events to the engine as one revision of the chooser.
func (c *Chooser) apply(events []ares.Event, at time.Time) {
	if len(events) == 0 {
		return
	}
	c.revision++
	for i := range events {
		events[i].Revision = c.revision
	}
	c.state.Apply(ares.Batch{Revision: c.revision, Events: events, At: at})
}

// translate returns the engine's events for one event of the hub.
func (c *Chooser) translate(ev *ares.Event, at time.Time) []ares.Event {
	switch {
	case ev.Job != nil:
		e := c.entry(ev.Job.ID)
		e.job, e.needs = ev.Job, c.options.Needs(ev.Job)
		c.refreshNeeds(ev.Job.ID, e, at)
		e.ask = requestOf(ev.Job)
		return []ares.Event{{Job: e.engineJob()}}
	case ev.Run != nil:
		e := c.entry(ev.Run.Job)
		c.charge(e, -1)
		run := ev.Run.Run
		e.run = &run
		changed := c.refreshNeeds(ev.Run.Job, e, at) && e.job != nil
		c.charge(e, +1)
		out := c.runEvents(ev.Run.Job, e)
		if changed {
			out = append(out, ares.Event{Job: e.engineJob()})
		}
		return out
	case ev.Gone.Kind == ares.KindJob:
		c.forget(ares.JobID(ev.Gone.ID))
	case ev.Tenant != nil:
		c.tenants[ev.Tenant.ID] = true
	case ev.Gone.Kind == ares.KindTenant:
		delete(c.tenants, ev.Gone.ID)
	case ev.Queue != nil, ev.Usage != nil, ev.Forecast != nil, ev.Gone.Kind == ares.KindQueue, ev.Gone.Kind == ares.KindUsage, ev.Gone.Kind == ares.KindForecast, ev.Gone.Kind == ares.KindRun:
	default:
		return nil
	}
	return []ares.Event{*ev}
}

func (c *Chooser) entry(id ares.JobID) *entry {
	e := c.jobs[id]
	if e == nil {
		e = &entry{}
		c.jobs[id] = e
	}
	return e
}

func (c *Chooser) forget(id ares.JobID) {
	if e := c.jobs[id]; e != nil {
		c.charge(e, -1)
		c.drop(e)
		delete(c.jobs, id)
		delete(c.left, id)
	}
}

// engineJob is the job as the engine sees it: what a summary cannot show is left out, and the hard constraints on
// clusters become constraints on synthetic nodes. An array goes to one cluster as a whole.
func (e *entry) engineJob() *ares.Job {
	j := *e.job
	j.Array, j.NUMAPolicy, j.Trusted = ares.Array{}, "", true
	p := &ares.Placement{Regions: e.needs.RegionsAllowed()}
	if p.Regions != nil && len(p.Regions) == 0 {
		p.Regions = []string{"-"} // no region is called so: the constraints contradict each other
	}
	if len(e.needs.Clusters) > 0 {
		p.NodeAffinity = append(p.NodeAffinity, setRequirement("in", e.needs.Clusters))
	}
	if not := e.needs.notIn(); len(not) > 0 {
		p.NodeAffinity = append(p.NodeAffinity, setRequirement("notin", not))
	}
	if j.Members > 1 {
		p.RequiredLevel = clusterZone // a gang stays in one cluster
	}
	if j.Constraints = p; p.IsZero() {
		j.Constraints = nil
	}
	return &j
}

// runEvents returns the run as the engine sees it. A granted job does not wait, whatever its copied run says.
func (c *Chooser) runEvents(id ares.JobID, e *entry) []ares.Event {
	run := ares.NewRun(time.Time{})
	switch {
	case e.run != nil && e.run.Current() != nil:
		if e.release(); e.grant != nil && e.grant.ahead { // its seats are those of the run now
			e.grant.ahead = false
			c.openAhead--
		}
		run = runElsewhere(e.run)
	case e.grant != nil:
		run = placedRun(e.grant.seats)
	case e.run != nil:
		run = *e.run
	case e.job != nil:
		run = ares.NewRun(e.job.AcceptedAt)
	}
	return []ares.Event{{Run: &ares.RunEvent{Job: id, Run: run}}}
}

// release frees the slots that a granted job holds.
func (e *entry) release() {
	if e.grant == nil {
		return
	}
	e.grant.charge(-1)
	e.grant.parts, e.grant.seats = nil, nil
}

// charge lets the slots count as held, or no longer if `sign` is -1.
func (h *hold) charge(sign int) {
	for _, p := range h.parts {
		p.slot.held = plus(p.slot.held, p.amount, sign)
	}
}

// SetGrant says that a job is offered to, or bound to, some clusters. The job leaves the queue of the hub, and holds
// the capacity that the last decision chose for it.
func (c *Chooser) SetGrant(id ares.JobID, clusters []string, now time.Time) {
	e := c.jobs[id]
	if e == nil || e.job == nil || len(clusters) == 0 {
		return
	}
	if e.grant != nil && e.grant.fleet != nil && slices.Contains(clusters, e.grant.fleet.Name) {
		return
	}
	c.drop(e)
	e.grant = &hold{}
	if e.wish != nil && slices.Contains(clusters, e.wish.fleet.Name) {
		e.grant = e.wish
	} else if f := c.fleet(clusters[0]); f != nil {
		e.grant = &hold{fleet: f, parts: f.placeAny(&e.ask)}
		if e.grant.ahead = e.grant.parts == nil && len(clusters) > 1; e.grant.ahead {
			c.openAhead++
		}
	}
	e.wish = nil
	if f := e.grant.fleet; f != nil {
		e.grant.seats = f.seats(e.grant.parts, e.ask.milli)
		e.grant.charge(+1)
	}
	if len(e.grant.seats) == 0 {
		e.grant.seats = e.ask.seatsElsewhere()
	}
	c.apply(c.runEvents(id, e), now)
}

// ClearGrant says that a job has no grant any more.
func (c *Chooser) ClearGrant(id ares.JobID, now time.Time) {
	if e := c.jobs[id]; e != nil && e.grant != nil {
		c.drop(e)
		c.apply(c.runEvents(id, e), now)
	}
}

// drop ends a grant.
func (c *Chooser) drop(e *entry) {
	if e.grant == nil {
		return
	}
	e.release()
	if e.grant.ahead {
		c.openAhead--
	}
	e.grant = nil
}

// SetCluster says what is known about a cluster: after it joined, with each of its summaries, and when it gets offers
// again or no longer.
func (c *Chooser) SetCluster(cl Cluster, now time.Time) {
	at, known := slices.BinarySearchFunc(c.fleets, cl.Name, func(f *fleet, name string) int { return compareNames(f.Name, name) })
	if !known {
		f := &fleet{byType: map[summary.Type][]*slot{}, granted: map[string]summary.TenantUse{}}
		f.Name = cl.Name
		c.fleets = slices.Insert(c.fleets, at, f)
	}
	f := c.fleets[at]
	events := f.update(cl)
	events = append(events, c.localUse(f)...)
	c.refreshTerms()
	c.apply(events, now)
}

// RemoveCluster forgets a cluster that has left.
func (c *Chooser) RemoveCluster(name string, now time.Time) {
	f := c.fleet(name)
	if f == nil {
		return
	}
	var events []ares.Event
	for _, s := range f.slots {
		for _, gone := range []ares.Gone{{Kind: ares.KindJob, ID: string(s.holder())}, {Kind: ares.KindSession, ID: s.node.ID}, {Kind: ares.KindNode, ID: s.node.ID}} {
			events = append(events, ares.Event{Gone: gone})
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(f.granted)) {
		events = append(events, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(useJob(name, tenant))}})
	}
	for _, e := range c.jobs {
		if e.grant != nil && e.grant.fleet == f {
			e.grant.parts, e.grant.fleet = nil, nil
		}
		if e.wish != nil && e.wish.fleet == f {
			e.wish = nil
		}
	}
	c.fleets = slices.DeleteFunc(c.fleets, func(o *fleet) bool { return o == f })
	c.refreshTerms()
	c.apply(events, now)
}

func (c *Chooser) fleet(name string) *fleet {
	at, known := slices.BinarySearchFunc(c.fleets, name, func(f *fleet, name string) int { return compareNames(f.Name, name) })
	if !known {
		return nil
	}
	return c.fleets[at]
}
