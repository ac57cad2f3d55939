package enginetest

import (
	"cmp"
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Check says which law a state breaks, nil for none.
func Check(s *engine.State) error { return s.Check() }

// CheckPlan says which law a plan made from this state breaks, nil for none. It
// counts everything anew from the runs, apart from the engine's own accounts.
func CheckPlan(s *engine.State, p ares.Plan) error {
	if p.Revision != s.Revision() {
		return fmt.Errorf("it is for revision %d, the state is at %d", p.Revision, s.Revision())
	}
	l := newLedger(s)
	once := map[ares.JobID]bool{}
	touch := func(id ares.JobID) error {
		if once[id] {
			return fmt.Errorf("it touches the run of %s twice", id)
		}
		once[id] = true
		return nil
	}
	for _, id := range p.Ready {
		run, _ := s.Run(id)
		if err := touch(id); err != nil {
			return err
		}
		if !run.Settled() || run.Phase == ares.Pending || !run.Phase.Waiting() || p.Now.Before(run.NotBefore) {
			return fmt.Errorf("it readies %s, which is %s", id, run.Phase)
		}
	}
	if err := checkArrays(s, &p, touch); err != nil {
		return err
	}
	for _, pl := range p.Place {
		if err := touch(pl.Job); err != nil {
			return err
		}
		if err := l.place(s, pl); err != nil {
			return fmt.Errorf("it places %s: %w", pl.Job, err)
		}
	}
	if !p.Wake.IsZero() && p.Wake.Before(p.Now) {
		return fmt.Errorf("it wakes at %s, in the past", p.Wake)
	}
	if len(p.Place) > engine.MaxPlacings || len(p.Ready) > engine.MaxPlacings || len(p.Refuse) > engine.MaxRefusals {
		return fmt.Errorf("it is too long: %d, %d and %d", len(p.Ready), len(p.Place), len(p.Refuse))
	}
	return nil
}

// ledger is what is held, counted from the runs.
type ledger struct {
	nodes   map[string]engine.NodeView
	milli   map[[2]string]int
	cpus    map[string]int
	memory  map[string]int
	tenants map[string]ares.Use
}

func newLedger(s *engine.State) *ledger {
	l := &ledger{map[string]engine.NodeView{}, map[[2]string]int{}, map[string]int{}, map[string]int{}, map[string]ares.Use{}}
	for v := range s.Nodes() {
		l.nodes[v.Node.ID] = v
	}
	for job, run := range s.Jobs() {
		if run == nil {
			continue
		}
		for _, a := range run.Attempts {
			for _, h := range a.Seats {
				if !h.State.Free() {
					l.sit(job, h.Seat, !h.State.Settled())
				}
			}
		}
		if !job.IsArray() && run.Phase.Active() || !run.Settled() {
			l.tenants[job.Tenant] = l.tenants[job.Tenant].Add(ares.Use{Jobs: 1})
		}
	}
	return l
}

// sit takes a seat's share of its node, and of its tenant's limits if it counts
// there: a voided one does not.
func (l *ledger) sit(job *ares.Job, seat ares.Seat, counts bool) {
	l.cpus[seat.Node] += seat.CPUs
	l.memory[seat.Node] += seat.Memory
	use := ares.Use{CPUs: seat.CPUs, MemoryMB: seat.Memory, GPUMemoryMB: job.GPUMemoryMB}
	for _, sh := range seat.Shares {
		l.milli[[2]string{seat.Node, sh.Device}] += sh.Milli
		use.GPUMilli += sh.Milli
	}
	if counts {
		l.tenants[job.Tenant] = l.tenants[job.Tenant].Add(use)
	}
}

// place seats a job in the ledger and wants everything in order afterwards.
func (l *ledger) place(s *engine.State, pl ares.Placing) error {
	job, ok := s.Job(cmp.Or(pl.ArrayOf, pl.Job))
	if !ok {
		return fmt.Errorf("there is no such job")
	}
	run, _ := s.Run(job.ID)
	if run.Phase != ares.Pending && !job.IsArray() || run.Phase.Final() || !run.Settled() || run.Stop != nil || job.IsArray() != (pl.ArrayOf != "") {
		return fmt.Errorf("it is %s and may not be placed", run.Phase)
	}
	for _, id := range job.After {
		if before, _ := s.Run(ares.JobID(id)); before.Phase != ares.Succeeded {
			return fmt.Errorf("%s, which comes before it, is %q", id, before.Phase)
		}
	}
	if len(pl.Seats) > job.Members || len(pl.Seats) < job.MinMembers {
		return fmt.Errorf("%d seats for %d to %d members", len(pl.Seats), job.MinMembers, job.Members)
	}
	for i, seat := range pl.Seats {
		if seat.Rank != i {
			return fmt.Errorf("seat %d has rank %d", i, seat.Rank)
		}
		l.sit(job, seat, true)
		if err := l.checkSeat(job, seat); err != nil {
			return fmt.Errorf("rank %d on %s: %w", i, seat.Node, err)
		}
	}
	if last := pl.Seats[len(pl.Seats)-1]; job.Placement.RequiredLevel == "node" && last.Node != pl.Seats[0].Node {
		return fmt.Errorf("it asked for one node and got %s and %s", pl.Seats[0].Node, last.Node)
	}
	l.tenants[job.Tenant] = l.tenants[job.Tenant].Add(ares.Use{Jobs: 1})
	tenant, _, ok := s.Tenant(job.Tenant)
	if !ok {
		return fmt.Errorf("there is no tenant %s", job.Tenant)
	}
	if what, used, limit, over := tenant.Limits.Excess(l.tenants[job.Tenant]); over {
		return fmt.Errorf("tenant %s would use %d %s of %d", job.Tenant, used, what, limit)
	}
	return nil
}

func (l *ledger) checkSeat(job *ares.Job, seat ares.Seat) error {
	v, ok := l.nodes[seat.Node]
	switch {
	case !ok || v.Session == nil || v.Cordon != nil:
		return fmt.Errorf("the node is not open")
	case seat.CPUs != job.CPUs || seat.Memory != job.MemoryMB:
		return fmt.Errorf("%d cores and %d MB are not what was asked for", seat.CPUs, seat.Memory)
	case job.CPUs > 0 && l.cpus[seat.Node] > v.Node.CPUs, job.MemoryMB > 0 && l.memory[seat.Node] > v.Node.MemoryMB:
		return fmt.Errorf("the node is oversold: %d cores, %d MB", l.cpus[seat.Node], l.memory[seat.Node])
	}
	devices, milli := 0, 0
	for _, sh := range seat.Shares {
		if err := l.checkShare(v.Node, job, sh); err != nil {
			return err
		}
		milli += sh.Milli
		devices++
	}
	if devices != max(job.GPUs, min(job.GPUMilli, 1)) || milli != max(1000*job.GPUs, job.GPUMilli) {
		return fmt.Errorf("%d devices and %d/1000 are not what was asked for", devices, milli)
	}
	for k, want := range job.Placement.NodeSelector {
		if v.Node.Labels[k] != want {
			return fmt.Errorf("label %s is %q", k, v.Node.Labels[k])
		}
	}
	return nil
}

func (l *ledger) checkShare(n *ares.Node, job *ares.Job, sh ares.Share) error {
	for _, d := range n.Devices {
		if d.ID != sh.Device {
			continue
		}
		if !d.Healthy || d.Parent != "" || d.Index != sh.Index || d.MemoryMB*max(job.GPUs, 1) < job.GPUMemoryMB {
			return fmt.Errorf("device %s does not fit", d.ID)
		}
		if sold := l.milli[[2]string{n.ID, d.ID}]; sold > 1000 {
			return fmt.Errorf("device %s is sold twice: %d/1000", d.ID, sold)
		}
		return nil
	}
	return fmt.Errorf("there is no device %s", sh.Device)
}

// checkArrays wants each array's step to hold exactly the elements it makes, in
// order, and no more of them than may be under way.
func checkArrays(s *engine.State, p *ares.Plan, touch func(ares.JobID) error) error {
	made := map[ares.JobID][]int{}
	for _, pl := range p.Place {
		if pl.ArrayOf == "" {
			continue
		}
		if pl.Job != ares.ElementID(pl.ArrayOf, pl.Index) {
			return fmt.Errorf("element %d of %s is not %s", pl.Index, pl.ArrayOf, pl.Job)
		}
		made[pl.ArrayOf] = append(made[pl.ArrayOf], pl.Index)
	}
	for _, step := range p.Arrays {
		run, _ := s.Run(step.Job)
		job, ok := s.Job(step.Job)
		if err := touch(step.Job); err != nil || !ok {
			return fmt.Errorf("the step of array %s: %w", step.Job, err)
		}
		for i, index := range made[step.Job] {
			if index != run.Next+i {
				return fmt.Errorf("array %s has %d elements and makes number %d", step.Job, run.Next, index)
			}
		}
		n := len(made[step.Job])
		if step.Next != run.Next+n || step.Next > job.Array.Count || n > job.ElementsAtOnce() {
			return fmt.Errorf("array %s makes %d elements after %d and then has %d", step.Job, n, run.Next, step.Next)
		}
		if err := run.Advance(&step, p.Now); err != nil {
			return err
		}
		delete(made, step.Job)
	}
	if len(made) > 0 {
		return fmt.Errorf("%d arrays have elements made without a step", len(made))
	}
	for _, stop := range p.Stop {
		run, _ := s.Run(stop.Job)
		if err := touch(stop.Job); err != nil {
			return err
		}
		if err := run.RequestStop(stop.Stop); err != nil {
			return err
		}
	}
	return nil
}
