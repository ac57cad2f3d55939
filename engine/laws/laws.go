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

	plan    func(*trial) error          // of the plan as a whole, nil for none
	ahead   func(*trial, *placed) error // of each placing, before it is counted
	placing func(*trial, *placed) error // of each placing, when it has been counted
}

// Laws lists them all.
func Laws() []Law {
	return []Law{
		{Name: "accounts", Text: "what is kept up to date says the same as counting anew, and a decision leaves no trace", plan: accounts},
		{Name: "form", Text: "a plan is for its state's revision, touches each run once and is not too long", plan: form},
		{Name: "arrays", Text: "an array's step holds exactly the elements it makes, and no more than may be under way", plan: arrays},
		{Name: "moves", Text: "only a job that waits, whose earlier seats are settled and whose dependencies succeeded, is placed", placing: moves},
		{Name: "gangs", Text: "a gang is whole or absent", placing: gangs},
		{Name: "devices", Text: "no device, core or megabyte is sold twice, and each is what was asked for", placing: seats},
		{Name: "nodes", Text: "labels, taints and regions of its nodes are as the job asked", placing: nodes},
		{Name: "places", Text: "the required level, the bandwidth and the limits on one leaf hold", placing: places},
		{Name: "company", Text: "a job is near the jobs it asked for and away from those it avoids", placing: company},
		{Name: "limits", Text: "no limit of a tenant or queue is passed by a placing", placing: limits},
		{Name: "quotas", Text: "no quota is passed by a placing, and what one borrows is what others lend", placing: quotas},
		{Name: "budgets", Text: "nobody is placed whose tenant has used up its GPU-hours", placing: budgets},
		{Name: "windows", Text: "nobody is placed where others have a reservation that is open or that he is thought to run into, and only such are drained", plan: evictions, placing: windows},
		{Name: "turns", Text: "nobody is placed before a job of a higher class, of a poorer tenant or queue in the same class, or earlier in its queue, that is placed later", ahead: turns},
		{Name: "strict", Text: "where queues are strict, nobody is placed before an earlier one of his queue", ahead: strict},
		{Name: "yields", Text: "only a running job that nothing protects gives way, by order to an earlier one of its queue and class", plan: yields},
		{Name: "ceiling", Text: "no more is stopped for a job than the ceiling allows for what it asks", plan: ceiling},
		{Name: "rates", Text: "no more is stopped by class for a tenant's jobs in an hour than may be", plan: rates},
		{Name: "sitters", Text: "who gives way is who sits on the seats that are kept, or has borrowed what the job lacks", plan: sitters},
		{Name: "circles", Text: "nobody gives way to a job that gave way to it, by however many others", plan: circles},
		{Name: "reckonings", Text: "seats are kept for a job that waits, with the reckoning of each attempt that gives way, and nobody is stopped otherwise", plan: reckonings},
		{Name: "kept seats", Text: "what is free of the seats that are kept for somebody is given to nobody else", plan: keptSeats},
		{Name: "rights", Text: "who gives way does so to a class two above his, or by quotas that promise what he borrowed", plan: rights},
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
	t := newTrial(s, p)
	for _, law := range all {
		if law.plan == nil {
			continue
		}
		if err := law.plan(t); err != nil {
			out = append(out, Violation{law.Name, err})
		}
	}
	broken := map[string]bool{}
	for i := range p.Place {
		pl, err := t.next(i)
		if err != nil {
			return append(out, Violation{"moves", err})
		}
		judge := func(name string, law func(*trial, *placed) error) {
			if law == nil || broken[name] {
				return
			}
			if err := law(t, pl); err != nil {
				broken[name] = true
				out = append(out, Violation{name, fmt.Errorf("job %s: %w", pl.Job, err)})
			}
		}
		for i := range all {
			judge(all[i].Name, all[i].ahead)
		}
		t.place(pl)
		for i := range all {
			judge(all[i].Name, all[i].placing)
		}
	}
	return out
}

// trial is a plan before the laws: what is held, with what its placings add one
// by one.
type trial struct {
	state *engine.State
	plan  *ares.Plan
	cfg   engine.Config

	nodes    map[string]*machine
	holders  []holder
	tenants  map[string]*ares.Tenant
	accounts book
	atlas    atlas
}

// placed is one placing of the plan, with its job.
type placed struct {
	*ares.Placing
	index int
	job   *ares.Job
	run   ares.Run
	owed  map[demand]int64 // what counted against the quotas above it before
}

// holder is a seat that is not free, and whose it is.
type holder struct {
	job  *ares.Job
	seat *ares.Seat
	live bool // it counts for its tenant: a voided one does not
}

func newTrial(s *engine.State, p *ares.Plan) *trial {
	t := &trial{
		state: s, plan: p, cfg: s.Config(), nodes: map[string]*machine{},
		tenants: map[string]*ares.Tenant{}, atlas: newAtlas(s.Topology()),
	}
	for v := range s.Nodes() {
		t.nodes[v.Node.ID] = newMachine(v)
	}
	for id := range s.UnknownNodes() {
		t.nodes[id] = newMachine(engine.NodeView{Node: &ares.Node{ID: id}})
	}
	t.atlas.settle(t.nodes)
	for r := range s.Tenants() {
		t.tenants[r.ID] = r
	}
	t.accounts = newBook(s, t.tenants, t.nodes, p.Now)
	for job, run := range s.Jobs() {
		if run != nil {
			t.hold(job, run)
		}
	}
	t.accounts.archived(s)
	return t
}

// hold counts what a job holds and has held.
func (t *trial) hold(job *ares.Job, run *ares.Run) {
	active := !job.IsArray() && run.Phase.Active()
	for i := range run.Attempts {
		a := &run.Attempts[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			t.accounts.used(job, &h.Seat, a.PlacedAt, a.EndedAt)
			if h.State.Free() {
				continue
			}
			live := !h.State.Settled()
			active = active || live
			t.sit(job, &h.Seat, live)
		}
	}
	if active {
		t.accounts.leaf(job).add(amount{held: ares.Use{Jobs: 1}})
	}
}

// sit counts one seat.
func (t *trial) sit(job *ares.Job, seat *ares.Seat, live bool) {
	t.holders = append(t.holders, holder{job, seat, live})
	if m := t.nodes[seat.Node]; m != nil {
		m.sit(seat)
	}
	if live {
		t.accounts.leaf(job).add(t.accounts.amountOf(job, seat))
	}
}

// next is a placing of the plan, before it is counted.
func (t *trial) next(i int) (*placed, error) {
	pl := &placed{Placing: &t.plan.Place[i], index: i}
	job, ok := t.state.Job(cmp.Or(pl.ArrayOf, pl.Job))
	if !ok {
		return nil, fmt.Errorf("there is no job %s", cmp.Or(pl.ArrayOf, pl.Job))
	}
	pl.job = job
	pl.run, _ = t.state.Run(job.ID)
	pl.owed = t.accounts.demands(job)
	return pl, nil
}

// place counts a placing.
func (t *trial) place(pl *placed) {
	for k := range pl.Seats {
		t.sit(pl.job, &pl.Seats[k], true)
	}
	t.accounts.leaf(pl.job).add(amount{held: ares.Use{Jobs: 1}})
}

func accounts(t *trial) error { return t.state.Check() }

func moves(_ *trial, p *placed) error {
	job, run := p.job, &p.run
	if run.Phase != ares.Pending && !job.IsArray() || run.Phase.Final() || !run.Settled() || run.Stop != nil || job.IsArray() != (p.ArrayOf != "") {
		return fmt.Errorf("it is %s and may not be placed", run.Phase)
	}
	return nil
}

func gangs(t *trial, p *placed) error {
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
