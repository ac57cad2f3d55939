package laws

import (
	"cmp"
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// Law is an invariant of every plan.
type Law struct {
	Name string // identifies the law in logs and metrics
	Text string // states the invariant

	checkPlan   func(*checker) error             // checks the plan as a whole; may be nil
	checkBefore func(*checker, *placement) error // checks each placement before it is counted; may be nil
	checkAfter  func(*checker, *placement) error // checks each placement after it is counted; may be nil
}

// Laws returns all laws.
func Laws() []Law {
	return []Law{
		{Name: "accounts", Text: "the state's indexes agree with its records, and a decision does not change the state", checkPlan: checkState},
		{Name: "form", Text: "a plan is for the revision of its state, writes each run once and is within the size limits", checkPlan: checkForm},
		{Name: "arrays", Text: "an array step has exactly the elements it creates, within the array's parallelism", checkPlan: checkArrays},
		{Name: "moves", Text: "only a pending job is placed, and only when its earlier seats are settled", checkAfter: checkPhase},
		{Name: "gangs", Text: "all members of a gang are placed or none, after its dependencies have succeeded", checkAfter: checkGang},
		{Name: "devices", Text: "no device, core or megabyte is allocated twice, and each seat has what the job requested", checkAfter: checkDevices},
		{Name: "models", Text: "the devices of a gang have one model, unless the job names models or allows several", checkAfter: checkModels},
		{Name: "nodes", Text: "labels, taints and regions of the nodes satisfy the job's constraints", checkAfter: checkNodeConstraints},
		{Name: "places", Text: "the required level, the bandwidth and the limits per leaf are satisfied", checkAfter: checkTopology},
		{Name: "company", Text: "affinity and anti-affinity to other jobs are satisfied", checkAfter: checkAffinity},
		{Name: "limits", Text: "no placement exceeds a limit of a tenant or queue", checkAfter: checkLimits},
		{Name: "quotas", Text: "no placement exceeds a quota, and borrowed quota is quota that others lend", checkAfter: checkQuotas},
		{Name: "budgets", Text: "no job is placed whose tenant has used up its GPU-hours", checkAfter: checkBudget},
		{Name: "windows", Text: "no job is placed on nodes with a reservation of others that is open or that the job is expected to run into, and only such jobs are drained", checkPlan: checkReservationDrains, checkAfter: checkReservations},
		{Name: "turns", Text: "no job is placed before a job that precedes it and is placed later: one of a higher class, of a tenant or queue with a lower share in the same class, or earlier in its queue", checkBefore: checkOrder},
		{Name: "strict", Text: "in a strict queue no job is placed while an earlier one waits", checkBefore: checkStrictOrder},
		{Name: "yields", Text: "only a running, unprotected job is preempted, and by order only for an earlier job of its queue and class", checkPlan: checkVictims},
		{Name: "preemptible", Text: "inside its queue and class only a job that allows it is preempted, and for one that needs much less; all others are preempted from two classes above, or for quota", checkPlan: checkPreemptible},
		{Name: "ceiling", Text: "the preempted devices stay within the ceiling for the requested ones", checkPlan: checkPreemptionLimit},
		{Name: "rates", Text: "the jobs of a tenant preempt no more victims by class per hour than configured", checkPlan: checkPreemptionRate},
		{Name: "sitters", Text: "the victims of a nomination hold its seats, or have borrowed the quota that the job lacks", checkPlan: checkVictimSeats},
		{Name: "circles", Text: "no job is preempted for a job that was preempted for it, directly or through others", checkPlan: checkPreemptionCycles},
		{Name: "reckonings", Text: "seats are nominated for a waiting job with the cost of each victim, and no other job is preempted", checkPlan: checkNominations},
		{Name: "kept seats", Text: "free capacity on nominated seats is given to no other job", checkPlan: checkNominatedSeats},
		{Name: "rights", Text: "a victim is preempted by a job at least two classes higher, or to reclaim quota it has borrowed", checkPlan: checkPreemptionBasis},
	}
}

// Violation is a law that a plan breaks.
type Violation struct {
	Law string
	Err error
}

func (v Violation) Error() string { return fmt.Sprintf("law %q: %v", v.Law, v.Err) }

// Unwrap returns the reason for the violation.
func (v Violation) Unwrap() error { return v.Err }

// Check checks a plan that was made from this state, and returns the laws that the plan breaks. Each law is listed
// only once.
func Check(s *engine.State, p *ares.Plan) []Violation {
	var out []Violation
	all := Laws()
	t := newChecker(s, p)
	for _, law := range all {
		if law.checkPlan == nil {
			continue
		}
		if err := law.checkPlan(t); err != nil {
			out = append(out, Violation{law.Name, err})
		}
	}
	broken := map[string]bool{}
	for i := range p.Place {
		pl, err := t.nextPlacement(i)
		if err != nil {
			return append(out, Violation{"moves", err})
		}
		run := func(name string, law func(*checker, *placement) error) {
			if law == nil || broken[name] {
				return
			}
			if err := law(t, pl); err != nil {
				broken[name] = true
				out = append(out, Violation{name, fmt.Errorf("job %s: %w", pl.Job, err)})
			}
		}
		for i := range all {
			run(all[i].Name, all[i].checkBefore)
		}
		t.addPlacement(pl)
		for i := range all {
			run(all[i].Name, all[i].checkAfter)
		}
	}
	return out
}

// A checker holds the totals of all resources in use. It recomputes these totals from the records. Placements of
// the plan are added one by one.
type checker struct {
	state *engine.State
	plan  *ares.Plan
	cfg   config.Config

	nodes    map[string]*nodeUse // by ID
	occupied []occupiedSeat      // every seat that is not free
	tenants  map[string]*ares.Tenant
	ledger   ledger
	locator  locator
}

// A `placement` is one placement of the plan, together with its job.
type placement struct {
	*ares.Placing
	index        int // position in the plan
	job          *ares.Job
	run          ares.Run
	demandBefore map[quotaKey]int64 // quota demand before the placement was counted
}

// occupiedSeat is a seat that is not free, with the job that holds it.
type occupiedSeat struct {
	job             *ares.Job
	seat            *ares.Seat
	countsForTenant bool // false for a voided seat
}

// newChecker computes the use of all resources from the records of a state.
func newChecker(s *engine.State, p *ares.Plan) *checker {
	t := &checker{
		state: s, plan: p, cfg: s.Config(), nodes: map[string]*nodeUse{},
		tenants: map[string]*ares.Tenant{}, locator: newLocator(s.Topology()),
	}
	for v := range s.Nodes() {
		t.nodes[v.Node.ID] = newNodeUse(v)
	}
	for id := range s.UnknownNodes() {
		t.nodes[id] = newNodeUse(engine.NodeView{Node: &ares.Node{ID: id}})
	}
	t.locator.locateAll(t.nodes)
	for r := range s.Tenants() {
		t.tenants[r.ID] = r
	}
	t.ledger = newLedger(s, t.tenants, t.nodes, p.Now)
	for job, run := range s.Jobs() {
		if run != nil {
			t.addJob(job, run)
		}
	}
	t.ledger.addArchivedUse(s)
	return t
}

// addJob adds the seats that a job holds, and its past usage.
func (t *checker) addJob(job *ares.Job, run *ares.Run) {
	active := !job.IsArray() && run.Phase.Active()
	for i := range run.Attempts {
		a := &run.Attempts[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			t.ledger.addPastUse(job, &h.Seat, a.PlacedAt, a.EndedAt)
			if h.State.Free() {
				continue
			}
			live := !h.State.Settled()
			active = active || live
			t.addSeat(job, &h.Seat, live)
		}
	}
	if active {
		t.ledger.accountOf(job).add(amount{use: ares.Use{Jobs: 1}})
	}
}

// addSeat adds one seat to the resources in use.
func (t *checker) addSeat(job *ares.Job, seat *ares.Seat, live bool) {
	t.occupied = append(t.occupied, occupiedSeat{job, seat, live})
	if m := t.nodes[seat.Node]; m != nil {
		m.addSeat(seat)
	}
	if live {
		t.ledger.accountOf(job).add(t.ledger.amountOf(job, seat))
	}
}

// nextPlacement returns the i-th placement of the plan. This placement is not counted yet.
func (t *checker) nextPlacement(i int) (*placement, error) {
	pl := &placement{Placing: &t.plan.Place[i], index: i}
	job, ok := t.state.Job(cmp.Or(pl.ArrayOf, pl.Job))
	if !ok {
		return nil, fmt.Errorf("the plan places job %s, which does not exist", cmp.Or(pl.ArrayOf, pl.Job))
	}
	pl.job = job
	pl.run, _ = t.state.Run(job.ID)
	pl.demandBefore = t.ledger.quotaDemands(job)
	return pl, nil
}

// addPlacement adds a placement to the resources in use.
func (t *checker) addPlacement(pl *placement) {
	for k := range pl.Seats {
		t.addSeat(pl.job, &pl.Seats[k], true)
	}
	t.ledger.accountOf(pl.job).add(amount{use: ares.Use{Jobs: 1}})
}

// checkState checks that the state's own indexes match its records.
func checkState(t *checker) error { return t.state.Check() }

// checkPhase checks that the job is pending and that its earlier seats are
// settled.
func checkPhase(_ *checker, p *placement) error {
	job, run := p.job, &p.run
	if run.Phase != ares.Pending && !job.IsArray() || run.Phase.Final() || !run.Settled() || run.Stop != nil || job.IsArray() != (p.ArrayOf != "") {
		return fmt.Errorf("the job is %s and cannot be placed: it must be pending, and its earlier processes must have ended", run.Phase)
	}
	return nil
}

// checkGang checks the number and the ranks of the seats. It also checks that all
// dependencies have succeeded.
func checkGang(t *checker, p *placement) error {
	if n := len(p.Seats); n > max(p.job.Members, 1) || n < p.job.MinMembers || n == 0 {
		return fmt.Errorf("%d members are placed, but the job needs %d to %d", n, p.job.MinMembers, p.job.Members)
	}
	for i := range p.Seats {
		if p.Seats[i].Rank != i {
			return fmt.Errorf("the rank of a member must be equal to its position, but the member at position %d has rank %d", i, p.Seats[i].Rank)
		}
	}
	for _, id := range p.job.After {
		if before, _ := t.state.Run(ares.JobID(id)); before.Phase != ares.Succeeded {
			return fmt.Errorf("the job depends on %s, but that job has not succeeded: it is %q", id, before.Phase)
		}
	}
	return t.startConditions(p.job, &p.run, p.Index)
}
