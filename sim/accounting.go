package sim

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// A `resources` value contains three amounts: GPUs in thousandths, CPU cores, and memory in MB. GPUs of all
// models count equally.
type resources [3]int64

// The accounting tracks the resources that tenants use and request. The accounting reads only
// events, and shares no code with the engine whose decisions it checks.
type accounting struct {
	capacity resources
	halfLife time.Duration
	tenants  []*tenantUsage // sorted by name
	byName   map[string]*tenantUsage
	jobs     map[ares.JobID]*jobUsage
	nodes    map[string]resources
	watch    watcher // nil unless single jobs are followed
}

// A `watcher` is notified of changes to single jobs and nodes.
type watcher interface {
	jobWaits(*jobUsage)                        // the job is waiting from now on
	jobSeated(c *jobUsage, seats []*ares.Seat) // with all seats of the job
	nodeChanged(n *ares.Node)
}

// tenantUsage is the amount of resources that a tenant uses and requests.
type tenantUsage struct {
	name   string
	weight float64
	limits ares.Limits
	bound  bool // the tenant has limits or quotas
	held   resources
	wanted resources  // by running and waiting jobs
	past   [3]float64 // decayed average of held resources
	pastAt time.Time  // the time that past is decayed to
}

// jobUsage is an unfinished job with the resources that it uses and requests.
type jobUsage struct {
	job     *ares.Job
	tenant  *tenantUsage
	asks    resources
	holds   resources
	seats   []*ares.Seat // only with a watcher
	waiting bool
}

func newAccounting(halfLife time.Duration) *accounting {
	return &accounting{halfLife: halfLife, byName: map[string]*tenantUsage{}, jobs: map[ares.JobID]*jobUsage{}, nodes: map[string]resources{}}
}

// startAccounting starts the accounting from the current state of the engine, unless it was started before.
func (w *World) startAccounting() *accounting {
	if w.accounting != nil {
		return w.accounting
	}
	w.accounting = newAccounting(w.state.Config().HalfLife)
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
	w.accounting.apply(known, w.now)
	return w.accounting
}

// This method updates the accounting with new events.
func (l *accounting) apply(events []ares.Event, now time.Time) {
	for i := range events {
		switch ev := &events[i]; {
		case ev.Job != nil:
			l.addJob(ev.Job)
		case ev.Run != nil:
			l.updateRun(ev.Run, now)
		case ev.Tenant != nil:
			l.tenant(ev.Tenant.ID).setRecord(ev.Tenant)
		case ev.Queue != nil:
			l.tenant(ev.Queue.Tenant).bound = true
		case ev.Node != nil:
			l.setNode(ev.Node.ID, resources{int64(1000 * len(ev.Node.Devices)), int64(ev.Node.CPUs), int64(ev.Node.MemoryMB)})
			if l.watch != nil {
				l.watch.nodeChanged(ev.Node)
			}
		case ev.Gone.Kind == ares.KindNode:
			l.setNode(ev.Gone.ID, resources{})
		case ev.Gone.Kind == ares.KindJob:
			l.removeJob(ares.JobID(ev.Gone.ID), now)
		}
	}
}

func (l *accounting) setNode(id string, has resources) {
	for r := range has {
		l.capacity[r] += has[r] - l.nodes[id][r]
	}
	l.nodes[id] = has
}

func (l *accounting) tenant(name string) *tenantUsage {
	p := l.byName[name]
	if p == nil {
		p = &tenantUsage{name: name, weight: 1, limits: ares.NoLimits(), pastAt: Epoch}
		l.byName[name] = p
		at, _ := slices.BinarySearchFunc(l.tenants, name, func(p *tenantUsage, name string) int { return strings.Compare(p.name, name) })
		l.tenants = slices.Insert(l.tenants, at, p)
	}
	return p
}

// setRecord copies a tenant's record. If the tenant has a quota for GPUs of all models, its limit
// is at most the quota plus the number of GPUs that it may borrow. The method does not check
// whether another tenant can lend these GPUs.
func (p *tenantUsage) setRecord(t *ares.Tenant) {
	p.weight, p.limits = cmp.Or(t.Weight, 1), t.Limits
	p.bound = p.limits != ares.NoLimits() || len(t.Quotas) > 0
	for _, q := range t.Quotas {
		if q.Model == "" {
			p.limits.GPUs = min(p.limits.GPUs, q.Nominal+q.Borrow)
		}
	}
}

// addJob adds a waiting job.
func (l *accounting) addJob(job *ares.Job) {
	if l.jobs[job.ID] != nil {
		return
	}
	u := job.Asks()
	c := &jobUsage{job: job, tenant: l.tenant(job.Tenant), asks: resources{int64(1000*u.GPUs + u.GPUMilli), int64(u.CPUs), int64(u.MemoryMB)}, waiting: true}
	l.jobs[job.ID] = c
	c.tenant.addWanted(c.asks, 1)
	if l.watch != nil {
		l.watch.jobWaits(c)
	}
}

// updateRun updates a job from its run. The method records the resources of the job's seats,
// and whether the job waits.
func (l *accounting) updateRun(ev *ares.RunEvent, now time.Time) {
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
	l.setSeats(c, seats, now)
	l.setWaiting(c, ev.Run.Phase.Waiting())
}

// setSeats sets the seats of a job.
func (l *accounting) setSeats(c *jobUsage, seats []*ares.Seat, now time.Time) {
	var holds resources
	for _, seat := range seats {
		holds.add(seat)
	}
	l.setHeld(c, holds, now)
	if l.watch != nil {
		l.watch.jobSeated(c, seats)
	}
}

func (a *resources) add(seat *ares.Seat) {
	for _, sh := range seat.Shares {
		a[0] += int64(sh.Milli)
	}
	a[1] += int64(seat.CPUs)
	a[2] += int64(seat.Memory)
}

// removeJob removes a job that has ended.
func (l *accounting) removeJob(id ares.JobID, now time.Time) {
	if c := l.jobs[id]; c != nil {
		l.setSeats(c, nil, now)
		l.setWaiting(c, false)
		delete(l.jobs, id)
	}
}

// setHeld sets the resources that a job uses.
func (l *accounting) setHeld(c *jobUsage, holds resources, now time.Time) {
	if holds == c.holds {
		return
	}
	c.tenant.decay(now, l.halfLife)
	for r := range holds {
		c.tenant.held[r] += holds[r] - c.holds[r]
		c.tenant.wanted[r] += holds[r] - c.holds[r]
	}
	c.holds = holds
}

// setWaiting sets whether a job waits.
func (l *accounting) setWaiting(c *jobUsage, waiting bool) {
	switch {
	case c.waiting == waiting:
		return
	case waiting:
		c.tenant.addWanted(c.asks, 1)
	default:
		c.tenant.addWanted(c.asks, -1)
	}
	c.waiting = waiting
	if waiting && l.watch != nil {
		l.watch.jobWaits(c)
	}
}

func (p *tenantUsage) addWanted(a resources, sign int64) {
	for r := range a {
		p.wanted[r] += sign * a[r]
	}
}

// This method applies the exponential decay of past usage up to the time now. The method
// assumes that the resources in use now have been in use since its previous call.
func (p *tenantUsage) decay(now time.Time, halfLife time.Duration) {
	if halfLife <= 0 || !now.After(p.pastAt) {
		return
	}
	left := math.Exp2(-now.Sub(p.pastAt).Seconds() / halfLife.Seconds())
	for r := range p.past {
		p.past[r] = p.past[r]*left + float64(p.held[r])*(1-left)
	}
	p.pastAt = now
}

// A tenant has a share of each resource of the cluster. dominantShare returns the largest of these shares.
func (p *tenantUsage) dominantShare(capacity resources) float64 { return dominant(p.held, capacity) }

func dominant(a, capacity resources) float64 {
	most := 0.0
	for r := range a {
		if capacity[r] > 0 {
			most = max(most, float64(a[r])/float64(capacity[r]))
		}
	}
	return most
}

// maxFraction returns the fraction of a tenant's demand that the tenant's limits allow.
func (p *tenantUsage) maxFraction() float64 {
	part := 1.0
	for r, limit := range []int64{1000 * int64(p.limits.GPUs), int64(p.limits.CPUs), int64(p.limits.MemoryMB)} {
		if p.wanted[r] > limit {
			part = min(part, float64(limit)/float64(p.wanted[r]))
		}
	}
	return part
}
