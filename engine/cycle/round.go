package cycle

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/preempt"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/state"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
)

// Round is one pass over the waiting jobs.
type Round struct {
	cfg      *config.Config
	cluster  *cluster.Cluster
	scorer   *score.Scorer
	jobs     *job.Table
	windows  *window.Calendar
	Txn      *cluster.Txn
	Place    *placement.Placer
	Backfill *backfill.Round
	Preempt  *preempt.Round

	blockedShapes      int            // shapes that found no place
	noBorrowing   bool           // nobody borrows what others are promised
	borrowBlocked bool           // that keeps off the job whose turn it was
	borrowed      bool           // somebody was given what others are promised
	LastRefusals  int            // of the last one, for the room of the next
	PlannedStarts []ares.Promise // by the last one
}

func NewRound(co *state.State) *Round {
	txn := &cluster.Txn{Cluster: co.Cluster}
	place := &placement.Placer{Cfg: &co.Cfg, Cluster: co.Cluster, Scorer: co.Scorer, Jobs: co.Jobs, Windows: co.Windows, Txn: txn}
	backfill := &backfill.Round{Cfg: &co.Cfg, Cluster: co.Cluster, Scorer: co.Scorer, Jobs: co.Jobs, Windows: co.Windows, Txn: txn, Place: place}
	preempt := &preempt.Round{Cfg: &co.Cfg, Cluster: co.Cluster, Scorer: co.Scorer, Jobs: co.Jobs, Windows: co.Windows, Txn: txn, Place: place, Backfill: backfill}
	return &Round{cfg: &co.Cfg, cluster: co.Cluster, scorer: co.Scorer, jobs: co.Jobs, windows: co.Windows, Txn: txn, Place: place, Backfill: backfill, Preempt: preempt}
}

// Begin begins a round. The caller closes it.
func (r *Round) Begin() *Round {
	r.Place.Cycle++
	r.Place.Epoch++
	r.Backfill.Begin()
	r.Preempt.Begin()
	r.blockedShapes, r.noBorrowing, r.borrowBlocked, r.borrowed = 0, false, false, false
	return r
}

// Close gives back everything that was taken, and forgets the rest.
func (r *Round) Close() {
	r.Place.RecordReturnedCapacity()
	r.Txn.Undo(0)
	r.Place.Close()
	r.Preempt.Close()
}

// RecordPlannedStarts keeps the reservations of a decision for who asks.
func (r *Round) RecordPlannedStarts() {
	clear(r.PlannedStarts)
	r.PlannedStarts = r.PlannedStarts[:0]
	for i := range r.Backfill.Reservations {
		p := r.Backfill.Reservations[i].PlannedStart()
		p.Firm = r.Backfill.Reservations[i].Firm && !p.At.IsZero() && !r.jobs.WouldBorrowNow(r.Backfill.Reservations[i].Entry) && len(r.windows.WindowsBlocking(r.Backfill.Reservations[i].Entry)) == 0
		r.PlannedStarts = append(r.PlannedStarts, p)
	}
}

// Settle plans what has to be, whoever's turn it is.
func (r *Round) Settle(plan *ares.Plan) {
	// 1. Settle: arrays that are over, delays that are over, and the next one
	// that will be. Who is where others have a reservation leaves: nobody need
	// give way to have what he has.
	r.jobs.ReadyDelayed(plan, plan.Now)
	r.jobs.EndFinishedArrays(plan)
	r.windows.EvictFromWindows(plan)
}

// RunCycle runs the cycle. Where it lends to some what others take back by stopping
// somebody, it runs again and lends nothing: what is free goes to who was promised
// it, and the others have their turn in the next plan.
func (r *Round) RunCycle(plan *ares.Plan, moves bool) (blocked []*job.Entry) {
	settled := *plan
	settled.Ready, settled.Arrays, settled.Stop = slices.Clip(plan.Ready), slices.Clip(plan.Arrays), slices.Clip(plan.Stop)
	r.Begin()
	r.Preempt.AllowMoves = moves
	if blocked = r.runPass(plan); !r.borrowed || !slices.ContainsFunc(plan.Nominate, reclaimsQuota) {
		return blocked
	}
	*plan = settled
	r.Begin()
	r.Preempt.AllowMoves = moves
	r.noBorrowing, r.Preempt.ConsolidationsFound = true, r.Preempt.ConsolidationsFound[:0]
	blocked = r.runPass(plan)
	if !plan.Empty() { // of the same state the next would be the same
		plan.Wake = plan.Now
	}
	return blocked
}

// reclaimsQuota says whether somebody is stopped for what a quota promises.
func reclaimsQuota(n ares.Nominating) bool {
	return n.Nomination.Why == ares.YieldQuota && len(n.Nomination.Victims) > 0
}

// runPass is one cycle into the plan, and who was admitted and found no place.
func (r *Round) runPass(plan *ares.Plan) (blocked []*job.Entry) {
	now := plan.Now
	// 2. Order: whose turn it is, by aged class, share, aged priority.
	r.run(plan, func(e *job.Entry, placing *ares.Placing, admitted bool) bool {
		switch {
		case placing != nil:
			plan.Place = append(plan.Place, *placing)
			if placing.ArrayOf != "" {
				AdvanceArray(plan, placing)
				if r.hitElementLimit(e) {
					plan.Wake = now
				}
			}
			if len(plan.Place) == config.MaxPlacings {
				plan.Wake = now
				return false
			}
			return true
		case admitted && r.cfg.Queue.Preempt:
			blocked = append(blocked, e)
		}
		r.jobs.WakeAtMonthEnd(plan, e.Shape.Tenant)
		if len(plan.Refuse) < config.MaxRefusals {
			if plan.Refuse == nil {
				plan.Refuse = make([]ares.Refusal, 0, r.LastRefusals)
			}
			plan.Refuse = append(plan.Refuse, ares.Refusal{Job: e.ID, Blockers: r.refusalBlockers(e, admitted, now)})
		}
		return true
	})
	return blocked
}

// RunRound looks after the nominations, and then offers the waiting jobs in their
// order: each is admitted and placed, or has others give way, or is refused with
// its whole shape. tell hears of it, and ends the cycle by false; the placing it
// is shown is good until it returns. What it does to the plan is all but that.
func (r *Round) RunRound(plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	r.Begin().run(plan, tell)
}

// run is the state's, in a decision that has begun.
func (r *Round) run(plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	defer r.Close()
	r.expectStops(plan)
	r.cluster.PruneGains()
	r.jobs.AdvanceClock(plan.Now)
	defer r.Preempt.ReleaseNominations()
	defer r.Preempt.WithdrawFailed(plan)
	if !r.Preempt.AdvanceNominations(plan, nil, tell) {
		return
	}
	r.Preempt.HoldForRestarts(plan.Now, nil)
	r.Preempt.HoldForMigrating(plan.Now, nil)
	pass := r.jobs.Queues.BeginRound(plan.Now)
	defer pass.End()
	r.OfferInOrder(pass, plan, tell)
}

// expectStops counts on those to leave whom the plan stops already: elements of arrays
// that are to end, and who has to leave a reservation.
func (r *Round) expectStops(plan *ares.Plan) {
	for i := range plan.Stop {
		if e := r.jobs.EntryByID[plan.Stop[i].Job]; e != nil && e.RunningList >= job.InRunning {
			r.Preempt.Stopping = append(r.Preempt.Stopping, e)
		}
	}
}

func (r *Round) OfferInOrder(pass *queue.Round[*job.Entry], plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	now := plan.Now
	for {
		it, ok := pass.Next()
		if !ok {
			return
		}
		e := it.Owner
		if !e.Plain && (r.jobs.ArrayIsStopping(e) || e.IsArray() && r.startableElements(e) <= 0) {
			pass.Skip()
			continue
		}
		if len(r.Backfill.Holds) > 0 {
			if done, more := r.offerNominated(pass, e, now, tell); !more {
				return
			} else if done {
				continue
			}
		}
		var admitted bool
		if admitted, ok = r.admitAndPlace(e, now); !ok {
			if !r.handleBlocked(pass, plan, e, admitted, tell) {
				return
			}
			continue
		}
		if grant := r.jobs.GrantOf(e.Shape, r.Place.Offer.Seats); !e.Plain && e.IsArray() {
			r.assignElement(e, &r.Place.Offer)
			pass.AllocatePart(grant)
			pass.EndTurn()
		} else {
			pass.Allocate(grant)
		}
		if !tell(e, &r.Place.Offer, true) {
			return
		}
	}
}

// offerNominated is the turn of a job for which seats are kept, if this is one:
// it may fit elsewhere by now. Others of its shape have their turn all the same.
func (r *Round) offerNominated(pass *queue.Round[*job.Entry], e *job.Entry, now time.Time, tell func(*job.Entry, *ares.Placing, bool) bool) (done, more bool) {
	k := r.Preempt.HoldOf(e)
	r.Place.WouldDelay, r.Place.WindowBlocked = false, false
	switch {
	case k == nil || k.Invalid != "":
		return false, true
	case k.Over:
		pass.Skip()
		return true, true
	case r.Preempt.PlaceElsewhere(pass, k, now):
		pass.Allocate(r.jobs.GrantOf(e.Shape, r.Place.Offer.Seats))
		return true, tell(e, &r.Place.Offer, true)
	}
	r.skip(pass, e)
	r.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(k)}
	return true, tell(e, nil, true)
}

// skip passes over a job that has to wait for its seats, and where queues are
// strict over everybody behind it.
func (r *Round) skip(pass *queue.Round[*job.Entry], e *job.Entry) {
	if r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e) {
		pass.BlockQueue()
		return
	}
	pass.Skip()
}

// handleBlocked is what becomes of a job that found no place.
func (r *Round) handleBlocked(pass *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, admitted bool, tell func(*job.Entry, *ares.Placing, bool) bool) (more bool) {
	// 6. Yield: others give way to it, and the seats are kept for it.
	if !r.Backfill.ReserveForAll && r.Preempt.PreemptFor(pass, plan, e, admitted) {
		r.skip(pass, e)
		r.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(r.Preempt.HoldOf(e))}
		return tell(e, nil, admitted)
	}
	// 7. Refuse, once for each shape, and 5. reserve for the first that were:
	// others get a place behind them where that delays nobody.
	return !r.refuseShape(pass, e, admitted, plan.Now) || tell(e, nil, admitted)
}

// admitAndPlace admits one job, and places it by the offer.
func (r *Round) admitAndPlace(e *job.Entry, now time.Time) (admitted, ok bool) {
	r.Place.WouldDelay, r.Place.WindowBlocked, r.borrowBlocked = false, false, false
	r.Preempt.ReleaseToGang(e)
	// 3. Admit: dependencies, budget, limits, quotas.
	members, ban := r.jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || r.Backfill.KnownUnschedulable(e.Shape, ban) {
		return members > 0, false
	}
	if r.Place.OutlastsWindow(e) {
		return true, false
	}
	borrows := r.jobs.Queues.HasQuotas() && r.jobs.WouldBorrow(e.Shape)
	if borrows && r.noBorrowing {
		r.Place.WouldDelay, r.borrowBlocked = true, true
		return true, false
	}
	// 4. Place: the whole gang or nothing.
	r.scorer.BeginJob(e.ID, e.NextElement()+e.ElementsMade)
	if len(r.Backfill.Reservations) > 0 {
		r.Place.Offer, ok = r.Backfill.PlaceBackfill(e, members, ban, now)
	} else {
		r.Place.Offer, ok = r.Place.PlaceJob(e.Shape, members, ban, e)
	}
	if !ok {
		if !r.Place.WouldDelay && !r.Place.IsBlockedByWindows(e, members, ban) && !r.Place.Speculative {
			r.Place.RememberUnschedulable(e.Shape, ban)
		}
		return true, false
	}
	r.borrowed = r.borrowed || borrows
	r.Place.Offer.Job = e.ID
	r.Place.Placed = append(r.Place.Placed, placement.PlacedJob{Entry: e, Seats: r.Place.Offer.Seats})
	return true, true
}

// refusalBlockers is a refusal without a look at the nodes one by one: what forbids the
// job, or that it found no room. Explain says the rest. Plans share the words;
// nobody changes them.
func (r *Round) refusalBlockers(e *job.Entry, admitted bool, now time.Time) []ares.Blocker {
	sh := e.Shape
	if sh.NoRoomRefusal == nil {
		sh.NoRoomRefusal = []ares.Blocker{job.NoRoomBlocker(sh)}
	}
	out := sh.NoRoomRefusal
	switch {
	case !admitted:
		out = r.jobs.AdmissionBlockers(sh, now)
	case r.Place.WindowBlocked:
		return windowBlockers
	case r.borrowBlocked:
		return borrowBlockers
	case r.Place.WouldDelay:
		return delayBlockers
	}
	if words := r.Preempt.PreemptionNotes; len(words) > 0 {
		if r.Preempt.HasHold(e) {
			return words // it has its place, and waits for it
		}
		return slices.Concat(out, words)
	}
	return out
}

// windowBlockers is the short refusal of a job that would fit.
var windowBlockers = []ares.Blocker{{Kind: job.KindReserved, Detail: "the nodes it would fit on are reserved, or will be before it is thought to end"}}

// delayBlockers is the short refusal of a job that would fit.
var delayBlockers = []ares.Blocker{{Kind: job.KindOrder, Detail: "it would delay a job ahead of it, as far as predictions tell"}}

// borrowBlockers is the same of one that others' promises keep off.
var borrowBlockers = []ares.Blocker{{Kind: job.KindQuota, Detail: job.BorrowBlockedText}}

// refuseShape passes over a job that found no place: with its whole shape, or with
// everybody behind it in its queue, as configured. It says whether that is news.
func (r *Round) refuseShape(pass *queue.Round[*job.Entry], e *job.Entry, admitted bool, now time.Time) bool {
	switch {
	case r.Backfill.ReserveForAll:
		if admitted && r.Backfill.MayReserve(e, now) {
			r.Backfill.ReserveFor(e, now)
		}
		if r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e) {
			pass.BlockQueue()
		} else {
			pass.Skip()
		}
	case r.Place.WouldDelay && r.cfg.Queue.Blocked != config.BlockedHold:
		// Only it: others of its shape may be done sooner.
		news := e.Shape.RefusedInCycle != r.Place.Cycle
		e.Shape.RefusedInCycle = r.Place.Cycle
		pass.Skip()
		return news
	case r.cfg.Queue.Blocked == config.BlockedHold && r.jobs.DependenciesMet(e):
		pass.BlockQueue()
	default:
		if admitted && r.Backfill.MayReserve(e, now) && r.Backfill.ReserveFor(e, now) {
			r.Backfill.Reservations[len(r.Backfill.Reservations)-1].Firm = r.blockedShapes == 0
		}
		if admitted {
			r.blockedShapes++
		}
		pass.SkipShape()
	}
	return true
}
