package preempt

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"

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
func (pr *Round) findConsolidation(e *job.Entry, plan *ares.Plan) (victimSelection, bool) {
	now := plan.Now
	if !pr.AllowMoves || pr.consolidationTries >= maxConsolidations || !e.Shape.Request.NeedsDevices() || pr.Jobs.MigrationPending(now) ||
		len(pr.Jobs.Running.Nominated)+len(plan.Nominate) >= config.MaxNominations {
		return victimSelection{}, false
	}
	members, ban := pr.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || !pr.hasScatteredCapacity(e.Shape, ban) {
		return victimSelection{}, false
	}
	pr.consolidationTries++
	was := pr.Backfill.HeldReservations
	wait, foreseen := pr.expectedWait(e, members, ban, now)
	pr.Backfill.HoldReservations(1<<len(pr.Backfill.Reservations) - 1) // nobody goes where one ahead of him has a reservation
	c, ok := pr.findMovers(e, ban, plan)
	pr.Backfill.HoldReservations(was)
	if !ok {
		return victimSelection{}, false
	}
	c.wait, c.waitKnown = max(wait-c.longestGrace(), 0), foreseen
	if lost, _ := c.cost(); !pr.Cfg.Preemption.IsWorth(c.gain(), lost) {
		pr.notePreemption("moving %s would make room: that costs %s GPU-seconds and gains %s, and it takes %s times what it costs",
			CountJobs(len(c.victims)), decimalText(int(lost)), decimalText(int(c.gain())), decimalText(pr.Cfg.Preemption.MoveGain))
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
		longest = max(longest, v.entry.Job.Grace())
	}
	return longest
}

// gain is what a waiting job gains that starts so much sooner, in thousandths of
// GPU-seconds.
func (c *victimSelection) gain() int64 { return job.GPUMilliOf(c.seats) * int64(c.wait/time.Second) }

// wakeWhenWorth wakes the plan when a job will have waited for long enough to be worth
// what moving others costs today. That grows too, so it is asked anew then.
func (pr *Round) wakeWhenWorth(e *job.Entry, c *victimSelection, plan *ares.Plan) {
	lost, _ := c.cost()
	needs := c.longestGrace() + time.Duration(lost*int64(pr.Cfg.Preemption.MoveGain)/(cluster.WholeMilli*max(job.GPUMilliOf(c.seats), 1))+1)*time.Second
	if in := needs - e.Waited(plan.Now); needs < longestWait {
		job.WakeBy(plan, plan.Now.Add(max(in, time.Minute)))
	}
}

// hasScatteredCapacity says whether there are as many free devices as the shape asks for.
func (pr *Round) hasScatteredCapacity(sh *job.Shape, ban uint64) bool {
	w := pr.Cluster.WithoutModels(sh.Request, ban)
	reach, ok := pr.Place.FeasibleNodes(sh, w)
	if !ok || pr.Cluster.ExceedsLeafLimit(w) {
		return false
	}
	lack := sh.MinGPUMilli()
	for at := reach.Next(0); at >= 0 && lack > 0; at = reach.Next(at + 1) {
		n := pr.Cluster.Nodes[at]
		if !n.Schedulable() {
			continue
		}
		mask := w.DeviceMask(n.Type) & n.Usable
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
func (pr *Round) expectedWait(e *job.Entry, members int, ban uint64, now time.Time) (wait time.Duration, foreseen bool) {
	pr.Backfill.HoldReservations(0)
	m := pr.Txn.Mark()
	pr.Place.Speculative = true
	pr.Backfill.AssumePlanned(now)
	r, ok := pr.Backfill.EarliestStart(e, members, ban, now)
	pr.Txn.Undo(m)
	pr.Backfill.DropPlanned()
	pr.Place.Speculative = false
	if !ok || r.At == job.NoEnd {
		return min(max(assumedWait, e.Waited(now)), longestWait), false
	}
	return min(time.Duration(r.At-now.UnixNano()), longestWait), true
}

// findMovers are those who are moved for a job at the least loss.
func (pr *Round) findMovers(e *job.Entry, ban uint64, plan *ares.Plan) (victimSelection, bool) {
	base := pr.Txn.Mark()
	pr.Place.Speculative = true
	pr.assumeStopsDone()
	pr.Windows.SetExpectedStay(e)
	defer func() {
		pr.chargeStopping(1)
		pr.Txn.Undo(base)
		pr.Place.Speculative = false
	}()
	if _, soon := pr.fitsOnceStopped(e, ares.YieldMove, plan.Now); soon {
		return victimSelection{}, false // others leave already
	}
	h := &victimSearch{
		round: pr, entry: e, sh: e.Shape, now: plan.Now, rank: e.Rank(), base: pr.Txn.Mark(),
		ancestry: pr.preemptorAncestry(e, plan), barred: pr.barredJobs(0), stuck: map[*job.Entry]bool{},
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
	return v.protection == unprotected && e.MayBePreempted() && !e.Run.Current().StartedAt.IsZero() &&
		len(e.Shape.Affinity)+len(e.Shape.AntiAffinity) == 0 && !h.stuck[e]
}

// leafCharge is what was counted for a leaf, to be counted back.
type leafCharge struct {
	leaf  *job.QueueLeaf
	grant queue.Allocation
	sign  int
}

// relocateVictims finds another place for each of those who are to move, with the waiting
// job on its seats. If one finds none it is noted, and stays.
func (h *victimSearch) relocateVictims(c *victimSelection) bool {
	var counted []leafCharge
	charge := func(l *job.QueueLeaf, g queue.Allocation, sign int) {
		l.Charge(g, sign)
		counted = append(counted, leafCharge{l, g, sign})
	}
	defer func() {
		for _, k := range counted {
			k.leaf.Charge(k.grant, -k.sign)
		}
		h.round.Txn.Undo(h.base)
	}()
	h.round.Txn.Undo(h.base)
	c.destinations = map[*candidateVictim][]ares.Seat{}
	for _, v := range c.victims {
		h.round.Place.ReleaseJob(v.entry)
		charge(v.entry.Shape.Leaf, v.entry.Held.Grant, -1)
	}
	h.round.Txn.TakeSeats(c.seats)
	charge(h.sh.Leaf, h.round.Jobs.GrantCopy(h.sh, c.seats), 1)
	// The largest find a place the hardest.
	slices.SortFunc(c.victims, func(a, b *candidateVictim) int { return cmp.Or(cmp.Compare(b.milli, a.milli), byCost(a, b)) })
	for _, v := range c.victims {
		sh, has := v.entry.Shape, len(v.entry.Run.Current().Seats)
		members, ban := h.round.Jobs.AdmissibleMembers(sh, h.now)
		p, ok := ares.Placing{}, false
		if members >= has {
			p, ok = h.round.Place.PlaceJob(sh, has, ban, v.entry)
		}
		if !ok || len(p.Seats) < has {
			h.stuck[v.entry] = true
			return false
		}
		charge(sh.Leaf, h.round.Jobs.GrantCopy(sh, p.Seats), 1)
		c.destinations[v] = p.Seats
	}
	return true
}

// recordConsolidation notes a consolidation for who asks, and keeps the places of those who are
// moved from everybody behind in this decision.
func (pr *Round) recordConsolidation(e *job.Entry, c *victimSelection) {
	lost, _ := c.cost()
	out := ares.Consolidation{
		For: e.ID, Tenant: e.Job.Tenant, Seats: c.seats, Wait: c.wait, Foreseen: c.waitKnown, Gain: c.gain(), Lost: lost,
	}
	for _, v := range c.victims {
		m := ares.Move{Job: v.entry.ID, Tenant: v.entry.Job.Tenant, To: c.destinations[v], Milli: v.milli, Lost: v.cost}
		for i := range v.entry.Run.Current().Seats {
			m.From = append(m.From, v.entry.Run.Current().Seats[i].Seat)
		}
		out.Moves = append(out.Moves, m)
		k := backfill.NominationHold{Entry: v.entry, Seats: c.destinations[v]}
		k.Hold, k.FreeSeats = pr.Txn.HoldSeats(k.Seats)
		pr.destinations = append(pr.destinations, k)
	}
	if pr.ConsolidationsFound != nil {
		pr.ConsolidationsFound = append(pr.ConsolidationsFound, out)
	}
}
