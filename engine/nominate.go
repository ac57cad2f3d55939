package engine

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// nominationHold is a nomination in one decision: its seats, and what of them is free
// and so held, in order that nobody else is given it.
type nominationHold struct {
	entry     *entry
	seats     []ares.Seat
	until     time.Time // its seats are free by then, or given up
	held      []delta
	freeSeats int              // seats of which all is held
	grant     queue.Allocation // counts for limits and quotas meanwhile, and for no share
	over      bool             // it has its place, or was given up: nothing is held
	invalid   string           // why it was given up
}

// advanceNominations looks after every nomination before anybody has his turn. Who finds
// his seats free is placed there. Who cannot have them any more gives them up,
// and has his turn as any other.
// For the others what is free is held, and those who are still to give way are
// stopped. One job may be left out. What it counts for leaves is taken back by letGo.
func (pr *preemptRound) advanceNominations(plan *ares.Plan, but *entry, tell func(*entry, *ares.Placing, bool) bool) (more bool) {
	more = true
	for _, e := range pr.jobs.running.nominated {
		if e == but || e.queue != inPending || pr.jobs.arrayIsStopping(e) {
			continue // an event will say what becomes of it
		}
		n := e.run.Nominated
		k := nominationHold{entry: e, seats: n.Seats, until: n.Until, over: true}
		why := pr.invalidReason(e, plan.Now)
		m := savepoint(len(pr.txn.deltas))
		free := why == "" && more && pr.txn.takeIfFree(n.Seats)
		if free && !pr.jobs.admitsSeats(e.shape, n.Seats, plan.Now) {
			// Those who are on their way out may hold what it lacks elsewhere. Were
			// the seats given up, it or another would have them kept again at once.
			pr.txn.undo(m)
			free = false
		}
		switch {
		case why != "":
			k.invalid = why
		case free:
			k.grant = pr.jobs.grantCopy(e.shape, n.Seats)
			e.shape.leaf.Charge(k.grant, 1)
			pr.place.offer = ares.Placing{Job: e.id, Seats: n.Seats, Score: pr.cluster.pairScore(n.Seats), Merit: pr.cluster.rationaleOf(n.Seats)}
			pr.place.placed = append(pr.place.placed, placedJob{e, n.Seats})
			more = tell == nil || tell(e, &pr.place.offer, true)
		default:
			k.over = false
			k.grant = pr.jobs.grantCopy(e.shape, n.Seats)
			k.grant.ForShare = queue.Resources{}
			e.shape.leaf.Charge(k.grant, 1)
			k.held, k.freeSeats = pr.txn.holdSeats(n.Seats)
			pr.stopPendingVictims(plan, e)
			wakeBy(plan, n.Until)
		}
		pr.backfill.holds = append(pr.backfill.holds, k)
		pr.backfill.holdsBefore = len(pr.backfill.holds)
	}
	return more
}

// wakeBy has the next decision made at a time at the latest.
func wakeBy(plan *ares.Plan, at time.Time) {
	if plan.Wake.IsZero() || at.Before(plan.Wake) {
		plan.Wake = laterOf(at, plan.Now)
	}
}

// releaseNominations takes back what upholding has counted.
func (pr *preemptRound) releaseNominations() {
	for i := range pr.backfill.holds[:pr.backfill.holdsBefore] {
		k := &pr.backfill.holds[i]
		k.entry.shape.leaf.Charge(k.grant, -1)
	}
	clear(pr.backfill.holds)
	pr.backfill.holds, pr.backfill.holdsBefore = pr.backfill.holds[:0], 0
}

// holdOf is the nomination of a job in this decision, nil for none.
func (pr *preemptRound) holdOf(e *entry) *nominationHold {
	for i := len(pr.backfill.holds) - 1; i >= 0; i-- { // one that was spoilt may have another by now
		if pr.backfill.holds[i].entry == e {
			return &pr.backfill.holds[i]
		}
	}
	return nil
}

// withdrawFailed writes down which nominations are over without their jobs having a
// place, or other seats.
func (pr *preemptRound) withdrawFailed(plan *ares.Plan) {
	for i := range pr.backfill.holds[:pr.backfill.holdsBefore] {
		k := &pr.backfill.holds[i]
		if k.invalid == "" || slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == k.entry.id }) ||
			slices.ContainsFunc(plan.Nominate, func(n ares.Nominating) bool { return n.Job == k.entry.id }) {
			continue
		}
		plan.Withdraw = append(plan.Withdraw, ares.Withdrawing{Job: k.entry.id, Why: k.invalid})
	}
}

// invalidReason says why a nomination has to be given up, "" when it has not.
func (pr *preemptRound) invalidReason(e *entry, now time.Time) string {
	n := e.run.Nominated
	switch {
	case !now.Before(n.Until):
		return "they were not free in time"
	case pr.cluster.topology.Revision > e.run.Revision:
		return "the topology has changed"
	}
	pr.windows.setWindowTime(now)
	pr.windows.setExpectedStay(e)
	f := pr.cluster.refreshFeasible(e.shape.request)
	for i := range n.Seats {
		seat := &n.Seats[i]
		at := pr.cluster.nodesByID[seat.Node]
		if at == nil || !at.schedulable() {
			return "node " + seat.Node + " takes no jobs any more"
		}
		if !f.nodes.has(at.pos) {
			return "node " + seat.Node + " is not what it asks for any more"
		}
		if v := pr.windows.windowBlocking(e.shape, at); v != nil {
			return fmt.Sprintf("node %s is %s", seat.Node, pr.windows.blockText(v))
		}
		for k := range seat.Shares {
			if d := at.deviceIndex(&seat.Shares[k]); d < 0 || at.usable&(1<<d) == 0 {
				return fmt.Sprintf("device %s of node %s cannot be used any more", seat.Shares[k].Device, seat.Node)
			}
		}
	}
	for i := range n.Victims {
		if v := pr.pendingVictim(&n.Victims[i]); v != nil && v.run.Endures(v.job) {
			return "one that was to give way has begun and must not be stopped" // it may be another tenant's
		}
	}
	return ""
}

// pendingVictim is the victim of a nomination that has not been asked to stop yet, nil
// when it has, or is gone already.
func (pr *preemptRound) pendingVictim(v *ares.Victim) *entry {
	e := pr.jobs.entryByID[v.Job]
	if e == nil || e.job == nil || e.run == nil || e.run.Fence() != v.Fence || e.run.Stop != nil {
		return nil
	}
	return e
}

// stopPendingVictims stops those of a nomination that are still to be: one plan may not have
// held them all.
func (pr *preemptRound) stopPendingVictims(plan *ares.Plan, e *entry) {
	for i := range e.run.Nominated.Victims {
		v := &e.run.Nominated.Victims[i]
		if o := pr.pendingVictim(v); o != nil && !pr.stopVictim(plan, o, v.Yield) {
			return
		}
	}
}

// stopVictim has a job give way by this plan. It is false when the plan is full.
func (pr *preemptRound) stopVictim(plan *ares.Plan, v *entry, y ares.Yield) bool {
	if slices.Contains(pr.stopping, v) || pr.jobs.arrayIsStopping(v) {
		return true
	}
	if len(plan.Stop) >= MaxPlacings {
		plan.Wake = plan.Now
		return false
	}
	pr.stopping = append(pr.stopping, v)
	plan.Stop = append(plan.Stop, ares.Stopping{Job: v.id, Stop: ares.Stop{Why: ares.StopPreempt, By: "job " + string(y.To), At: plan.Now, Yield: &y}})
	return true
}

// takeIfFree takes seats if all of them are free, and else nothing.
func (x *Txn) takeIfFree(seats []ares.Seat) bool {
	m := savepoint(len(x.deltas))
	for i := range seats {
		if !x.cluster.nodesByID[seats[i].Node].seatIsFree(&seats[i]) {
			x.undo(m)
			return false
		}
		x.takeSeats(seats[i : i+1])
	}
	return true
}

// seatIsFree says whether the seat is free on the node.
func (n *node) seatIsFree(seat *ares.Seat) bool {
	if n == nil || !n.schedulable() || n.seats >= MaxSeats || n.typ.cpus-n.cpus < seat.CPUs || n.record.MemoryMB-n.memory < seat.Memory {
		return false
	}
	for i := range seat.Shares {
		d := n.deviceIndex(&seat.Shares[i])
		if d < 0 || n.usable&(1<<d) == 0 || WholeMilli-n.devices[d].taken < seat.Shares[i].Milli {
			return false
		}
	}
	return seat.NUMA < 0 || n.numaHasRoom(seat)
}

// holdSeats takes what is free of seats, and says what that was, and of how many
// it is all.
func (x *Txn) holdSeats(seats []ares.Seat) (held []delta, free int) {
	from := len(x.deltas)
	for i := range seats {
		seat := &seats[i]
		n := x.cluster.nodesByID[seat.Node]
		if n == nil || !n.schedulable() {
			continue
		}
		if n.seatIsFree(seat) {
			free++
		}
		for k := range seat.Shares {
			d := n.deviceIndex(&seat.Shares[k])
			if d < 0 {
				continue
			}
			if some := min(seat.Shares[k].Milli, WholeMilli-n.devices[d].taken); some > 0 {
				x.take(delta{node: n, device: d, milli: some})
			}
		}
		cpus, memory := max(min(seat.CPUs, n.typ.cpus-n.cpus), 0), max(min(seat.Memory, n.record.MemoryMB-n.memory), 0)
		x.take(delta{node: n, device: restOfSeat, cpus: cpus, memory: memory, numa: seat.NUMA, kind: kindOfSeat(seat)})
		x.cluster.capacityChanged(n)
	}
	return slices.Clone(x.deltas[from:]), free
}

// releaseHold gives up what is held for a nomination, until the try goes back.
func (x *Txn) releaseHold(k *nominationHold) {
	for _, h := range k.held {
		h.milli, h.cpus, h.memory = -h.milli, -h.cpus, -h.memory
		if h.device == restOfSeat {
			h.device = restOfLeaving
		}
		if x.take(h); h.device < 0 {
			x.cluster.capacityChanged(h.node)
		}
	}
}

// placeElsewhere places a job for which seats are kept somewhere else, if it fits
// there now. What is held for it counts as free.
func (pr *preemptRound) placeElsewhere(pass *queue.Round[*entry], k *nominationHold, now time.Time) bool {
	sh, m := k.entry.shape, savepoint(len(pr.txn.deltas))
	pr.place.speculative = true
	defer func() { pr.place.speculative = false }()
	pr.txn.releaseHold(k)
	pass.ChargeOutOfTurn(sh.leaf, k.grant, -1)
	ok := false
	if members, ban := pr.jobs.admissibleMembers(sh, now); members >= len(k.seats) {
		pr.scorer.drawForJob(k.entry.id, 0)
		pr.place.offer, ok = pr.place.placeJob(sh, members, ban, k.entry)
	}
	if !ok || len(pr.place.offer.Seats) < len(k.seats) {
		pr.txn.undo(m)
		pass.ChargeOutOfTurn(sh.leaf, k.grant, 1)
		return false
	}
	k.over = true
	pr.place.offer.Job = k.entry.id
	pr.place.placed = append(pr.place.placed, placedJob{k.entry, pr.place.offer.Seats})
	return true
}

// admitsSeats says whether a job may have these seats, by all that does not ask for
// room: what it waits for, its budget, limits and quotas.
func (j *jobTable) admitsSeats(sh *shape, seats []ares.Seat, now time.Time) bool {
	if sh.tenant.record == nil || j.overBudget(sh.tenant, now) || slices.ContainsFunc(sh.after, func(id ares.JobID) bool { return !j.dependencySucceeded(id) }) {
		return false
	}
	return sh.leaf.IsUnrestricted() || len(sh.leaf.CheckAdmission(j.grantOf(sh, seats))) == 0
}

// grantCopy is grantOf for who keeps it.
func (j *jobTable) grantCopy(sh *shape, seats []ares.Seat) queue.Allocation {
	g := j.grantOf(sh, seats)
	g.ForQuotas = slices.Clone(g.ForQuotas)
	return g
}

// rationaleOf is what speaks for seats that were chosen by an earlier decision.
func (c *Cluster) rationaleOf(seats []ares.Seat) ares.Merit {
	m := ares.Merit{Bandwidth: c.bottleneck(seats)}
	lo, hi := len(c.nodes), 0
	for i := range seats {
		at := c.nodesByID[seats[i].Node].pos
		lo, hi = min(lo, at), max(hi, at)
	}
	if lo == hi {
		m.Level, m.Domain = ares.LevelNode, c.nodes[lo].id
		return m
	}
	for _, level := range slices.Backward(ares.Levels()) {
		if from, to := c.domains.EnclosingDomain(lo, level); from <= lo && hi < to && level.Rank() < ares.LevelNode.Rank() {
			m.Level, m.Domain = level, c.domains.DomainName(lo, level)
			break
		}
	}
	return m
}

// waitBlocker says how far the seats that are kept for a job are free.
func (k *nominationHold) waitBlocker() ares.Blocker {
	return ares.Blocker{Kind: kindPreemption, Detail: fmt.Sprintf("others give way to it: %d of %d seats are free", k.freeSeats, len(k.seats))}
}

// hasHold says whether seats are kept for the job in this decision.
func (pr *preemptRound) hasHold(e *entry) bool {
	k := pr.holdOf(e)
	return k != nil && !k.over
}
