package preempt

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Consolidation applies when enough devices are free for a waiting job, but they are scattered over several
// nodes, so that the job does not fit. Running jobs that keep their progress are then moved to other nodes. If
// every moved job immediately gets other seats, within all rules, limits and quotas, the jobs are moved.
// Otherwise no job is moved. The priority classes of the jobs do not matter. The gain must be worth the cost of
// the moves.

// The start of a waiting job may be unknown. Then its remaining wait is assumed to be assumedWait. If the job has
// already waited longer than that, the remaining wait is assumed to be as long as the wait so far.
const assumedWait = 10 * time.Minute

// longestWait is the maximum remaining wait that counts when the gain of a consolidation is computed.
const longestWait = 30 * 24 * time.Hour

// maxConsolidations limits how many times one cycle searches for jobs to move. maxRelocations limits how many times
// one search is repeated. Each repetition leaves out jobs that fit on no other node.
const (
	maxConsolidations = 4
	maxRelocations    = 8
)

// findConsolidation finds jobs to move for a blocked job. findConsolidation returns false if no jobs can be moved,
// if the gain is not worth the cost, or while a job is already being moved. Only one consolidation runs at a time,
// so that the estimate of its gain stays correct.
func (r *Round) findConsolidation(e *job.Entry, plan *ares.Plan) (victimSelection, bool) {
	now := plan.Now
	if !r.AllowMoves || r.consolidations >= maxConsolidations || !e.Shape.Request.NeedsDevices() || r.Jobs.MigrationPending(now) ||
		len(r.Jobs.Running.Nominated)+len(plan.Nominate) >= config.MaxNominations {
		return victimSelection{}, false
	}
	members, ban := r.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || !r.hasScatteredCapacity(e, ban) {
		return victimSelection{}, false
	}
	r.consolidations++
	heldBefore := r.Backfill.HeldReservations
	wait, startKnown := r.expectedWait(e, members, ban, now)
	r.Backfill.HoldReservations(1<<len(r.Backfill.Reservations) - 1) // moved jobs must not delay reservations
	sel, ok := r.findMovers(e, ban, plan)
	r.Backfill.HoldReservations(heldBefore)
	if !ok {
		return victimSelection{}, false
	}
	sel.waitSaved, sel.waitKnown = max(wait-sel.longestGrace(), 0), startKnown
	if lost, _ := sel.cost(); !r.Cfg.Preemption.IsWorth(sel.gain(), lost) {
		r.notePreemption("moving %s would free enough capacity, but costs %s GPU-seconds and gains %s: it must gain %s times its cost (consolidation.gain)",
			CountJobs(len(sel.victims)), decimalText(int(lost)), decimalText(int(sel.gain())), decimalText(r.Cfg.Preemption.MoveGain))
		if !startKnown {
			r.wakeWhenWorth(e, &sel, plan)
		}
		return victimSelection{}, false
	}
	return sel, true
}

// longestGrace returns the longest grace period of the victims.
func (sel *victimSelection) longestGrace() (longest time.Duration) {
	for _, v := range sel.victims {
		longest = max(longest, v.entry.Job.Grace())
	}
	return longest
}

// The method `gain` returns the benefit of an earlier start of the waiting job, in thousandths of GPU-seconds.
func (sel *victimSelection) gain() int64 {
	return job.GPUMilliOf(sel.seats) * int64(sel.waitSaved/time.Second)
}

// wakeWhenWorth sets the plan's wake-up time. At that time the job will have waited long enough to justify the
// current cost of the moves. The cost of the moves grows until then, so the cycle at the wake-up time computes it
// again.
func (r *Round) wakeWhenWorth(e *job.Entry, sel *victimSelection, plan *ares.Plan) {
	lost, _ := sel.cost()
	worthAfter := sel.longestGrace() + time.Duration(lost*int64(r.Cfg.Preemption.MoveGain)/(cluster.WholeMilli*max(job.GPUMilliOf(sel.seats), 1))+1)*time.Second
	if in := worthAfter - e.Waited(plan.Now); worthAfter < longestWait {
		job.WakeBy(plan, plan.Now.Add(max(in, time.Minute)))
	}
}

// hasScatteredCapacity reports whether enough devices are free for the job, no matter on which nodes they are.
func (r *Round) hasScatteredCapacity(e *job.Entry, ban uint64) bool {
	if !e.Shape.Wish.OneModel {
		return r.hasCapacityOn(e, ban)
	}
	return slices.ContainsFunc(r.Cluster.ModelBans(e.Shape.Request, ban), func(ban uint64) bool { return r.hasCapacityOn(e, ban) })
}

// hasCapacityOn is hasScatteredCapacity on the models that are not excluded.
func (r *Round) hasCapacityOn(e *job.Entry, ban uint64) bool {
	sh := e.Shape
	req := r.Cluster.WithoutModels(sh.Request, ban)
	feasible, ok := r.Place.FeasibleNodes(sh, req, r.Place.StayOf(e))
	if !ok || r.Cluster.ExceedsLeafLimit(req) {
		return false
	}
	missing := sh.MinGPUMilli()
	for at := feasible.Next(0); at >= 0 && missing > 0; at = feasible.Next(at + 1) {
		n := r.Cluster.Nodes[at]
		if !n.Schedulable() {
			continue
		}
		mask := req.DeviceMask(n.Type) & n.Usable
		if req.Milli == 0 {
			missing -= int64(bits.OnesCount64(mask&n.Free)) * cluster.WholeMilli
			continue
		}
		for ; mask != 0; mask &= mask - 1 {
			missing -= int64(n.FreeMilliOf(bits.TrailingZeros64(mask)))
		}
	}
	return missing <= 0
}

// expectedWait returns how much longer a job waits if no job is moved, and whether this time is known.
func (r *Round) expectedWait(e *job.Entry, members int, ban uint64, now time.Time) (wait time.Duration, startKnown bool) {
	r.Backfill.HoldReservations(0)
	mark := r.Txn.Mark()
	r.Backfill.AssumePlanned(now)
	start, ok := r.Backfill.EarliestStart(e, members, ban, now)
	r.Txn.Undo(mark)
	r.Backfill.DropPlanned()
	if !ok || start.At == job.NoEnd {
		return min(max(assumedWait, e.Waited(now)), longestWait), false
	}
	return min(time.Duration(start.At-now.UnixNano()), longestWait), true
}

// findMovers selects the set of jobs that is cheapest to move.
func (r *Round) findMovers(e *job.Entry, ban uint64, plan *ares.Plan) (victimSelection, bool) {
	base := r.Txn.Mark()
	r.assumeStopsDone()
	defer func() {
		r.chargeStopping(1)
		r.Txn.Undo(base)
	}()
	if _, soon := r.fitsOnceStopped(e, ares.PreemptByMove, plan.Now); soon {
		return victimSelection{}, false // no move is needed
	}
	s := &victimSearch{
		round: r, entry: e, shape: e.Shape, now: plan.Now, rank: e.ClassRank(), base: r.Txn.Mark(),
		ancestry: r.preemptorAncestry(e, plan), barred: r.barredJobs(0), immovable: map[*job.Entry]bool{},
	}
	for range maxRelocations {
		stuck := len(s.immovable)
		if !s.markEligible(rightToMove) {
			break
		}
		if s.searchSets(ban); s.outcome.best != nil || len(s.immovable) == stuck {
			break
		}
	}
	if s.outcome.best == nil {
		return victimSelection{}, false
	}
	s.outcome.best.reason = ares.PreemptByMove
	return *s.outcome.best, true
}

// isMovable reports whether a running job may be moved. A movable job keeps its progress, is not protected, and has
// no affinity to other jobs.
func (s *victimSearch) isMovable(v *candidateVictim) bool {
	e := v.entry
	return v.protection == unprotected && e.KeepsProgress() && !e.Run.Current().StartedAt.IsZero() &&
		len(e.Shape.Affinity)+len(e.Shape.AntiAffinity) == 0 && !s.immovable[e]
}

// A leafCharge is an amount that was charged to a leaf queue, and that must be reverted later.
type leafCharge struct {
	leaf  *job.QueueLeaf
	grant queue.Allocation
	sign  int
}

// relocateVictims runs after the waiting job has been placed on the freed devices. It finds other seats for each
// victim. A victim that fits on no other node is recorded as immovable.
func (s *victimSearch) relocateVictims(sel *victimSelection) bool {
	var counted []leafCharge
	charge := func(l *job.QueueLeaf, g queue.Allocation, sign int) {
		l.Charge(g, sign)
		counted = append(counted, leafCharge{l, g, sign})
	}
	defer func() {
		for _, k := range counted {
			k.leaf.Charge(k.grant, -k.sign)
		}
		s.round.Txn.Undo(s.base)
	}()
	s.round.Txn.Undo(s.base)
	sel.destinations = map[*candidateVictim][]ares.Seat{}
	for _, v := range sel.victims {
		s.round.Place.ReleaseJob(v.entry)
		charge(v.entry.Shape.Leaf, v.entry.Held.Allocation, -1)
	}
	s.round.Txn.TakeSeats(sel.seats)
	charge(s.shape.Leaf, s.round.Jobs.AllocationCopy(s.shape, sel.seats), 1)
	// Place the largest jobs first, because they are the hardest to place.
	slices.SortFunc(sel.victims, func(a, b *candidateVictim) int { return cmp.Or(cmp.Compare(b.milli, a.milli), byCost(a, b)) })
	for _, v := range sel.victims {
		sh, has := v.entry.Shape, len(v.entry.Run.Current().Seats)
		members, ban := s.round.Jobs.AdmissibleMembers(sh, s.now)
		placing, ok := ares.Placing{}, false
		if members >= has {
			placing, ok = s.round.Place.TryPlace(sh, has, ban, v.entry, s.round.Place.StayOf(v.entry))
		}
		if !ok || len(placing.Seats) < has {
			s.immovable[v.entry] = true
			return false
		}
		charge(sh.Leaf, s.round.Jobs.AllocationCopy(sh, placing.Seats), 1)
		sel.destinations[v] = placing.Seats
	}
	return true
}

// recordConsolidation records a consolidation, and holds the new seats of the moved jobs
// for the rest of the cycle.
func (r *Round) recordConsolidation(e *job.Entry, sel *victimSelection) {
	lost, _ := sel.cost()
	out := ares.Consolidation{
		For: e.ID, Tenant: e.Job.Tenant, Seats: sel.seats, Wait: sel.waitSaved, Foreseen: sel.waitKnown, Gain: sel.gain(), Lost: lost,
	}
	for _, v := range sel.victims {
		m := ares.Move{Job: v.entry.ID, Tenant: v.entry.Job.Tenant, To: sel.destinations[v], Milli: v.milli, Lost: v.cost}
		for i := range v.entry.Run.Current().Seats {
			m.From = append(m.From, v.entry.Run.Current().Seats[i].Seat)
		}
		out.Moves = append(out.Moves, m)
		hold := backfill.NominationHold{Entry: v.entry, Seats: sel.destinations[v]}
		hold.Hold, hold.FreeSeats = r.Txn.HoldSeats(hold.Seats)
		r.destinations = append(r.destinations, hold)
	}
	if r.ConsolidationsFound != nil {
		r.ConsolidationsFound = append(r.ConsolidationsFound, out)
	}
}
