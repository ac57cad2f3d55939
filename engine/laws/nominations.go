package laws

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// checkNominations checks each nomination: the job waits, it has the right
// number of seats, and its victims are described as they are. Only victims of a
// nomination may be preempted.
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

// nominationAfterPlan returns the nomination of a job once the plan is written,
// nil for none.
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

// checkNomination checks one new nomination.
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
			return fmt.Errorf("%s is preempted for %s of %s", v.Job, v.Yield.To, v.Yield.Tenant)
		case v.Yield.Asked != asked || v.Yield.Milli != attemptMilli(a):
			return fmt.Errorf("%s gives up %d/1000 for %d/1000, it says %d for %d", v.Job, attemptMilli(a), asked, v.Yield.Milli, v.Yield.Asked)
		case v.Yield.Lost < 0:
			return fmt.Errorf("%s gains %d by its preemption", v.Job, -v.Yield.Lost)
		}
	}
	return nil
}

// seatMilli returns the devices of seats, in thousandths.
func seatMilli(seats []ares.Seat) (sum int64) {
	for i := range seats {
		for _, sh := range seats[i].Shares {
			sum += int64(sh.Milli)
		}
	}
	return sum
}

// attemptMilli returns the devices that an attempt holds, in thousandths.
func attemptMilli(a *ares.Attempt) (sum int64) {
	for i := range a.Seats {
		if !a.Seats[i].State.Free() {
			sum += seatMilli([]ares.Seat{a.Seats[i].Seat})
		}
	}
	return sum
}

// checkNominatedSeats checks that free capacity on nominated seats is given to
// no other job: placements of the plan use at most what is left on each device
// and node. Nominations of this plan follow placements of earlier jobs and are
// not checked.
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

// isNominatedByPlan reports whether this plan nominates seats for a job.
func (t *checker) isNominatedByPlan(id ares.JobID) bool {
	return slices.ContainsFunc(t.plan.Nominate, func(n ares.Nominating) bool { return n.Job == id })
}

// wholeShares returns the seat with only its whole devices. Other jobs may have
// been given parts of the rest earlier in the same plan, and victims leave
// enough of it.
func wholeShares(seat *ares.Seat) *ares.Seat {
	out := &ares.Seat{Node: seat.Node, Rank: seat.Rank, NUMA: -1}
	for _, sh := range seat.Shares {
		if sh.Milli == 1000 {
			out.Shares = append(out.Shares, sh)
		}
	}
	return out
}

// beyondNomination returns the seat with only the cores and memory that exceed
// the job's own nomination.
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

// isNominatedSeat reports whether a seat is part of a nomination.
func isNominatedSeat(n *ares.Nomination, seat *ares.Seat) bool {
	return n != nil && slices.ContainsFunc(n.Seats, func(k ares.Seat) bool {
		return k.Node == seat.Node && k.Rank == seat.Rank && slices.Equal(k.Shares, seat.Shares)
	})
}

// emptyNode returns a node without any use.
func (t *checker) emptyNode(id string) *nodeUse {
	if m := t.nodes[id]; m != nil {
		return newNodeUse(m.NodeView)
	}
	return newNodeUse(engine.NodeView{Node: &ares.Node{ID: id}})
}

// checkLeavesFree checks that given leaves the reserved amount of what is free.
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
