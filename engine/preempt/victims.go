package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// victimSearch searches for the victims of one waiting job. When these victims stop, the waiting job must fit
// under all placement rules. Among the possible victims, the search looks for those that lose the least work.
//
// The search frees capacity for one member at a time, always on the cheapest node, until
// there is enough for the whole gang. The waiting job is then placed like any other job.
// Victims whose seats it does not need are dropped. The search runs with several cost
// models, because no model is best for all job sizes. The cheapest result is used.
type victimSearch struct {
	round *Round
	entry *job.Entry // the waiting job
	shape *job.Shape
	now   time.Time
	rank  int
	base  cluster.Savepoint // savepoint at which the jobs being stopped have left

	id        int                 // value of eligibleIn for eligible jobs
	ancestry  map[ares.JobID]bool // see preemptorAncestry
	barred    map[*job.Entry]bool // see barredJobs
	immovable map[*job.Entry]bool // jobs that fit nowhere else; nil unless victims are moved
	quota     quotaReclaim
	index     candidateIndex
	partial   partialSelection
	outcome   searchOutcome
}

// searchOutcome is the result of a search so far.
type searchOutcome struct {
	best        *victimSelection // the cheapest selection, or nil
	overCeiling *victimSelection // the smallest selection above the ceiling, or nil
	eligible    int              // jobs that may be stopped
	protections protectionCounts // counts of the jobs that may not be stopped
}

// searchVictims finds victims for a waiting job. They are jobs of lower classes, or jobs that borrow quota. The
// first search leaves out jobs on the seats of earlier backfill reservations.
func (r *Round) searchVictims(e *job.Entry, rights preemptionRights, guaranteed uint64, plan *ares.Plan) (victimSelection, bool) {
	s := &victimSearch{
		round: r, entry: e, shape: e.Shape, now: plan.Now, rank: e.ClassRank(), base: r.Txn.Mark(),
		ancestry: r.preemptorAncestry(e, plan), barred: r.barredJobs(0), quota: quotaReclaim{guaranteed: guaranteed, borrowedCache: map[borrowerKey]queue.Borrowing{}},
	}
	if r.Backfill.HeldReservations != 0 {
		all := s.barred
		s.barred = r.barredJobs(r.Backfill.HeldReservations)
		s.searchByRights(rights)
		s.barred = all
	}
	if s.outcome.best == nil {
		s.outcome.overCeiling = nil
		s.searchByRights(rights)
	}
	r.Txn.Undo(s.base)
	return s.finish(rights, plan)
}

// searchByRights searches with each right alone, and then with both rights together. The right to reclaim quota
// is tried first, because borrowed quota was never guaranteed to the victim.
func (s *victimSearch) searchByRights(rights preemptionRights) {
	members, ban := s.round.Jobs.AdmissibleMembers(s.shape, s.now)
	for _, some := range [3]preemptionRights{rightByQuota, rightByClass, rightByQuota | rightByClass} {
		if some&^rights != 0 || !s.markEligible(some) {
			continue
		}
		leaveOut := ban
		if members == 0 || some&rightByQuota != 0 {
			leaveOut = s.unguaranteedModels()
		}
		for _, s.quota.allowPartial = range [2]bool{false, true} {
			if s.searchSets(leaveOut); s.outcome.best != nil || some&rightByQuota == 0 {
				break
			}
		}
		if s.outcome.best != nil {
			s.outcome.best.reason = some.reason()
			return
		}
	}
}

// The method `finish` returns the best selection of victims, or records why there is none.
func (s *victimSearch) finish(rights preemptionRights, plan *ares.Plan) (victimSelection, bool) {
	switch sel := s.outcome.best; {
	case sel != nil:
		if soon, ok := s.endsSoon(); ok {
			return soon, true
		}
		if until, ok := s.round.withinHourlyLimit(s.entry, sel, plan); !ok {
			s.explainRateLimit(sel, until, plan)
			return victimSelection{}, false
		}
		return *sel, true
	case s.outcome.overCeiling != nil:
		_, milli := s.outcome.overCeiling.cost()
		s.round.notePreemption("preemption would stop %s for a job of %s, more than %s times its size (preemption_ceiling)", gpuText(milli), gpuText(job.GPUMilliOf(s.outcome.overCeiling.seats)), decimalText(s.round.Cfg.Preemption.Ceiling))
	case !s.outcome.protections.isEmpty():
		s.round.notePreemption("the jobs it could preempt are protected: %s", s.outcome.protections.text(&s.round.Cfg.Preemption))
	case s.outcome.eligible > 0:
		s.round.notePreemption("the jobs it may preempt would not free enough capacity")
	}
	if until := s.outcome.protections.firstEnds; !until.IsZero() {
		job.WakeBy(plan, until)
	}
	if len(s.ancestry) == 0 {
		s.round.failedSearches = append(s.round.failedSearches, failedSearch{s.shape.Request, s.shape, rights, s.rank})
	}
	return victimSelection{}, false
}

// unguaranteedModels returns the set of models that quotas do not guarantee to the job.
func (s *victimSearch) unguaranteedModels() (ban uint64) {
	for m := range s.round.Cluster.MatchingModels(s.shape.Request) {
		if bit := cluster.ModelBit(m); s.quota.guaranteed&bit == 0 {
			ban |= bit
		}
	}
	return ban
}

// searchSets searches for the cheapest set of eligible jobs. The GPU models in the argument `ban` are excluded. For a
// gang that needs devices of one model, searchSets considers one model at a time. Otherwise it would free half of the
// devices on one model and half of them on another.
func (s *victimSearch) searchSets(ban uint64) {
	if !s.shape.Wish.OneModel {
		s.searchSetsOn(ban)
		return
	}
	for _, ban := range s.round.Cluster.ModelBans(s.shape.Request, ban) {
		s.searchSetsOn(ban)
	}
}

// searchSetsOn searches for the cheapest set of eligible jobs whose devices have one of the models that are not
// excluded.
func (s *victimSearch) searchSetsOn(ban uint64) {
	s.round.Txn.Undo(s.base) // an earlier search may have left its victims' devices free
	s.index.request = s.round.Cluster.WithoutModels(s.shape.Request, ban)
	var ok bool
	if s.index.feasible, ok = s.round.Place.FeasibleNodes(s.shape, s.index.request, s.round.Place.StayOf(s.entry)); !ok || s.round.Cluster.ExceedsLeafLimit(s.index.request) {
		return
	}
	s.indexCandidates()
	if len(s.index.nodes) == 0 {
		s.resetSelection(domainRange{})
		s.placePreemptor() // the job may be waiting only for quota
		return
	}
	fits := false
	for _, model := range [3]costModel{proportionalCost, wholeJobCost, sizeCost} {
		for _, domain := range s.domainsToSearch(model) {
			if s.selectVictims(domain, model) && s.placePreemptor() {
				fits = true
			}
		}
	}
	if !fits && s.immovable == nil {
		s.tryAllCandidates()
	}
}

// placePreemptor places the waiting job on the freed capacity, and keeps the outcome if it
// is the best so far. placePreemptor reports whether the waiting job fits.
func (s *victimSearch) placePreemptor() bool {
	placing, ok := s.round.Place.TryPlace(s.shape, s.shape.MinMembers, s.index.request.Ban, s.entry, s.round.Place.StayOf(s.entry))
	if !ok {
		return false
	}
	sel := victimSelection{seats: placing.Seats, victims: s.dropUnneeded(placing.Seats, slices.Clone(s.partial.evicted))}
	if !s.admitsAfter(&sel) {
		s.reclaimQuota(&sel)
	}
	s.shrinkSelection(&sel)
	if !s.withinBorrowed(sel.victims) || !s.admitsAfter(&sel) {
		return true
	}
	_, milli := sel.cost()
	if s.round.Cfg.Preemption.ExceedsCeiling(milli, job.GPUMilliOf(sel.seats)) {
		if s.outcome.overCeiling == nil || sel.smaller(s.outcome.overCeiling) {
			s.outcome.overCeiling = &sel
		}
	} else if (s.outcome.best == nil || sel.cheaper(s.outcome.best)) && (s.immovable == nil || s.relocateVictims(&sel)) {
		s.outcome.best = &sel
	}
	return true
}

// dropUnneeded drops the victims that hold none of the needed seats. It drops the most expensive victim first.
func (s *victimSearch) dropUnneeded(seats []ares.Seat, victims []*candidateVictim) []*candidateVictim {
	s.round.Txn.Undo(s.base)
	for _, v := range victims {
		s.round.Place.ReleaseJob(v.entry)
	}
	s.round.Txn.TakeSeats(seats)
	slices.SortFunc(victims, func(a, b *candidateVictim) int { return byCost(b, a) })
	return slices.DeleteFunc(victims, func(v *candidateVictim) bool {
		return !v.entry.SharesNodeWith(seats) || s.round.Place.PutBack(v.entry)
	})
}

// maxShrink is the maximum number of victims for which shrinkSelection tries to drop victims.
const maxShrink = 8

// shrinkSelection tries to drop each victim in turn, the most expensive first. The waiting job may get other
// seats as a result.
func (s *victimSearch) shrinkSelection(sel *victimSelection) {
	if len(sel.victims) < 2 || len(sel.victims) > maxShrink || !s.admitsAfter(sel) {
		return
	}
	slices.SortFunc(sel.victims, func(a, b *candidateVictim) int { return byCost(b, a) })
	for i := 0; i < len(sel.victims) && len(sel.victims) > 1; {
		rest := slices.Delete(slices.Clone(sel.victims), i, i+1)
		s.round.Txn.Undo(s.base)
		for _, v := range rest {
			s.round.Place.ReleaseJob(v.entry)
		}
		i++
		placing, ok := s.round.Place.TryPlace(s.shape, s.shape.MinMembers, s.index.request.Ban, s.entry, s.round.Place.StayOf(s.entry))
		if !ok {
			continue
		}
		less := victimSelection{seats: placing.Seats, victims: s.dropUnneeded(placing.Seats, slices.Clone(rest))}
		if !s.admitsAfter(&less) {
			less.victims = rest // a dropped victim may have borrowed the quota that the job lacks
		}
		if s.admitsAfter(&less) {
			sel.seats, sel.victims, i = less.seats, less.victims, 0
		}
	}
}

// tryAllCandidates assumes that every eligible job is stopped, and keeps only the victims whose seats the waiting
// job needs. It is used if topology rules forbid the waiting job to use the freed capacity.
func (s *victimSearch) tryAllCandidates() {
	s.round.Txn.Undo(s.base)
	s.resetReclaim()
	s.partial.evicted = s.partial.evicted[:0]
	for _, cs := range s.index.seats {
		cs.victim.chosen = false
	}
	for _, cs := range s.index.seats {
		if v := cs.victim; !v.chosen && s.mayReclaim(v) {
			v.chosen = true
			s.partial.evicted = append(s.partial.evicted, v)
			s.round.Place.ReleaseJob(v.entry)
		}
	}
	if len(s.partial.evicted) > 0 {
		s.placePreemptor()
	}
}

// endsSoon finds seats whose jobs are expected to end soon, so that no victims are needed. The jobs must end
// before a stop and a restart would take effect.
func (s *victimSearch) endsSoon() (victimSelection, bool) {
	stopTime := time.Duration(0)
	for _, v := range s.outcome.best.victims {
		stopTime = max(stopTime, v.entry.Job.Grace())
	}
	stopTime += s.round.Cfg.Preemption.Restart
	sel := victimSelection{reason: s.outcome.best.reason}
	var ending []*job.Entry
	for rank := range s.round.Jobs.Running.Running {
		for _, e := range s.round.Jobs.Running.Running[rank] {
			if left := e.KnownRemaining(s.now); left <= stopTime && !s.barred[e] && !slices.Contains(s.round.Stopping, e) {
				ending = append(ending, e)
				sel.freeWithin = max(sel.freeWithin, left)
			}
		}
	}
	if len(ending) == 0 {
		return sel, false
	}
	s.round.Txn.Undo(s.base)
	for _, e := range ending {
		s.round.Place.ReleaseJob(e)
		e.Shape.Leaf.Charge(e.Held.Allocation, -1)
	}
	members, ban := s.round.Jobs.AdmissibleMembers(s.shape, s.now)
	var placing ares.Placing
	ok := false
	if members > 0 {
		placing, ok = s.round.Place.TryPlace(s.shape, s.shape.MinMembers, ban, s.entry, s.round.Place.StayOf(s.entry))
	}
	for _, e := range ending {
		e.Shape.Leaf.Charge(e.Held.Allocation, 1)
	}
	s.round.Txn.Undo(s.base)
	sel.seats = placing.Seats
	return sel, ok
}
