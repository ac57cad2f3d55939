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

	unplaced      int            // shapes that found no place
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
func (t *Round) Begin() *Round {
	t.Place.Cycle++
	t.Place.Epoch++
	t.Backfill.Begin()
	t.Preempt.Begin()
	t.unplaced, t.noBorrowing, t.borrowBlocked, t.borrowed = 0, false, false, false
	return t
}

// Close gives back everything that was taken, and forgets the rest.
func (t *Round) Close() {
	t.Place.NoteReturnedRoom()
	t.Txn.Undo(0)
	t.Place.Close()
	t.Preempt.Close()
}

// RecordPlannedStarts keeps the reservations of a decision for who asks.
func (t *Round) RecordPlannedStarts() {
	clear(t.PlannedStarts)
	t.PlannedStarts = t.PlannedStarts[:0]
	for i := range t.Backfill.Reservations {
		p := t.Backfill.Reservations[i].PlannedStart()
		p.Firm = t.Backfill.Reservations[i].Firm && !p.At.IsZero() && !t.jobs.WouldBorrowNow(t.Backfill.Reservations[i].Entry) && len(t.windows.WindowsBlocking(t.Backfill.Reservations[i].Entry)) == 0
		t.PlannedStarts = append(t.PlannedStarts, p)
	}
}

// PlanRequired plans what has to be, whoever's turn it is.
func (t *Round) PlanRequired(plan *ares.Plan) {
	// 1. Settle: arrays that are over, delays that are over, and the next one
	// that will be. Who is where others have a reservation leaves: nobody need
	// give way to have what he has.
	t.jobs.ReadyDelayed(plan, plan.Now)
	t.jobs.EndFinishedArrays(plan)
	t.windows.EvictFromWindows(plan)
}

// RunCycle runs the cycle. Where it lends to some what others take back by stopping
// somebody, it runs again and lends nothing: what is free goes to who was promised
// it, and the others have their turn in the next plan.
func (t *Round) RunCycle(plan *ares.Plan, moves bool) (blocked []*job.Entry) {
	settled := *plan
	settled.Ready, settled.Arrays, settled.Stop = slices.Clip(plan.Ready), slices.Clip(plan.Arrays), slices.Clip(plan.Stop)
	t.Begin()
	t.Preempt.AllowMoves = moves
	if blocked = t.runCyclePass(plan); !t.borrowed || !slices.ContainsFunc(plan.Nominate, reclaimsQuota) {
		return blocked
	}
	*plan = settled
	t.Begin()
	t.Preempt.AllowMoves = moves
	t.noBorrowing, t.Preempt.ConsolidationsFound = true, t.Preempt.ConsolidationsFound[:0]
	blocked = t.runCyclePass(plan)
	if !plan.Empty() { // of the same state the next would be the same
		plan.Wake = plan.Now
	}
	return blocked
}

// reclaimsQuota says whether somebody is stopped for what a quota promises.
func reclaimsQuota(n ares.Nominating) bool {
	return n.Nomination.Why == ares.YieldQuota && len(n.Nomination.Victims) > 0
}

// runCyclePass is one cycle into the plan, and who was admitted and found no place.
func (t *Round) runCyclePass(plan *ares.Plan) (blocked []*job.Entry) {
	now := plan.Now
	// 2. Order: whose turn it is, by aged class, share, aged priority.
	t.run(plan, func(e *job.Entry, placing *ares.Placing, admitted bool) bool {
		switch {
		case placing != nil:
			plan.Place = append(plan.Place, *placing)
			if placing.ArrayOf != "" {
				AdvanceArray(plan, placing)
				if t.hitElementLimit(e) {
					plan.Wake = now
				}
			}
			if len(plan.Place) == config.MaxPlacings {
				plan.Wake = now
				return false
			}
			return true
		case admitted && t.cfg.Queue.Preempt:
			blocked = append(blocked, e)
		}
		t.jobs.WakeAtMonthEnd(plan, e.Shape.Tenant)
		if len(plan.Refuse) < config.MaxRefusals {
			if plan.Refuse == nil {
				plan.Refuse = make([]ares.Refusal, 0, t.LastRefusals)
			}
			plan.Refuse = append(plan.Refuse, ares.Refusal{Job: e.ID, Blockers: t.shortRefusal(e, admitted, now)})
		}
		return true
	})
	return blocked
}

// RunRound looks after the nominations, and then offers the waiting jobs in their
// order: each is admitted and placed, or has others give way, or is refused with
// its whole shape. tell hears of it, and ends the cycle by false; the placing it
// is shown is good until it returns. What it does to the plan is all but that.
func (t *Round) RunRound(plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	t.Begin().run(plan, tell)
}

// run is the state's, in a decision that has begun.
func (t *Round) run(plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	defer t.Close()
	t.expectStops(plan)
	t.cluster.PruneGains()
	t.jobs.AdvanceClock(plan.Now)
	defer t.Preempt.ReleaseNominations()
	defer t.Preempt.WithdrawFailed(plan)
	if !t.Preempt.AdvanceNominations(plan, nil, tell) {
		return
	}
	t.Preempt.HoldForRestarts(plan.Now, nil)
	t.Preempt.HoldForMigrating(plan.Now, nil)
	pass := t.jobs.Queues.BeginRound(plan.Now)
	defer pass.End()
	t.OfferInOrder(pass, plan, tell)
}

// expectStops counts on those to leave whom the plan stops already: elements of arrays
// that are to end, and who has to leave a reservation.
func (t *Round) expectStops(plan *ares.Plan) {
	for i := range plan.Stop {
		if e := t.jobs.EntryByID[plan.Stop[i].Job]; e != nil && e.RunningList >= job.InRunning {
			t.Preempt.Stopping = append(t.Preempt.Stopping, e)
		}
	}
}

func (t *Round) OfferInOrder(pass *queue.Round[*job.Entry], plan *ares.Plan, tell func(e *job.Entry, placing *ares.Placing, admitted bool) bool) {
	now := plan.Now
	for {
		it, ok := pass.Next()
		if !ok {
			return
		}
		e := it.Owner
		if !e.Plain && (t.jobs.ArrayIsStopping(e) || e.IsArray() && t.elementsToMake(e) <= 0) {
			pass.Skip()
			continue
		}
		if len(t.Backfill.Holds) > 0 {
			if done, more := t.offerNominated(pass, e, now, tell); !more {
				return
			} else if done {
				continue
			}
		}
		var admitted bool
		if admitted, ok = t.admitAndPlace(e, now); !ok {
			if !t.handleBlocked(pass, plan, e, admitted, tell) {
				return
			}
			continue
		}
		if grant := t.jobs.GrantOf(e.Shape, t.Place.Offer.Seats); !e.Plain && e.IsArray() {
			t.makeElement(e, &t.Place.Offer)
			pass.AllocatePart(grant)
			pass.EndTurn()
		} else {
			pass.Allocate(grant)
		}
		if !tell(e, &t.Place.Offer, true) {
			return
		}
	}
}

// offerNominated is the turn of a job for which seats are kept, if this is one:
// it may fit elsewhere by now. Others of its shape have their turn all the same.
func (t *Round) offerNominated(pass *queue.Round[*job.Entry], e *job.Entry, now time.Time, tell func(*job.Entry, *ares.Placing, bool) bool) (done, more bool) {
	k := t.Preempt.HoldOf(e)
	t.Place.WouldDelay, t.Place.WindowBlocked = false, false
	switch {
	case k == nil || k.Invalid != "":
		return false, true
	case k.Over:
		pass.Skip()
		return true, true
	case t.Preempt.PlaceElsewhere(pass, k, now):
		pass.Allocate(t.jobs.GrantOf(e.Shape, t.Place.Offer.Seats))
		return true, tell(e, &t.Place.Offer, true)
	}
	t.passOver(pass, e)
	t.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(k)}
	return true, tell(e, nil, true)
}

// passOver passes over a job that has to wait for its seats, and where queues are
// strict over everybody behind it.
func (t *Round) passOver(pass *queue.Round[*job.Entry], e *job.Entry) {
	if t.cfg.Queue.Blocked == config.BlockedHold && t.jobs.DependenciesMet(e) {
		pass.BlockQueue()
		return
	}
	pass.Skip()
}

// handleBlocked is what becomes of a job that found no place.
func (t *Round) handleBlocked(pass *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, admitted bool, tell func(*job.Entry, *ares.Placing, bool) bool) (more bool) {
	// 6. Yield: others give way to it, and the seats are kept for it.
	if !t.Backfill.ReserveForAll && t.Preempt.PreemptFor(pass, plan, e, admitted) {
		t.passOver(pass, e)
		t.Preempt.PreemptionNotes = []ares.Blocker{preempt.WaitBlocker(t.Preempt.HoldOf(e))}
		return tell(e, nil, admitted)
	}
	// 7. Refuse, once for each shape, and 5. reserve for the first that were:
	// others get a place behind them where that delays nobody.
	return !t.refuseShape(pass, e, admitted, plan.Now) || tell(e, nil, admitted)
}

// admitAndPlace admits one job, and places it by the offer.
func (t *Round) admitAndPlace(e *job.Entry, now time.Time) (admitted, ok bool) {
	t.Place.WouldDelay, t.Place.WindowBlocked, t.borrowBlocked = false, false, false
	t.Preempt.ReleaseToGang(e)
	// 3. Admit: dependencies, budget, limits, quotas.
	members, ban := t.jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || t.Backfill.KnownUnschedulable(e.Shape, ban) {
		return members > 0, false
	}
	if t.Place.OutlastsWindow(e) {
		return true, false
	}
	borrows := t.jobs.Queues.HasQuotas() && t.jobs.WouldBorrow(e.Shape)
	if borrows && t.noBorrowing {
		t.Place.WouldDelay, t.borrowBlocked = true, true
		return true, false
	}
	// 4. Place: the whole gang or nothing.
	t.scorer.BeginJob(e.ID, e.NextElement()+e.ElementsMade)
	if len(t.Backfill.Reservations) > 0 {
		t.Place.Offer, ok = t.Backfill.PlaceBackfill(e, members, ban, now)
	} else {
		t.Place.Offer, ok = t.Place.PlaceJob(e.Shape, members, ban, e)
	}
	if !ok {
		if !t.Place.WouldDelay && !t.Place.IsBlockedByWindows(e, members, ban) && !t.Place.Speculative {
			t.Place.RememberUnschedulable(e.Shape, ban)
		}
		return true, false
	}
	t.borrowed = t.borrowed || borrows
	t.Place.Offer.Job = e.ID
	t.Place.Placed = append(t.Place.Placed, placement.PlacedJob{Entry: e, Seats: t.Place.Offer.Seats})
	return true, true
}

// shortRefusal is a refusal without a look at the nodes one by one: what forbids the
// job, or that it found no room. Explain says the rest. Plans share the words;
// nobody changes them.
func (t *Round) shortRefusal(e *job.Entry, admitted bool, now time.Time) []ares.Blocker {
	sh := e.Shape
	if sh.NoRoomRefusal == nil {
		sh.NoRoomRefusal = []ares.Blocker{job.NoRoomBlocker(sh)}
	}
	out := sh.NoRoomRefusal
	switch {
	case !admitted:
		out = t.jobs.AdmissionBlockers(sh, now)
	case t.Place.WindowBlocked:
		return windowRefusal
	case t.borrowBlocked:
		return borrowRefusal
	case t.Place.WouldDelay:
		return wouldDelayRefusal
	}
	if words := t.Preempt.PreemptionNotes; len(words) > 0 {
		if t.Preempt.HasHold(e) {
			return words // it has its place, and waits for it
		}
		return slices.Concat(out, words)
	}
	return out
}

// windowRefusal is the short refusal of a job that would fit.
var windowRefusal = []ares.Blocker{{Kind: ares.BlockerReservation, Detail: "the nodes it would fit on are reserved, or will be before it is thought to end"}}

// wouldDelayRefusal is the short refusal of a job that would fit.
var wouldDelayRefusal = []ares.Blocker{{Kind: ares.BlockerOrder, Detail: "it would delay a job ahead of it, as far as predictions tell"}}

// borrowRefusal is the same of one that others' promises keep off.
var borrowRefusal = []ares.Blocker{{Kind: ares.BlockerQuota, Detail: job.BorrowBlockedText}}

// refuseShape passes over a job that found no place: with its whole shape, or with
// everybody behind it in its queue, as configured. It says whether that is news.
func (t *Round) refuseShape(pass *queue.Round[*job.Entry], e *job.Entry, admitted bool, now time.Time) bool {
	switch {
	case t.Backfill.ReserveForAll:
		if admitted && t.Backfill.MayReserve(e, now) {
			t.Backfill.ReserveFor(e, now)
		}
		if t.cfg.Queue.Blocked == config.BlockedHold && t.jobs.DependenciesMet(e) {
			pass.BlockQueue()
		} else {
			pass.Skip()
		}
	case t.Place.WouldDelay && t.cfg.Queue.Blocked != config.BlockedHold:
		// Only it: others of its shape may be done sooner.
		news := e.Shape.RefusedInCycle != t.Place.Cycle
		e.Shape.RefusedInCycle = t.Place.Cycle
		pass.Skip()
		return news
	case t.cfg.Queue.Blocked == config.BlockedHold && t.jobs.DependenciesMet(e):
		pass.BlockQueue()
	default:
		if admitted && t.Backfill.MayReserve(e, now) && t.Backfill.ReserveFor(e, now) {
			t.Backfill.Reservations[len(t.Backfill.Reservations)-1].Firm = t.unplaced == 0
		}
		if admitted {
			t.unplaced++
		}
		pass.SkipShape()
	}
	return true
}
