package laws

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// checkNominations wants each of them whole: for a job that waits, of as many seats as
// it takes, with the attempts that sit there named as they are, and nobody stopped
// for a job for which no seats are kept.
func checkNominations(t *checker) error {
	for i := range t.plan.Nominate {
		n := &t.plan.Nominate[i]
		if err := t.checkNomination(n); err != nil {
			return fmt.Errorf("seats for %s: %w", n.Job, err)
		}
	}
	for _, w := range t.plan.Withdraw {
		if run, ok := t.state.Run(w.Job); !ok || run.Nominated == nil {
			return fmt.Errorf("%s has no seats to be given up", w.Job)
		}
	}
	for i := range t.plan.Stop {
		y := t.plan.Stop[i].Stop.Yield
		if y == nil {
			continue
		}
		n := t.nominationAfterPlan(y.To)
		if n == nil || !slices.ContainsFunc(n.Victims, func(v ares.Victim) bool { return v.Job == t.plan.Stop[i].Job && v.Yield == *y }) {
			return fmt.Errorf("%s is stopped for %s, for which no seats of it are kept", t.plan.Stop[i].Job, y.To)
		}
	}
	return nil
}

// nominationAfterPlan is the nomination of a job when the plan is written, nil for none.
func (t *checker) nominationAfterPlan(id ares.JobID) *ares.Nomination {
	for i := range t.plan.Nominate {
		if t.plan.Nominate[i].Job == id {
			return &t.plan.Nominate[i].Nomination
		}
	}
	if slices.ContainsFunc(t.plan.Withdraw, func(w ares.Withdrawing) bool { return w.Job == id }) {
		return nil
	}
	run, _ := t.state.Run(id)
	return run.Nominated
}

func (t *checker) checkNomination(n *ares.Nominating) error {
	job, ok := t.state.Job(n.Job)
	if !ok || job.IsArray() {
		return fmt.Errorf("there is no such job, or it is an array")
	}
	run, stored := t.state.Run(n.Job)
	if stored && (run.Phase != ares.Pending || run.Stop != nil || !run.Settled()) {
		return fmt.Errorf("it is %s", run.Phase)
	}
	if k := len(n.Nomination.Seats); k == 0 || k > max(job.Members, 1) || k < job.MinMembers {
		return fmt.Errorf("%d seats for %d to %d members", k, job.MinMembers, job.Members)
	}
	asked := seatMilli(n.Nomination.Seats)
	for i := range n.Nomination.Victims {
		v := &n.Nomination.Victims[i]
		victim, known := t.state.Run(v.Job)
		a := victim.Current()
		switch {
		case !known || a == nil || a.Fence != v.Fence || v.Job == n.Job:
			return fmt.Errorf("%s does not run, or not under fence %d", v.Job, v.Fence)
		case v.Yield.To != n.Job || v.Yield.Tenant != job.Tenant:
			return fmt.Errorf("%s gives way to %s of %s", v.Job, v.Yield.To, v.Yield.Tenant)
		case v.Yield.Asked != asked || v.Yield.Milli != attemptMilli(a):
			return fmt.Errorf("%s gives up %d/1000 for %d/1000, it says %d for %d", v.Job, attemptMilli(a), asked, v.Yield.Milli, v.Yield.Asked)
		case v.Yield.Lost < 0:
			return fmt.Errorf("%s gains %d by giving way", v.Job, -v.Yield.Lost)
		}
	}
	return nil
}

func seatMilli(seats []ares.Seat) (sum int64) {
	for i := range seats {
		for _, sh := range seats[i].Shares {
			sum += int64(sh.Milli)
		}
	}
	return sum
}

// attemptMilli is what an attempt holds, in thousandths of devices.
func attemptMilli(a *ares.Attempt) (sum int64) {
	for i := range a.Seats {
		if !a.Seats[i].State.Free() {
			sum += seatMilli([]ares.Seat{a.Seats[i].Seat})
		}
	}
	return sum
}

// checkNominatedSeats wants what is free of the seats that are kept for somebody to stay so,
// unless he is placed: of each device, and of each node's cores and memory, the
// placings of the plan have no more than what is left besides. Seats that the plan
// itself keeps come after placings whose turn was earlier, and are not judged.
func checkNominatedSeats(t *checker) error {
	placed := map[ares.JobID]bool{}
	for i := range t.plan.Place {
		placed[t.plan.Place[i].Job] = true
	}
	keep := map[string]*nodeUse{} // what is kept on each node
	for job, run := range t.state.Jobs() {
		n := t.nominationAfterPlan(job.ID)
		if n == nil || placed[job.ID] || run == nil || run.Nominated == nil {
			continue
		}
		for i := range n.Seats {
			seat := &n.Seats[i]
			if t.isNominatedByPlan(job.ID) {
				seat = wholeShares(seat)
			}
			if keep[seat.Node] == nil {
				keep[seat.Node] = t.emptyNode(seat.Node)
			}
			keep[seat.Node].addSeat(seat)
		}
	}
	given := map[string]*nodeUse{} // what the plan gives there
	for i := range t.plan.Place {
		run, _ := t.state.Run(t.plan.Place[i].Job)
		for k := range t.plan.Place[i].Seats {
			seat := &t.plan.Place[i].Seats[k]
			if isNominatedSeat(run.Nominated, seat) {
				continue
			}
			if given[seat.Node] == nil {
				given[seat.Node] = t.emptyNode(seat.Node)
			}
			given[seat.Node].addSeat(beyondNomination(run.Nominated, seat))
		}
	}
	for id, g := range given { // order-free: any broken law will do
		if k, m := keep[id], t.nodes[id]; k != nil && m != nil {
			if err := m.checkLeavesFree(g, k); err != nil {
				return fmt.Errorf("node %s: %w", id, err)
			}
		}
	}
	return nil
}

// isNominatedByPlan says whether it is this plan that keeps seats for a job.
func (t *checker) isNominatedByPlan(id ares.JobID) bool {
	return slices.ContainsFunc(t.plan.Nominate, func(n ares.Nominating) bool { return n.Job == id })
}

// wholeShares is what of a seat nobody else can have a part of. Of the rest of what is
// kept by this very plan, others may have had theirs before, and those who give
// way leave enough.
func wholeShares(seat *ares.Seat) *ares.Seat {
	out := &ares.Seat{Node: seat.Node, Rank: seat.Rank, NUMA: -1}
	for _, sh := range seat.Shares {
		if sh.Milli == 1000 {
			out.Shares = append(out.Shares, sh)
		}
	}
	return out
}

// beyondNomination is what a seat takes of a node's cores and memory beyond what was kept
// there for who is given it.
func beyondNomination(n *ares.Nomination, seat *ares.Seat) *ares.Seat {
	out := *seat
	if n == nil {
		return &out
	}
	for i := range n.Seats {
		if k := &n.Seats[i]; k.Node == seat.Node && k.Rank == seat.Rank {
			out.CPUs, out.Memory = max(out.CPUs-k.CPUs, 0), max(out.Memory-k.Memory, 0)
		}
	}
	return &out
}

// isNominatedSeat says whether a seat is one of those that were kept for who is given it.
func isNominatedSeat(n *ares.Nomination, seat *ares.Seat) bool {
	return n != nil && slices.ContainsFunc(n.Seats, func(k ares.Seat) bool {
		return k.Node == seat.Node && k.Rank == seat.Rank && slices.Equal(k.Shares, seat.Shares)
	})
}

// emptyNode is a node on which nothing is counted yet.
func (t *checker) emptyNode(id string) *nodeUse {
	if m := t.nodes[id]; m != nil {
		return newNodeUse(m.NodeView)
	}
	return newNodeUse(engine.NodeView{Node: &ares.Node{ID: id}})
}

// checkLeavesFree wants what is given to leave what is kept of what is free.
func (m *nodeUse) checkLeavesFree(given, keep *nodeUse) error {
	for device, milli := range given.milliByDevice { // order-free: any broken law will do
		free := 1000 - m.milliByDevice[device]
		if milli > free-min(free, keep.milliByDevice[device]) {
			return fmt.Errorf("%d/1000 of device %s are given, of which %d/1000 are free and %d/1000 kept", milli, device, free, keep.milliByDevice[device])
		}
	}
	if free := max(m.Node.CPUs-m.cpus, 0); given.cpus > 0 && given.cpus > free-min(free, keep.cpus) {
		return fmt.Errorf("%d cores are given, of which %d are free and %d kept", given.cpus, free, keep.cpus)
	}
	if free := max(m.Node.MemoryMB-m.memory, 0); given.memory > 0 && given.memory > free-min(free, keep.memory) {
		return fmt.Errorf("%d MB are given, of which %d are free and %d kept", given.memory, free, keep.memory)
	}
	return nil
}
