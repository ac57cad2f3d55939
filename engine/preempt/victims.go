package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// victimSearch is the search for who gives way to one waiting job: the set that loses
// the least work and lets the job fit, by all the rules of a placement.
//
// Nodes are cleared one member at a time, always the cheapest next, until there
// is room for the whole gang; then the job is placed as any other, and whoever
// is not in its way after all stays. That is done by each of a few prices,
// because none is right for all sizes, and the cheapest outcome counts.
type victimSearch struct {
	round *Round
	entry *job.Entry
	sh    *job.Shape
	now   time.Time
	rank  int
	base  cluster.Savepoint // with those gone who are being stopped

	ancestry     map[ares.JobID]bool
	barred       map[*job.Entry]bool // sit where seats are kept for others
	guaranteed   uint64              // models that quotas promise it
	owed         map[debtKey]queue.Borrowing
	debts        []debt
	allowPartial bool                // who is borrowed in part may go too
	stuck        map[*job.Entry]bool // who has no other place; nil unless they are to be moved
	protections  protectionCounts
	id, eligible int

	request        *cluster.Request
	feasible       *cluster.Set
	candidates     []candidateNode
	candidateSeats []candidateSeat
	candidateAt    []int32 // by position of a node: its ground, and one more
	room           []int32 // by position of a node: members that fit
	roomLeft       []int32 // of these, as a set is put together
	queue          []nodeCost
	parts          []partialCost      // scratch of bound
	evicted        []*candidateVictim // of the set that is being put together
	evictedFrom    int                // from here on they are gone since the last count

	best        *victimSelection
	overCeiling *victimSelection // the smallest that is above the ceiling
}

// candidateNode is a node where somebody could give way.
type candidateNode struct {
	node     *cluster.Node
	from, to int // of the spots
	changes  int // of the node, when it was weighed
	gain     int // members
	evict    []NodeVictim
}

// candidateSeat is a seat of who could give way.
type candidateSeat struct {
	victim *candidateVictim
	seat   *ares.Seat
	milli  int64
}

// searchVictims finds who gives way to a job by its class, or because they borrowed;
// rather not where one ahead of it has a reservation.
func (pr *Round) searchVictims(e *job.Entry, r preemptionBasis, promised uint64, plan *ares.Plan) (victimSelection, bool) {
	h := &victimSearch{
		round: pr, entry: e, sh: e.Shape, now: plan.Now, rank: e.Rank(), base: pr.Txn.Mark(),
		ancestry: pr.preemptorAncestry(e, plan), barred: pr.barredJobs(0), owed: map[debtKey]queue.Borrowing{}, guaranteed: promised,
	}
	if pr.Backfill.HeldReservations != 0 {
		all := h.barred
		h.barred = pr.barredJobs(pr.Backfill.HeldReservations)
		h.searchByBasis(r)
		h.barred = all
	}
	if h.best == nil {
		h.overCeiling = nil
		h.searchByBasis(r)
	}
	pr.Txn.Undo(h.base)
	return h.conclude(r, plan)
}

// searchByBasis looks for victims by each right alone, and then by both. What was
// promised comes first: it costs nobody what is his own.
func (h *victimSearch) searchByBasis(r preemptionBasis) {
	members, ban := h.round.Jobs.AdmissibleMembers(h.sh, h.now)
	for _, by := range [3]preemptionBasis{basisQuota, basisClass, basisQuota | basisClass} {
		if by&^r != 0 || !h.markEligible(by) {
			continue
		}
		leaveOut := ban
		if members == 0 || by&basisQuota != 0 {
			leaveOut = h.unguaranteedModels()
		}
		for _, h.allowPartial = range [2]bool{false, true} {
			if h.searchSets(leaveOut); h.best != nil || by&basisQuota == 0 {
				break
			}
		}
		if h.best != nil {
			h.best.why = by.why()
			return
		}
	}
}

// conclude says what comes of a search: who gives way, or why nobody does.
func (h *victimSearch) conclude(r preemptionBasis, plan *ares.Plan) (victimSelection, bool) {
	switch c := h.best; {
	case c != nil:
		if soon, ok := h.freeSoon(); ok {
			return soon, true
		}
		if until, ok := h.round.withinHourlyLimit(h.entry, c, plan); !ok {
			h.explainRateLimit(c, until, plan)
			return victimSelection{}, false
		}
		return *c, true
	case h.overCeiling != nil:
		_, milli := h.overCeiling.cost()
		h.round.notePreemption("preempting would stop %s for %s (ceiling %s)", gpuText(milli), gpuText(job.GPUMilliOf(h.overCeiling.seats)), decimalText(h.round.Cfg.Preemption.Ceiling))
	case h.protections != protectionCounts{}:
		h.round.notePreemption("who could give way is protected: %s", h.protections.text(&h.round.Cfg.Preemption))
	case h.eligible > 0:
		h.round.notePreemption("those that may be stopped for it are not enough to make room")
	}
	if until := h.protections.until; !until.IsZero() {
		job.WakeBy(plan, until)
	}
	if len(h.ancestry) == 0 {
		h.round.failedSearches = append(h.round.failedSearches, failedSearch{h.sh.Request, h.sh, r, h.rank})
	}
	return victimSelection{}, false
}

// explainRateLimit says that the tenant's jobs would have too many stopped within an hour,
// and wakes the plan when that may have changed. It will not where this one needs
// more than that at once.
func (h *victimSearch) explainRateLimit(c *victimSelection, until time.Time, plan *ares.Plan) {
	most := h.round.Cfg.Preemption.PerTenant
	if until.IsZero() {
		h.round.notePreemption("%d jobs would have to be stopped for it, and those of tenant %s may have %d stopped within an hour", len(c.victims), h.sh.Tenant.ID, most)
		return
	}
	h.round.notePreemption("jobs of tenant %s have had %d stopped within an hour, which is the most (until %s)", h.sh.Tenant.ID, most, until.UTC().Format(time.RFC3339))
	job.WakeBy(plan, until)
}

// withinHourlyLimit says whether the tenant may have so many stopped by class now, and
// if not, when it may have one more.
func (pr *Round) withinHourlyLimit(e *job.Entry, c *victimSelection, plan *ares.Plan) (until time.Time, ok bool) {
	most := pr.Cfg.Preemption.PerTenant
	if most == 0 {
		return until, true
	}
	stops, until := e.Shape.Tenant.RecentStops(plan.Now)
	if until.IsZero() {
		until = plan.Now.Add(job.StopRateWindow)
	}
	for i := range plan.Stop {
		if y := plan.Stop[i].Stop.Yield; y != nil && y.Why == ares.YieldClass && y.Tenant == e.Job.Tenant {
			stops++
		}
	}
	for _, v := range c.victims {
		if v.why == ares.YieldClass {
			stops++
		}
	}
	return until, stops <= most
}

// barredJobs is who sits where seats are kept for others, or is to give way to one of
// those. With some reservations it is also who sits where these have a place.
func (pr *Round) barredJobs(reservations uint64) map[*job.Entry]bool {
	out := map[*job.Entry]bool{}
	bar := func(seats []ares.Seat) {
		for i := range seats {
			n := pr.Cluster.NodesByID[seats[i].Node]
			if n == nil {
				continue
			}
			for _, sit := range n.Occupants {
				if sharesDevice(sit.Seat, &seats[i]) {
					out[pr.Jobs.Owner(sit)] = true
				}
			}
		}
	}
	for i := range pr.Backfill.Reservations {
		if reservations&(1<<i) != 0 {
			bar(pr.Backfill.Reservations[i].Seats)
		}
	}
	for i := range pr.Backfill.Holds {
		k := &pr.Backfill.Holds[i]
		if k.Over {
			continue
		}
		bar(k.Seats)
		if nom := k.Entry.Run; nom != nil && nom.Nominated != nil {
			for j := range nom.Nominated.Victims {
				if v := pr.pendingVictim(&nom.Nominated.Victims[j]); v != nil {
					out[v] = true
				}
			}
		}
	}
	return out
}

// sharesDevice says whether two seats on one node have a device in common.
func sharesDevice(a, b *ares.Seat) bool {
	return slices.ContainsFunc(a.Shares, func(x ares.Share) bool {
		return slices.ContainsFunc(b.Shares, func(y ares.Share) bool { return x.Device == y.Device })
	})
}

// unguaranteedModels is the models that quotas do not promise the job, as a set.
func (h *victimSearch) unguaranteedModels() (ban uint64) {
	for m := range h.round.Cluster.MatchingModels(h.sh.Request) {
		if bit := cluster.ModelBit(m); h.guaranteed&bit == 0 {
			ban |= bit
		}
	}
	return ban
}

// searchSets looks for the cheapest set among who is eligible, with some models left
// out.
func (h *victimSearch) searchSets(ban uint64) {
	h.request = h.round.Cluster.WithoutModels(h.sh.Request, ban)
	var ok bool
	if h.feasible, ok = h.round.Place.FeasibleNodes(h.sh, h.request); !ok || h.round.Cluster.ExceedsLeafLimit(h.request) {
		return
	}
	h.indexCandidates()
	if len(h.candidates) == 0 {
		h.resetSelection(domainRange{})
		h.placeAndKeep() // it may be that only a quota keeps it waiting
		return
	}
	landed := false
	for _, price := range [3]costModel{proportionalCost, wholeJobCost, sizeCost} {
		for _, in := range h.domainsToSearch(price) {
			if h.selectVictims(in, price) && h.placeAndKeep() {
				landed = true
			}
		}
	}
	if !landed && h.stuck == nil {
		h.tryAllVictims()
	}
}

// indexCandidates finds who sits where.
func (h *victimSearch) indexCandidates() {
	h.candidates, h.candidateSeats = h.candidates[:0], h.candidateSeats[:0]
	h.candidateAt = slices.Grow(h.candidateAt[:0], len(h.round.Cluster.Nodes))[:len(h.round.Cluster.Nodes)]
	h.room = slices.Grow(h.room[:0], len(h.round.Cluster.Nodes))[:len(h.round.Cluster.Nodes)]
	clear(h.candidateAt)
	clear(h.room)
	for i := h.feasible.Next(0); i >= 0; i = h.feasible.Next(i + 1) {
		n := h.round.Cluster.Nodes[i]
		if !n.Schedulable() {
			continue
		}
		h.room[i] = int32(n.RoomFor(h.request))
		from := len(h.candidateSeats)
		for _, sit := range n.Occupants {
			if v := h.round.victimAt[sit.Owner]; v != nil && v.search == h.id {
				milli := int64(0)
				for k := range sit.Seat.Shares {
					milli += int64(sit.Seat.Shares[k].Milli)
				}
				h.candidateSeats = append(h.candidateSeats, candidateSeat{v, sit.Seat, milli})
			}
		}
		if len(h.candidateSeats) > from {
			h.candidates = append(h.candidates, candidateNode{node: n, from: from, to: len(h.candidateSeats), changes: -1})
			h.candidateAt[i] = int32(len(h.candidates))
		}
	}
}

// placeAndKeep places the job where those were chosen to leave, and keeps the outcome if
// it is the best so far. It says whether the job fits at all.
func (h *victimSearch) placeAndKeep() bool {
	p, ok := h.round.Place.PlaceJob(h.sh, h.sh.MinMembers, h.request.Ban, h.entry)
	if !ok {
		return false
	}
	c := victimSelection{seats: p.Seats, victims: h.dropUnneeded(p.Seats, slices.Clone(h.evicted))}
	if !h.admitsAfter(&c) {
		h.reclaimQuota(&c)
	}
	h.shrinkSet(&c)
	if !h.withinDebts(c.victims) || !h.admitsAfter(&c) {
		return true
	}
	_, milli := c.cost()
	if h.round.Cfg.Preemption.ExceedsCeiling(milli, job.GPUMilliOf(c.seats)) {
		if h.overCeiling == nil || c.smaller(h.overCeiling) {
			h.overCeiling = &c
		}
	} else if (h.best == nil || c.cheaper(h.best)) && (h.stuck == nil || h.relocateVictims(&c)) {
		h.best = &c
	}
	return true
}

// smaller compares two choices by what they stop.
func (c *victimSelection) smaller(o *victimSelection) bool {
	_, a := c.cost()
	_, b := o.cost()
	return a < b
}

// dropUnneeded leaves out those who are not in the way of the seats, the most costly
// first.
func (h *victimSearch) dropUnneeded(seats []ares.Seat, victims []*candidateVictim) []*candidateVictim {
	h.round.Txn.Undo(h.base)
	for _, v := range victims {
		h.round.Place.ReleaseJob(v.entry)
	}
	h.round.Txn.TakeSeats(seats)
	slices.SortFunc(victims, func(a, b *candidateVictim) int { return byCost(b, a) })
	return slices.DeleteFunc(victims, func(v *candidateVictim) bool {
		return !v.entry.SharesNodeWith(seats) || h.round.Place.PutBack(v.entry)
	})
}

// maxShrink is up to how many victims each is tried without, with other seats.
const maxShrink = 8

// shrinkSet tries to do without one after the other, the most costly first, with
// whatever seats there are then.
func (h *victimSearch) shrinkSet(c *victimSelection) {
	if len(c.victims) < 2 || len(c.victims) > maxShrink || !h.admitsAfter(c) {
		return
	}
	slices.SortFunc(c.victims, func(a, b *candidateVictim) int { return byCost(b, a) })
	for i := 0; i < len(c.victims) && len(c.victims) > 1; {
		rest := slices.Delete(slices.Clone(c.victims), i, i+1)
		h.round.Txn.Undo(h.base)
		for _, v := range rest {
			h.round.Place.ReleaseJob(v.entry)
		}
		i++
		p, ok := h.round.Place.PlaceJob(h.sh, h.sh.MinMembers, h.request.Ban, h.entry)
		if !ok {
			continue
		}
		less := victimSelection{seats: p.Seats, victims: h.dropUnneeded(p.Seats, slices.Clone(rest))}
		if !h.admitsAfter(&less) {
			less.victims = rest // who is not in its way may have borrowed what it lacks
		}
		if h.admitsAfter(&less) {
			c.seats, c.victims, i = less.seats, less.victims, 0
		}
	}
}

// tryAllVictims supposes that all who may give way do, where the topology's rules
// have kept the job out of what was cleared for it, and keeps who is in its way
// then.
func (h *victimSearch) tryAllVictims() {
	h.round.Txn.Undo(h.base)
	for i := range h.debts {
		h.debts[i].left = h.debts[i].Milli
	}
	h.evicted = h.evicted[:0]
	for _, sp := range h.candidateSeats {
		sp.victim.chosen = false
	}
	for _, sp := range h.candidateSeats {
		if v := sp.victim; !v.chosen && h.stillBorrowed(v) {
			v.chosen = true
			h.evicted = append(h.evicted, v)
			h.round.Place.ReleaseJob(v.entry)
		}
	}
	if len(h.evicted) > 0 {
		h.placeAndKeep()
	}
}

// freeSoon finds the seats of a job that need nobody stopped: those who are there
// are predicted to be done before stopping others would have come to anything.
func (h *victimSearch) freeSoon() (victimSelection, bool) {
	takes := time.Duration(0)
	for _, v := range h.best.victims {
		takes = max(takes, v.entry.Job.Grace())
	}
	takes += h.round.Cfg.Preemption.Restart
	c := victimSelection{why: h.best.why}
	var going []*job.Entry
	for rank := range h.round.Jobs.Running.Running {
		for _, e := range h.round.Jobs.Running.Running[rank] {
			if _, all := e.RuntimeEstimate(); all == job.Forever {
				continue
			}
			if _, late := e.Remaining(h.now); late <= takes && !h.barred[e] && !slices.Contains(h.round.Stopping, e) {
				going = append(going, e)
				c.freeWithin = max(c.freeWithin, late)
			}
		}
	}
	if len(going) == 0 {
		return c, false
	}
	h.round.Txn.Undo(h.base)
	for _, e := range going {
		h.round.Place.ReleaseJob(e)
		e.Shape.Leaf.Charge(e.Held.Grant, -1)
	}
	members, ban := h.round.Jobs.AdmissibleMembers(h.sh, h.now)
	var p ares.Placing
	ok := false
	if members > 0 {
		p, ok = h.round.Place.PlaceJob(h.sh, h.sh.MinMembers, ban, h.entry)
	}
	for _, e := range going {
		e.Shape.Leaf.Charge(e.Held.Grant, 1)
	}
	h.round.Txn.Undo(h.base)
	c.seats = p.Seats
	return c, ok
}
