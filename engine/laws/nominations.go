package laws

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// checkNominations checks each nomination. The nominated job must be waiting, and its nomination must have the
// right number of seats and describe the victims correctly. Only victims of a nomination may be preempted.
func checkNominations(t *checker) error {
	for i := range t.plan.Nominate {
		n := &t.plan.Nominate[i]
		if err := t.checkNomination(n); err != nil {
			return fmt.Errorf("the nomination of %s: %w", n.Job, err)
		}
	}
	for _, w := range t.plan.Withdraw {
		if run, ok := t.state.Run(w.Job); !ok || run.Nominated == nil {
			return fmt.Errorf("the plan withdraws the nomination of %s, but that job has no nomination", w.Job)
		}
	}
	for i := range t.plan.Stop {
		y := t.plan.Stop[i].Stop.Preemption
		if y == nil {
			continue
		}
		n := t.nominationAfterPlan(y.To)
		if n == nil || !slices.ContainsFunc(n.Victims, func(v ares.Victim) bool { return v.Job == t.plan.Stop[i].Job && v.Preemption == *y }) {
			return fmt.Errorf("%[1]s is preempted for %[2]s, but the nomination of %[2]s does not list %[1]s as a victim", t.plan.Stop[i].Job, y.To)
		}
	}
	return nil
}

// nominationAfterPlan returns the nomination of a job after the plan is written, or nil if there is none.
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
		return fmt.Errorf("the nominated job either does not exist or is an array")
	}
	run, stored := t.state.Run(n.Job)
	if stored && (run.Phase != ares.Pending || run.Stop != nil || !run.Settled()) {
		return fmt.Errorf("the job is %s, but only a waiting job may be nominated", run.Phase)
	}
	if k := len(n.Nomination.Seats); k == 0 || k > max(job.Members, 1) || k < job.MinMembers {
		return fmt.Errorf("%d members are nominated, but the job needs %d to %d", k, job.MinMembers, job.Members)
	}
	asked := seatMilli(n.Nomination.Seats)
	for i := range n.Nomination.Victims {
		v := &n.Nomination.Victims[i]
		victim, known := t.state.Run(v.Job)
		a := victim.Current()
		switch {
		case !known || a == nil || a.Fence != v.Fence || v.Job == n.Job:
			return fmt.Errorf("the victim %s has no running attempt with fence %d", v.Job, v.Fence)
		case v.Preemption.To != n.Job || v.Preemption.Tenant != job.Tenant:
			return fmt.Errorf("victim %s is recorded as preempted for job %s of tenant %s, but the nomination is for job %s of tenant %s", v.Job, v.Preemption.To, v.Preemption.Tenant, n.Job, job.Tenant)
		case v.Preemption.Asked != asked || v.Preemption.Milli != attemptMilli(a):
			return fmt.Errorf("the preemption record of victim %s is wrong: computed allocated=%d requested=%d, recorded allocated=%d requested=%d (unit: thousandths of a device)", v.Job, attemptMilli(a), asked, v.Preemption.Milli, v.Preemption.Asked)
		case v.Preemption.Lost < 0:
			return fmt.Errorf("the lost work of victim %s is negative: %d", v.Job, v.Preemption.Lost)
		}
	}
	return nil
}

// seatMilli returns how many devices the seats have, in thousandths of a device.
func seatMilli(seats []ares.Seat) (sum int64) {
	for i := range seats {
		for _, sh := range seats[i].Shares {
			sum += int64(sh.Milli)
		}
	}
	return sum
}

// attemptMilli returns how many devices an attempt holds, in thousandths of a device.
func attemptMilli(a *ares.Attempt) (sum int64) {
	for i := range a.Seats {
		if !a.Seats[i].State.Free() {
			sum += seatMilli([]ares.Seat{a.Seats[i].Seat})
		}
	}
	return sum
}

// checkNominatedSeats checks that no other job gets the free capacity of nominated seats. On each device and node,
// the placements of the plan may use only capacity that is not nominated. Nominations of this plan are ignored,
// because the plan may place jobs before it makes a nomination.
func checkNominatedSeats(t *checker) error {
	placed := map[ares.JobID]bool{}
	for i := range t.plan.Place {
		placed[t.plan.Place[i].Job] = true
	}
	keep := map[string]*nodeUse{} // the amounts held on each node
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
	given := map[string]*nodeUse{} // the amounts that the plan allocates there
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
	for id, g := range given { // order-free: any violation is enough
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

// wholeShares returns a copy of the seat that has only the seat's whole devices. Other resources of the seat are
// not compared. Earlier placements of the same plan may use them, and the victims free enough of them.
func wholeShares(seat *ares.Seat) *ares.Seat {
	out := &ares.Seat{Node: seat.Node, Rank: seat.Rank, NUMA: -1}
	for _, sh := range seat.Shares {
		if sh.Milli == 1000 {
			out.Shares = append(out.Shares, sh)
		}
	}
	return out
}

// beyondNomination returns the part of a seat that exceeds the job's nomination. It subtracts the CPUs and
// memory that the nomination already holds for the same rank on the same node.
func beyondNomination(n *ares.Nomination, seat *ares.Seat) *ares.Seat {
	out := *seat
	if n == nil {
		return &out
	}
	for i := range n.Seats {
		if k := &n.Seats[i]; k.Node == seat.Node && k.Rank == seat.Rank {
			out.SetMilliCPUs(max(out.MilliCPUs()-k.MilliCPUs(), 0))
			out.Memory = max(out.Memory-k.Memory, 0)
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

// emptyNode returns a node without allocations.
func (t *checker) emptyNode(id string) *nodeUse {
	if m := t.nodes[id]; m != nil {
		return newNodeUse(m.NodeView)
	}
	return newNodeUse(engine.NodeView{Node: &ares.Node{ID: id}})
}

// checkLeavesFree checks that the allocations on a node leave the held amounts free.
func (m *nodeUse) checkLeavesFree(given, keep *nodeUse) error {
	for device, milli := range given.milliByDevice { // order-free: any violation is enough
		free := 1000 - m.milliByDevice[device]
		if milli > free-min(free, keep.milliByDevice[device]) {
			return fmt.Errorf("the plan leaves too little of device %[2]s for nominated jobs: they need %[4]d thousandths, %[3]d thousandths are free, and the plan allocates %[1]d thousandths to other jobs", milli, device, free, keep.milliByDevice[device])
		}
	}
	if free := max(m.Node.MilliCPUs()-m.cpus, 0); given.cpus > 0 && given.cpus > free-min(free, keep.cpus) {
		return fmt.Errorf("the plan leaves too few cores for nominated jobs: they need %[3]s cores, %[2]s cores are free, and the plan allocates %[1]s cores to other jobs", ares.FormatCPUs(given.cpus), ares.FormatCPUs(free), ares.FormatCPUs(keep.cpus))
	}
	if free := max(m.Node.MemoryMB-m.memory, 0); given.memory > 0 && given.memory > free-min(free, keep.memory) {
		return fmt.Errorf("the plan leaves too little memory for nominated jobs: they need %[3]d MB, %[2]d MB are free, and the plan allocates %[1]d MB to other jobs", given.memory, free, keep.memory)
	}
	return nil
}
