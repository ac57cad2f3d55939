package engine

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Consolidation: where there is room for a waiting job in all, but in no one
// place, running jobs that keep their progress are moved out of its way. Nobody is
// robbed: each of them has another place at once, by all rules, limits and quotas,
// or nobody is moved. Whose class is higher does not matter, only whether what is
// gained is worth what is lost.

// assumedWait is what a waiting job is reckoned to wait yet when nothing says when
// it could start, or as long as it has waited already if that is longer.
const assumedWait = 10 * time.Minute

// longestWait bounds what a reckoning counts of a wait.
const longestWait = 30 * 24 * time.Hour

// Limits on one decision: for so many shapes somebody to move is looked for, each
// time after leaving out somebody who found no other place, up to so often.
const (
	maxConsolidations = 4
	maxResettlings    = 8
)

// findConsolidation finds whom to move for a job that found no place. It is false when
// that is not worth it, or when there is nobody to move, or one is being moved
// already: one thing at a time, so that what was reckoned stays true.
func (pr *preemptRound) findConsolidation(e *entry, plan *ares.Plan) (victimSelection, bool) {
	now := plan.Now
	if !pr.allowMoves || pr.consolidationTries >= maxConsolidations || !e.shape.request.NeedsDevices() || pr.jobs.migrationPending(now) ||
		len(pr.jobs.running.nominated)+len(plan.Nominate) >= config.MaxNominations {
		return victimSelection{}, false
	}
	members, ban := pr.jobs.admissibleMembers(e.shape, now)
	if members == 0 || !pr.hasScatteredCapacity(e.shape, ban) {
		return victimSelection{}, false
	}
	pr.consolidationTries++
	was := pr.backfill.heldReservations
	wait, foreseen := pr.expectedWait(e, members, ban, now)
	pr.backfill.holdReservations(1<<len(pr.backfill.reservations) - 1) // nobody goes where one ahead of him has a reservation
	c, ok := pr.findMovers(e, ban, plan)
	pr.backfill.holdReservations(was)
	if !ok {
		return victimSelection{}, false
	}
	c.wait, c.waitKnown = max(wait-c.longestGrace(), 0), foreseen
	if lost, _ := c.cost(); !pr.cfg.Preemption.IsWorth(c.gain(), lost) {
		pr.notePreemption("moving %s would make room: that costs %s GPU-seconds and gains %s, and it takes %s times what it costs",
			countJobs(len(c.victims)), decimalText(int(lost)), decimalText(int(c.gain())), decimalText(pr.cfg.Preemption.MoveGain))
		if !foreseen {
			pr.wakeWhenWorth(e, &c, plan)
		}
		return victimSelection{}, false
	}
	return c, true
}

// longestGrace is the longest that one of the victims has to stop.
func (c *victimSelection) longestGrace() (longest time.Duration) {
	for _, v := range c.victims {
		longest = max(longest, v.entry.job.Grace())
	}
	return longest
}

// gain is what a waiting job gains that starts so much sooner, in thousandths of
// GPU-seconds.
func (c *victimSelection) gain() int64 { return gpuMilliOf(c.seats) * int64(c.wait/time.Second) }

// wakeWhenWorth wakes the plan when a job will have waited for long enough to be worth
// what moving others costs today. That grows too, so it is asked anew then.
func (pr *preemptRound) wakeWhenWorth(e *entry, c *victimSelection, plan *ares.Plan) {
	lost, _ := c.cost()
	needs := c.longestGrace() + time.Duration(lost*int64(pr.cfg.Preemption.MoveGain)/(cluster.WholeMilli*max(gpuMilliOf(c.seats), 1))+1)*time.Second
	if in := needs - e.waited(plan.Now); needs < longestWait {
		wakeBy(plan, plan.Now.Add(max(in, time.Minute)))
	}
}

// hasScatteredCapacity says whether there are as many free devices as the shape asks for.
func (pr *preemptRound) hasScatteredCapacity(sh *shape, ban uint64) bool {
	w := pr.cluster.WithoutModels(sh.request, ban)
	reach, ok := pr.place.feasibleNodes(sh, w)
	if !ok || pr.cluster.ExceedsLeafLimit(w) {
		return false
	}
	lack := sh.minGPUMilli()
	for at := reach.Next(0); at >= 0 && lack > 0; at = reach.Next(at + 1) {
		n := pr.cluster.Nodes[at]
		if !n.Schedulable() {
			continue
		}
		mask := w.DeviceMask(n.Typ) & n.Usable
		if w.Milli == 0 {
			lack -= int64(bits.OnesCount64(mask&n.Free)) * cluster.WholeMilli
			continue
		}
		for ; mask != 0; mask &= mask - 1 {
			lack -= int64(n.FreeMilliOf(bits.TrailingZeros64(mask)))
		}
	}
	return lack <= 0
}

// expectedWait is how long a job waits yet if nobody is moved.
func (pr *preemptRound) expectedWait(e *entry, members int, ban uint64, now time.Time) (wait time.Duration, foreseen bool) {
	pr.backfill.holdReservations(0)
	m := cluster.Savepoint(len(pr.txn.Deltas))
	pr.place.speculative = true
	pr.backfill.assumePlanned(now)
	r, ok := pr.backfill.earliestStart(e, members, ban, now)
	pr.txn.Undo(m)
	pr.backfill.dropPlanned()
	pr.place.speculative = false
	if !ok || r.at == noEnd {
		return min(max(assumedWait, e.waited(now)), longestWait), false
	}
	return min(time.Duration(r.at-now.UnixNano()), longestWait), true
}

// findMovers are those who are moved for a job at the least loss.
func (pr *preemptRound) findMovers(e *entry, ban uint64, plan *ares.Plan) (victimSelection, bool) {
	base := cluster.Savepoint(len(pr.txn.Deltas))
	pr.place.speculative = true
	pr.assumeStopsDone()
	pr.windows.setExpectedStay(e)
	defer func() {
		pr.chargeStopping(1)
		pr.txn.Undo(base)
		pr.place.speculative = false
	}()
	if _, soon := pr.fitsOnceStopped(e, ares.YieldMove, plan.Now); soon {
		return victimSelection{}, false // others leave already
	}
	h := &victimSearch{
		round: pr, entry: e, sh: e.shape, now: plan.Now, rank: e.rank(), base: cluster.Savepoint(len(pr.txn.Deltas)),
		ancestry: pr.preemptorAncestry(e, plan), barred: pr.barredJobs(0), stuck: map[*entry]bool{},
	}
	for range maxResettlings {
		stuck := len(h.stuck)
		if !h.markEligible(basisMove) {
			break
		}
		if h.searchSets(ban); h.best != nil || len(h.stuck) == stuck {
			break
		}
	}
	if h.best == nil {
		return victimSelection{}, false
	}
	h.best.why = ares.YieldMove
	return *h.best, true
}

// isMovable says whether a running job may be moved: it keeps its progress, nothing
// protects it, and it is bound to no other job.
func (h *victimSearch) isMovable(v *candidateVictim) bool {
	e := v.entry
	return v.protection == unprotected && e.mayBePreempted() && !e.run.Current().StartedAt.IsZero() &&
		len(e.shape.affinity)+len(e.shape.antiAffinity) == 0 && !h.stuck[e]
}

// leafCharge is what was counted for a leaf, to be counted back.
type leafCharge struct {
	leaf  *queueLeaf
	grant queue.Allocation
	sign  int
}

// relocateVictims finds another place for each of those who are to move, with the waiting
// job on its seats. If one finds none it is noted, and stays.
func (h *victimSearch) relocateVictims(c *victimSelection) bool {
	var counted []leafCharge
	charge := func(l *queueLeaf, g queue.Allocation, sign int) {
		l.Charge(g, sign)
		counted = append(counted, leafCharge{l, g, sign})
	}
	defer func() {
		for _, k := range counted {
			k.leaf.Charge(k.grant, -k.sign)
		}
		h.round.txn.Undo(h.base)
	}()
	h.round.txn.Undo(h.base)
	c.destinations = map[*candidateVictim][]ares.Seat{}
	for _, v := range c.victims {
		h.round.place.releaseJob(v.entry)
		charge(v.entry.shape.leaf, v.entry.held.grant, -1)
	}
	h.round.txn.TakeSeats(c.seats)
	charge(h.sh.leaf, h.round.jobs.grantCopy(h.sh, c.seats), 1)
	// The largest find a place the hardest.
	slices.SortFunc(c.victims, func(a, b *candidateVictim) int { return cmp.Or(cmp.Compare(b.milli, a.milli), byCost(a, b)) })
	for _, v := range c.victims {
		sh, has := v.entry.shape, len(v.entry.run.Current().Seats)
		members, ban := h.round.jobs.admissibleMembers(sh, h.now)
		p, ok := ares.Placing{}, false
		if members >= has {
			p, ok = h.round.place.placeJob(sh, has, ban, v.entry)
		}
		if !ok || len(p.Seats) < has {
			h.stuck[v.entry] = true
			return false
		}
		charge(sh.leaf, h.round.jobs.grantCopy(sh, p.Seats), 1)
		c.destinations[v] = p.Seats
	}
	return true
}

// recordConsolidation notes a consolidation for who asks, and keeps the places of those who are
// moved from everybody behind in this decision.
func (pr *preemptRound) recordConsolidation(e *entry, c *victimSelection) {
	lost, _ := c.cost()
	out := ares.Consolidation{
		For: e.id, Tenant: e.job.Tenant, Seats: c.seats, Wait: c.wait, Foreseen: c.waitKnown, Gain: c.gain(), Lost: lost,
	}
	for _, v := range c.victims {
		m := ares.Move{Job: v.entry.id, Tenant: v.entry.job.Tenant, To: c.destinations[v], Milli: v.milli, Lost: v.cost}
		for i := range v.entry.run.Current().Seats {
			m.From = append(m.From, v.entry.run.Current().Seats[i].Seat)
		}
		out.Moves = append(out.Moves, m)
		k := nominationHold{entry: v.entry, seats: c.destinations[v]}
		k.held, k.freeSeats = pr.txn.HoldSeats(k.seats)
		pr.destinations = append(pr.destinations, k)
	}
	if pr.consolidationsFound != nil {
		pr.consolidationsFound = append(pr.consolidationsFound, out)
	}
}
