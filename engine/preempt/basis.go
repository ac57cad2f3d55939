package preempt

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// preemptionBasis are what a waiting job may stop others by.
type preemptionBasis uint8

const (
	basisClass preemptionBasis = 1 << iota // they are two classes below it or more
	basisQuota                             // they hold what its tenant was promised
	basisOrder                             // they come later in the configured order of its queue
	basisMove                              // they have another place at once
)

// why is the right as it is written down, the stronger of two.
func (r preemptionBasis) why() ares.YieldWhy {
	switch {
	case r&basisMove != 0:
		return ares.YieldMove
	case r&basisOrder != 0:
		return ares.YieldOrder
	case r&basisQuota != 0:
		return ares.YieldQuota
	}
	return ares.YieldClass
}

// maxSearches is for how many shapes one decision looks for victims, so that it
// stays short where many could have others stopped and none finds enough.
const maxSearches = 64

// PreemptFor has running jobs give way to one that found no place, if it has a right
// to that and then fits. The seats are kept for it from now on; it is placed by
// a later plan.
func (pr *Round) PreemptFor(pass *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, admitted bool) bool {
	found, ok := pr.findPreemption(plan, e, admitted)
	if ok {
		pr.nominate(pass, plan, e, &found)
	}
	return ok
}

// findPreemption finds who gives way to a job, and where it is to be then. A job
// whose place is on the way to be free already, because others are being stopped
// or are predicted to be done sooner than stopping anybody would take, has it
// kept and stops nobody. Where nobody gives way to one that has a right to it,
// the words say why.
func (pr *Round) findPreemption(plan *ares.Plan, e *job.Entry, admitted bool) (found victimSelection, ok bool) {
	sh := e.Shape
	pr.PreemptionNotes = nil
	if pr.Place.WouldDelay || pr.Place.WindowBlocked || e.IsArray() || len(sh.Affinity)+len(sh.AntiAffinity) > 0 { // of these those who leave may be what it wants to be near
		return found, false
	}
	if admitted {
		if found, ok = pr.findConsolidation(e, plan); ok {
			return found, true
		}
	}
	r, promised := pr.basisOf(e, admitted, plan.Now)
	if r == 0 && admitted {
		pr.noteDisabled(e)
	}
	if r == 0 || r&basisOrder == 0 && pr.knownToFail(sh, r, e.Rank()) {
		return found, false
	}
	if pr.restartPending() {
		pr.notePreemption("a gang that lost a node has its turn first: it may leave some of what it had")
		return found, false
	}
	if len(pr.Jobs.Running.Nominated)+len(plan.Nominate) >= config.MaxNominations {
		pr.notePreemption("seats are kept for %d jobs already, which is the most at once", config.MaxNominations)
		return found, false
	}
	if pr.searchedShapes++; pr.searchedShapes > maxSearches {
		return found, false
	}
	// Whoever's turn was before may have left other places held, or none.
	pr.Backfill.HoldReservations(pr.Backfill.DelayedReservations(e.EndsBy(plan.Now)))
	base := pr.Txn.Mark()
	pr.Place.Speculative = true
	pr.assumeStopsDone()
	pr.Windows.SetExpectedStay(e)
	switch found, ok = pr.fitsOnceStopped(e, r.why(), plan.Now); {
	case ok:
	case r&basisOrder != 0:
		found, ok = pr.victimsByOrder(e, plan)
	default:
		found, ok = pr.searchVictims(e, r, promised, plan)
	}
	pr.chargeStopping(1)
	pr.Txn.Undo(base)
	pr.Place.Speculative = false
	return found, ok
}

// victimSelection is who gives way to a job, and the seats it has then.
type victimSelection struct {
	why        ares.YieldWhy
	seats      []ares.Seat
	victims    []*candidateVictim
	freeWithin time.Duration // without victims: how soon those who are there will be gone

	wait         time.Duration // of a consolidation: how much sooner the job starts
	waitKnown    bool          // and whether that is known
	destinations map[*candidateVictim][]ares.Seat
}

// lost is what the choice costs, in thousandths of GPU-seconds, and milli what
// it stops, in thousandths of devices.
func (c *victimSelection) cost() (lost, milli int64) {
	for _, v := range c.victims {
		lost, milli = lost+v.cost, milli+v.milli
	}
	return lost, milli
}

// cheaper compares two choices: by what is lost, then by what is stopped.
func (c *victimSelection) cheaper(o *victimSelection) bool {
	al, am := c.cost()
	bl, bm := o.cost()
	return cmp.Or(cmp.Compare(al, bl), cmp.Compare(am, bm), cmp.Compare(len(c.victims), len(o.victims))) < 0
}

// notePreemption notes why nobody gives way to the job whose turn it is.
func (pr *Round) notePreemption(format string, args ...any) {
	pr.PreemptionNotes = append(pr.PreemptionNotes, ares.Blocker{Kind: ares.BlockerPreemption, Detail: fmt.Sprintf(format, args...)})
}

// basisOf is what a waiting job may stop others by, and the models that quotas
// promise it. One that its own limits or
// quotas keep waiting may stop only who has borrowed what they promise it.
func (pr *Round) basisOf(e *job.Entry, admitted bool, now time.Time) (out preemptionBasis, promised uint64) {
	switch record := e.Shape.Tenant.Record; {
	case record == nil:
		return 0, 0
	case admitted && pr.Cfg.Queue.Preempt:
		return basisOrder, 0
	case !pr.Cfg.Preemption.Enabled:
		return 0, 0
	case admitted && record.MayPreempt:
		for rank := range max(e.Rank()-1, 0) {
			if len(pr.Jobs.Running.Running[rank]) > 0 {
				out |= basisClass
			}
		}
	}
	if pr.Jobs.Queues.HasQuotas() {
		if promised = pr.Jobs.GuaranteedModels(e.Shape, admitted, now); promised != 0 {
			out |= basisQuota
		}
	}
	return out, promised
}

// noteDisabled says so where others would give way to a job by its class, but nobody
// may: people ask why an urgent job waits.
func (pr *Round) noteDisabled(e *job.Entry) {
	record := e.Shape.Tenant.Record
	off := !pr.Cfg.Preemption.Enabled
	if record == nil || !off && record.MayPreempt || e.Rank() < 2 {
		return
	}
	below := pr.Jobs.Running.Running[:e.Rank()-1]
	switch below := slices.ContainsFunc(below, func(list []*job.Entry) bool { return len(list) > 0 }); {
	case !below:
	case off:
		pr.notePreemption("nobody gives way to it: preemption is switched off (enable_preemption)")
	default:
		pr.notePreemption("nobody gives way to it: jobs of its tenant stop no others (allow_preemption)")
	}
}

// failedSearch is who is known to find no victims in this decision.
type failedSearch struct {
	request *cluster.Request
	shape   *job.Shape // by quota only those of the same leaf fare alike
	basis   preemptionBasis
	rank    int
}

// knownToFail says whether another with the same wish was found no victims in
// this decision. By class it does not matter whose it is.
func (pr *Round) knownToFail(sh *job.Shape, r preemptionBasis, rank int) bool {
	return slices.ContainsFunc(pr.failedSearches, func(v failedSearch) bool {
		return v.request == sh.Request && v.basis == r && v.rank >= rank && (v.shape == sh || r == basisClass && v.shape.AsksAlike(sh))
	})
}

// assumeStopsDone makes the state as it will be when those are gone who are being
// stopped, and those there for whom seats are kept. Discharge puts back what it
// counts for leaves, and the try the rest.
func (pr *Round) assumeStopsDone() {
	pr.chargeStopping(-1)
	for _, v := range pr.Jobs.Running.Stopping {
		pr.Place.ReleaseJob(v)
	}
	for _, v := range pr.Stopping {
		pr.Place.ReleaseJob(v)
	}
	for i := range pr.restartHolds { // what a drained one has left is kept for it only until it is gone
		if g := &pr.restartHolds[i]; !g.released && g.entry.RunningList == job.InStopping && g.entry.Run.Stop.Why == ares.StopDrain {
			pr.Txn.Release(g.hold)
		}
	}
	for i := range pr.Backfill.Holds {
		if k := &pr.Backfill.Holds[i]; !k.Over {
			pr.Txn.Release(k.Hold)
			pr.Txn.HoldSeats(k.Seats)
		}
	}
	pr.holdDestinations()
}

// chargeStopping counts what those hold who are being stopped, or with sign -1 counts
// it no more.
func (pr *Round) chargeStopping(sign int) {
	for _, v := range pr.Jobs.Running.Stopping {
		v.Shape.Leaf.Charge(v.Held.Grant, sign)
	}
	for _, v := range pr.Stopping {
		v.Shape.Leaf.Charge(v.Held.Grant, sign)
	}
}

// fitsOnceStopped finds the seats of a job that fits once those are gone who are being
// stopped.
func (pr *Round) fitsOnceStopped(e *job.Entry, why ares.YieldWhy, now time.Time) (victimSelection, bool) {
	if len(pr.Jobs.Running.Stopping)+len(pr.Stopping) == 0 {
		return victimSelection{}, false
	}
	members, ban := pr.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return victimSelection{}, false
	}
	m := pr.Txn.Mark()
	p, ok := pr.Place.PlaceJob(e.Shape, e.Shape.MinMembers, ban, e)
	pr.Txn.Undo(m)
	c := victimSelection{why: why, seats: p.Seats}
	for _, v := range pr.Jobs.Running.Stopping {
		c.freeWithin = max(c.freeWithin, maxStopTime(v))
	}
	for _, v := range pr.Stopping {
		c.freeWithin = max(c.freeWithin, maxStopTime(v))
	}
	return c, ok
}

// maxStopTime is how long a job that is stopped may keep its seats, should its node
// go silent too.
func maxStopTime(v *job.Entry) time.Duration { return v.Job.Grace() + v.Job.LostAfter() }

// stopMargin is how much longer than it should take seats are kept for a job:
// stops travel, and processes die in their own time.
const stopMargin = time.Minute

// newNomination is how a choice is written down.
func (pr *Round) newNomination(e *job.Entry, c *victimSelection, now time.Time) *ares.Nomination {
	milli := job.GPUMilliOf(c.seats)
	slices.SortFunc(c.victims, bySize)
	n := &ares.Nomination{Seats: c.seats, Why: c.why, At: now}
	for _, v := range c.victims {
		c.freeWithin = max(c.freeWithin, maxStopTime(v.entry))
		n.Victims = append(n.Victims, ares.Victim{Job: v.entry.ID, Fence: v.entry.Run.Fence(), Yield: ares.Yield{
			To: e.ID, Tenant: e.Job.Tenant, Why: v.why, Milli: v.milli, Lost: v.cost, Asked: milli,
			Restart: v.milli * int64(pr.Cfg.Preemption.Restart/time.Second),
		}})
	}
	n.Until = now.Add(c.freeWithin + stopMargin)
	return n
}

// nominate keeps seats for a job, and stops who sits there.
func (pr *Round) nominate(pass *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, c *victimSelection) {
	n := *pr.newNomination(e, c, plan.Now)
	plan.Nominate = append(plan.Nominate, ares.Nominating{Job: e.ID, Nomination: n})
	job.WakeBy(plan, n.Until)
	for i := range n.Victims {
		if !pr.stopVictim(plan, c.victims[i].entry, n.Victims[i].Yield) {
			break
		}
	}
	k := backfill.NominationHold{Entry: e, Seats: c.seats, Until: n.Until, Grant: pr.Jobs.GrantCopy(e.Shape, c.seats)}
	k.Hold, k.FreeSeats = pr.Txn.HoldSeats(c.seats)
	if c.why == ares.YieldMove {
		pr.recordConsolidation(e, c)
	}
	pass.ChargeOutOfTurn(e.Shape.Leaf, k.Grant, 1)
	pr.Backfill.Holds = append(pr.Backfill.Holds, k)
}
