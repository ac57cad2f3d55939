package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/laws"
)

// LawReport is the result of checking decisions against the laws of the engine.
//
// The law of turns is checked at every decision, with data from the simulator's own accounting. The law of turns
// is about the order of jobs. No job may be placed while a job ahead of it is waiting and would fit. A job is
// ahead of another job if its priority class is higher. Within the same class, the job whose tenant has the
// smaller share is ahead. A tenant's share is its weighted dominant share. It counts the resources that the tenant
// uses now and its decayed past use. If the difference between two shares could be a rounding error, the
// difference is ignored.
//
// The laws about the whole run are also checked at every decision. For example, if one job has preempted another,
// directly or through a chain of preemptions, the other job must not preempt it while both exist.
type LawReport struct {
	Decisions  int      `json:"decisions"` // decisions that placed or stopped a job
	Placings   int      `json:"placings"`
	Ahead      int      `json:"rivals"`     // waiting jobs, counted by tenant and request, that were ahead of a placed job and did not fit
	Unchecked  int      `json:"unjudged"`   // jobs with placement constraints, which are not compared
	AllLaws    int      `json:"all_laws"`   // decisions that were checked against every law
	Stopped    int      `json:"stopped"`    // preemptions
	MostStops  int      `json:"most_stops"` // largest number of preemptions of one job
	Violations int      `json:"violations"` // of any law
	First      []string `json:"first_violations,omitempty"`
}

// maxViolationTexts is the maximum number of violations that are stored as text; further violations
// are only counted.
const maxViolationTexts = 10

// CheckLaws makes the simulation check every decision against the law of turns. The parameter is a number n.
// Every n-th decision gets a full check, which tests the decision against all laws. Each full check recounts
// all machines. If the parameter is 0, there are no full checks. CheckLaws must be called before Run. Some
// policies let jobs wait behind a job that cannot start. These policies break the law of turns by design. The
// check ignores the weights of GPU models.
func (w *World) CheckLaws(every int) {
	if w.laws != nil {
		return
	}
	w.laws = &lawChecker{
		every: every, state: w.state, accounting: w.startAccounting(), cfg: w.state.Config(), cluster: cluster{byID: map[string]*machineCapacity{}},
		queues: map[requestKey]*requestQueue{}, byTenant: map[*tenantUsage][]*requestQueue{}, stops: map[ares.JobID]int{},
	}
	w.accounting.watch = w.laws
	for n := range w.state.Nodes() {
		w.laws.nodeChanged(n.Node)
	}
}

// LawReport returns the result of the checks, or nil if CheckLaws was not called.
func (w *World) LawReport() *LawReport {
	if w.laws == nil {
		return nil
	}
	return &w.laws.report
}

// lawChecker contains the data that the law of turns needs. These are the resources of every tenant, the waiting
// jobs, and the free capacity of every machine.
type lawChecker struct {
	every      int
	state      *engine.State
	accounting *accounting
	cfg        config.Config
	cluster    cluster
	queues     map[requestKey]*requestQueue
	byTenant   map[*tenantUsage][]*requestQueue
	unfit      map[request]bool // requests that have not fit since capacity was last freed
	witness    laws.PreemptionHistory
	stops      map[ares.JobID]int
	report     LawReport
}

// requestQueue lists the waiting jobs of one tenant that have equal requests, earliest first.
type requestQueue struct {
	request request
	jobs    []*jobUsage
}

// requestKey identifies a requestQueue.
type requestKey struct {
	tenant  *tenantUsage
	request request
}

func (j *lawChecker) nodeChanged(n *ares.Node) {
	j.cluster.setNode(n)
	j.unfit = nil
}

func (j *lawChecker) jobWaits(c *jobUsage) {
	w, plain := requestOf(c.job)
	if !plain || c.tenant.bound {
		j.report.Unchecked++
		return
	}
	line := j.queues[requestKey{c.tenant, w}]
	if line == nil {
		line = &requestQueue{request: w}
		j.queues[requestKey{c.tenant, w}] = line
		j.byTenant[c.tenant] = append(j.byTenant[c.tenant], line)
	}
	at, there := slices.BinarySearchFunc(line.jobs, c, func(a, b *jobUsage) int {
		return cmp.Or(a.job.AcceptedAt.Compare(b.job.AcceptedAt), cmp.Compare(a.job.ID, b.job.ID))
	})
	if !there {
		line.jobs = slices.Insert(line.jobs, at, c)
	}
}

// This method returns the earliest waiting job, or nil if no job waits.
func (r *requestQueue) first() *jobUsage {
	for len(r.jobs) > 0 && !r.jobs[0].waiting {
		r.jobs[0] = nil
		r.jobs = r.jobs[1:]
	}
	if len(r.jobs) == 0 {
		return nil
	}
	return r.jobs[0]
}

func (j *lawChecker) jobSeated(c *jobUsage, seats []*ares.Seat) {
	for _, seat := range c.seats {
		j.cluster.take(seat, -1)
	}
	for _, seat := range seats {
		j.cluster.take(seat, 1)
	}
	if len(seats) < len(c.seats) {
		j.unfit = nil
	}
	c.seats = seats
}

// This method checks a plan against the laws before it is applied. The simulation's state must
// still be the state from which the plan was made.
func (j *lawChecker) check(s *engine.State, plan *ares.Plan) {
	j.checkStops(s, plan)
	if len(plan.Place)+len(plan.Stop)+len(plan.Nominate) == 0 {
		return
	}
	j.report.Decisions++
	if j.every > 0 && j.report.Decisions%j.every == 0 {
		j.report.AllLaws++
		for _, v := range laws.Check(s, plan) {
			j.addViolation(plan.Now, v.Error())
		}
	}
	kept := j.holdNominations(s, plan)
	for i := range plan.Place {
		p := &plan.Place[i]
		if run, ok := s.Run(p.Job); ok && run.Nominated != nil {
			j.countPlacing(p, plan.Now) // the job takes its nominated seats, out of turn
			continue
		}
		j.checkTurn(p, plan.Now)
	}
	for _, seat := range kept {
		j.cluster.take(seat, -1)
	}
	if len(kept) > 0 {
		j.unfit = nil
	}
}

// checkStops checks preemptions against the laws about the whole run.
func (j *lawChecker) checkStops(s *engine.State, plan *ares.Plan) {
	before := len(j.witness.Preemptions)
	if err := j.witness.Observe(s, plan); err != nil {
		j.addViolation(plan.Now, err.Error())
	}
	for _, gone := range j.witness.Preemptions[before:] {
		j.stops[gone.Job]++
		j.report.Stopped++
		j.report.MostStops = max(j.report.MostStops, j.stops[gone.Job])
	}
}

// checkTurn checks every placed job. No job ahead of it in the order may have been waiting at that time if it
// would have fit.
func (j *lawChecker) checkTurn(p *ares.Placing, now time.Time) {
	c := j.accounting.jobs[p.Job]
	if c == nil { // an array element, whose job arrives together with its run
		return
	}
	j.report.Placings++
	class := laws.WaitingClass(&j.cfg, c.job, now).Rank()
	least, _ := j.shareBounds(c.tenant, now)
	for _, of := range j.accounting.tenants {
		if of == c.tenant || len(j.byTenant[of]) == 0 {
			continue
		}
		_, most := j.shareBounds(of, now)
		for _, line := range j.byTenant[of] {
			first := line.first()
			if first == nil {
				continue
			}
			its := laws.WaitingClass(&j.cfg, first.job, now).Rank()
			if its < class || its == class && most >= least {
				continue
			}
			if j.fits(line.request) && !j.mayDelay(first.job.ID, now) && !j.state.WouldBorrow(first.job.ID) {
				j.addViolation(now, fmt.Sprintf("law \"turns\": %s of %s (%.6f) is placed while %s of %s (%.6f) waits and fits", p.Job, c.tenant.name, least, first.job.ID, of.name, most))
				continue
			}
			j.report.Ahead++
		}
	}
	j.countPlacing(p, now)
}

// countPlacing records a placement in the simulator's own accounting.
func (j *lawChecker) countPlacing(p *ares.Placing, now time.Time) {
	c := j.accounting.jobs[p.Job]
	if c == nil {
		return
	}
	seats := make([]*ares.Seat, len(p.Seats))
	for i := range p.Seats {
		seats[i] = &p.Seats[i]
	}
	j.accounting.setSeats(c, seats, now)
	j.accounting.setWaiting(c, false)
}

// Plans nominate seats for jobs, and no other job may use these seats. The method subtracts the capacity of all
// nominated seats from the free capacity.
func (j *lawChecker) holdNominations(s *engine.State, plan *ares.Plan) (kept []*ares.Seat) {
	placed := map[ares.JobID]bool{}
	for i := range plan.Place {
		placed[plan.Place[i].Job] = true
	}
	for i := range plan.Withdraw {
		placed[plan.Withdraw[i].Job] = true
	}
	for id, n := range s.Nominations() {
		for i := range n.Seats {
			if !placed[id] {
				kept = append(kept, &n.Seats[i])
			}
		}
	}
	for i := range plan.Nominate {
		for k := range plan.Nominate[i].Nomination.Seats {
			kept = append(kept, &plan.Nominate[i].Nomination.Seats[k])
		}
	}
	for _, seat := range kept {
		j.cluster.take(seat, 1)
	}
	return kept
}

// mayDelay reports whether a job could delay a job with a backfill reservation. A job that could
// cause such a delay may have to wait although it fits.
func (j *lawChecker) mayDelay(id ares.JobID, now time.Time) bool {
	ends, known := j.state.ExpectedEnd(id, now)
	return slices.ContainsFunc(j.state.PlannedStarts(), func(p ares.PlannedStart) bool {
		return p.Job != id && (!known || p.At.IsZero() || ends.After(p.Latest))
	})
}

// This method reports whether a request fits into the free capacity. If a request does not
// fit, this result is reused until capacity is freed.
func (j *lawChecker) fits(w request) bool {
	w.priority = 0
	if j.unfit[w] {
		return false
	}
	if j.cluster.fits(&w) {
		return true
	}
	if j.unfit == nil {
		j.unfit = map[request]bool{}
	}
	j.unfit[w] = true
	return false
}

// shareBounds returns the bounds of a tenant's weighted share. The lower and the upper bound differ, because the
// engine rounds past use to whole units. It also stores past use only for a limited time.
func (j *lawChecker) shareBounds(p *tenantUsage, now time.Time) (least, most float64) {
	const cut = 1.0 / 10_000
	p.decay(now, j.cfg.HalfLife)
	for r, all := range j.accounting.capacity {
		if all == 0 {
			continue
		}
		slack := [3]float64{2, 2, 1024}[r]
		held := float64(p.held[r])
		least = max(least, (held+max(p.past[r]*(1-cut)-slack, 0))/float64(all)/p.weight)
		above := p.past[r]*(1+cut) + slack
		if p.past[r] == 0 {
			above = 0
		}
		most = max(most, (held+above)/float64(all)/p.weight)
	}
	return least, most
}

func (j *lawChecker) addViolation(now time.Time, what string) {
	j.report.Violations++
	if len(j.report.First) < maxViolationTexts {
		j.report.First = append(j.report.First, fmt.Sprintf("after %s: %s", now.Sub(Epoch), what))
	}
}
