package laws

import (
	"cmp"
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Law is one thing that holds of every plan.
type Law struct {
	Name string
	Text string

	checkPlan   func(*checker) error             // of the plan as a whole, nil for none
	checkBefore func(*checker, *placement) error // of each placing, before it is counted
	checkAfter  func(*checker, *placement) error // of each placing, when it has been counted
}

// Laws lists them all.
func Laws() []Law {
	return []Law{
		{Name: "accounts", Text: "what is kept up to date says the same as counting anew, and a decision leaves no trace", checkPlan: checkState},
		{Name: "form", Text: "a plan is for its state's revision, touches each run once and is not too long", checkPlan: checkForm},
		{Name: "arrays", Text: "an array's step holds exactly the elements it makes, and no more than may be under way", checkPlan: checkArrays},
		{Name: "moves", Text: "only a job that waits, whose earlier seats are settled and whose dependencies succeeded, is placed", checkAfter: checkPhase},
		{Name: "gangs", Text: "a gang is whole or absent", checkAfter: checkGang},
		{Name: "devices", Text: "no device, core or megabyte is sold twice, and each is what was asked for", checkAfter: checkDevices},
		{Name: "nodes", Text: "labels, taints and regions of its nodes are as the job asked", checkAfter: checkNodeConstraints},
		{Name: "places", Text: "the required level, the bandwidth and the limits on one leaf hold", checkAfter: checkTopology},
		{Name: "company", Text: "a job is near the jobs it asked for and away from those it avoids", checkAfter: checkAffinity},
		{Name: "limits", Text: "no limit of a tenant or queue is passed by a placing", checkAfter: checkLimits},
		{Name: "quotas", Text: "no quota is passed by a placing, and what one borrows is what others lend", checkAfter: checkQuotas},
		{Name: "budgets", Text: "nobody is placed whose tenant has used up its GPU-hours", checkAfter: checkBudget},
		{Name: "windows", Text: "nobody is placed where others have a reservation that is open or that he is thought to run into, and only such are drained", checkPlan: checkReservationDrains, checkAfter: checkReservations},
		{Name: "turns", Text: "nobody is placed before a job of a higher class, of a poorer tenant or queue in the same class, or earlier in its queue, that is placed later", checkBefore: checkOrder},
		{Name: "strict", Text: "where queues are strict, nobody is placed before an earlier one of his queue", checkBefore: checkStrictOrder},
		{Name: "yields", Text: "only a running job that nothing protects gives way, by order to an earlier one of its queue and class", checkPlan: checkVictims},
		{Name: "ceiling", Text: "no more is stopped for a job than the ceiling allows for what it asks", checkPlan: checkPreemptionLimit},
		{Name: "rates", Text: "no more is stopped by class for a tenant's jobs in an hour than may be", checkPlan: checkPreemptionRate},
		{Name: "sitters", Text: "who gives way is who sits on the seats that are kept, or has borrowed what the job lacks", checkPlan: checkVictimSeats},
		{Name: "circles", Text: "nobody gives way to a job that gave way to it, by however many others", checkPlan: checkPreemptionCycles},
		{Name: "reckonings", Text: "seats are kept for a job that waits, with the reckoning of each attempt that gives way, and nobody is stopped otherwise", checkPlan: checkNominations},
		{Name: "kept seats", Text: "what is free of the seats that are kept for somebody is given to nobody else", checkPlan: checkNominatedSeats},
		{Name: "rights", Text: "who gives way does so to a class two above his, or by quotas that promise what he borrowed", checkPlan: checkPreemptionBasis},
	}
}

// Violation is a law that a plan breaks.
type Violation struct {
	Law string
	Err error
}

func (v Violation) Error() string { return fmt.Sprintf("law %q: %v", v.Law, v.Err) }

// Unwrap is what the law says against it.
func (v Violation) Unwrap() error { return v.Err }

// Check says which laws a plan made from this state breaks, each once.
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
		judge := func(name string, law func(*checker, *placement) error) {
			if law == nil || broken[name] {
				return
			}
			if err := law(t, pl); err != nil {
				broken[name] = true
				out = append(out, Violation{name, fmt.Errorf("job %s: %w", pl.Job, err)})
			}
		}
		for i := range all {
			judge(all[i].Name, all[i].checkBefore)
		}
		t.addPlacement(pl)
		for i := range all {
			judge(all[i].Name, all[i].checkAfter)
		}
	}
	return out
}

// checker is a plan before the laws: what is held, with what its placings add one
// by one.
type checker struct {
	state *engine.State
	plan  *ares.Plan
	cfg   engine.Config

	nodes    map[string]*nodeUse
	occupied []occupiedSeat
	tenants  map[string]*ares.Tenant
	ledger   ledger
	locator  locator
}

// placement is one placing of the plan, with its job.
type placement struct {
	*ares.Placing
	index        int
	job          *ares.Job
	run          ares.Run
	demandBefore map[quotaKey]int64 // what counted against the quotas above it before
}

// occupiedSeat is a seat that is not free, and whose it is.
type occupiedSeat struct {
	job             *ares.Job
	seat            *ares.Seat
	countsForTenant bool // it counts for its tenant: a voided one does not
}

func newChecker(s *engine.State, p *ares.Plan) *checker {
	t := &checker{
		state: s, plan: p, cfg: s.Config(), nodes: map[string]*nodeUse{},
		tenants: map[string]*ares.Tenant{}, locator: newLocator(s.Topology()),
	}
	for v := range s.Nodes() {
		t.nodes[v.Node.ID] = newNodeUse(v)
	}
	for id := range s.Strangers() {
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

// addJob counts what a job holds and has held.
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

// addSeat counts one seat.
func (t *checker) addSeat(job *ares.Job, seat *ares.Seat, live bool) {
	t.occupied = append(t.occupied, occupiedSeat{job, seat, live})
	if m := t.nodes[seat.Node]; m != nil {
		m.addSeat(seat)
	}
	if live {
		t.ledger.accountOf(job).add(t.ledger.amountOf(job, seat))
	}
}

// nextPlacement is a placing of the plan, before it is counted.
func (t *checker) nextPlacement(i int) (*placement, error) {
	pl := &placement{Placing: &t.plan.Place[i], index: i}
	job, ok := t.state.Job(cmp.Or(pl.ArrayOf, pl.Job))
	if !ok {
		return nil, fmt.Errorf("there is no job %s", cmp.Or(pl.ArrayOf, pl.Job))
	}
	pl.job = job
	pl.run, _ = t.state.Run(job.ID)
	pl.demandBefore = t.ledger.quotaDemands(job)
	return pl, nil
}

// addPlacement counts a placing.
func (t *checker) addPlacement(pl *placement) {
	for k := range pl.Seats {
		t.addSeat(pl.job, &pl.Seats[k], true)
	}
	t.ledger.accountOf(pl.job).add(amount{use: ares.Use{Jobs: 1}})
}

func checkState(t *checker) error { return t.state.Check() }

func checkPhase(_ *checker, p *placement) error {
	job, run := p.job, &p.run
	if run.Phase != ares.Pending && !job.IsArray() || run.Phase.Final() || !run.Settled() || run.Stop != nil || job.IsArray() != (p.ArrayOf != "") {
		return fmt.Errorf("it is %s and may not be placed", run.Phase)
	}
	return nil
}

func checkGang(t *checker, p *placement) error {
	if n := len(p.Seats); n > max(p.job.Members, 1) || n < p.job.MinMembers || n == 0 {
		return fmt.Errorf("%d seats for %d to %d members", n, p.job.MinMembers, p.job.Members)
	}
	for i := range p.Seats {
		if p.Seats[i].Rank != i {
			return fmt.Errorf("seat %d has rank %d", i, p.Seats[i].Rank)
		}
	}
	for _, id := range p.job.After {
		if before, _ := t.state.Run(ares.JobID(id)); before.Phase != ares.Succeeded {
			return fmt.Errorf("%s, which comes before it, is %q", id, before.Phase)
		}
	}
	return nil
}
