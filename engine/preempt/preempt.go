package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/window"
)

// Round is the state of preemption in one cycle: the jobs being stopped, the candidate
// victims, and the capacity held for restarts and moves.
type Round struct {
	Cfg      *config.Config
	Cluster  *cluster.Cluster
	Scorer   *score.Scorer
	Jobs     *job.Table
	Windows  *window.Calendar
	Txn      *cluster.Txn
	Place    *placement.Placer
	Backfill *backfill.Round

	restartHolds        []restartHold             // for gangs that lost a node, and for jobs being moved
	Stopping            []*job.Entry              // jobs that this plan stops
	destinations        []backfill.NominationHold // new seats of the jobs that this plan moves
	Victims             []*job.Entry              // jobs loaded by loadVictims
	victimBySlot        []*candidateVictim        // the same by Entry.Slot, nil for all other jobs
	loadedClasses       uint8                     // classes loaded by loadVictims, as bits
	searchID            int                       // ID of the last search for victims
	searches            int                       // searches for victims in this cycle
	failedSearches      []failedSearch            // searches of this cycle that found no victims
	PreemptionNotes     []ares.Blocker            // why no job is preempted for the offered job
	AllowMoves          bool                      // running jobs may be moved
	consolidations      int                       // searches for jobs to move in this cycle
	ConsolidationsFound []ares.Consolidation      // moves decided in this cycle; nil if they are not recorded
}

// Begin resets the round for a new cycle.
func (r *Round) Begin() {
	clear(r.restartHolds)
	r.restartHolds = r.restartHolds[:0]
	r.searches, r.PreemptionNotes = 0, nil
	r.AllowMoves, r.consolidations = r.Cfg.Preemption.Moving, 0
}

// Close drops the data of the current cycle.
func (r *Round) Close() {
	r.resetVictims()
	clear(r.Stopping)
	clear(r.failedSearches)
	clear(r.destinations)
	r.Stopping, r.failedSearches, r.destinations = r.Stopping[:0], r.failedSearches[:0], r.destinations[:0]
}

// PreemptionBlockers returns blockers that say whether jobs are preempted for a waiting job. If the job has a right
// to preempt but no job is preempted, the blockers say why.
func (r *Round) PreemptionBlockers(e *job.Entry, now time.Time) []ares.Blocker {
	if e == nil || e.Job == nil || e.Queue != job.InPending {
		return nil
	}
	if e.Run != nil && e.Run.Nominated != nil {
		hold := backfill.NominationHold{Seats: e.Run.Nominated.Seats}
		_, hold.FreeSeats = r.Txn.HoldSeats(hold.Seats)
		return []ares.Blocker{WaitBlocker(&hold)}
	}
	members, _ := r.Jobs.AdmissibleMembers(e.Shape, now)
	if found, ok := r.findPreemption(&ares.Plan{Now: now}, e, members > 0); ok {
		r.notePreemption("%s", PreemptionText(r.newNomination(e, &found, now)))
	}
	return r.PreemptionNotes
}

// maxSearches limits the searches for victims in one cycle. So a cycle stays short even if many jobs may preempt
// others and no search finds enough victims.
const maxSearches = 64

// PreemptFor preempts running jobs for a blocked job. The job must have the right to preempt, and it must fit
// afterwards. The seats are held for the blocked job from now on, and a later plan places it.
func (r *Round) PreemptFor(round *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, admitted bool) bool {
	found, ok := r.findPreemption(plan, e, admitted)
	if ok {
		r.nominate(round, plan, e, &found)
	}
	return ok
}

// findPreemption finds the victims of a waiting job, and the seats that the job gets. The job needs no victims if
// it fits once all stopping jobs have ended. The job also needs no victims if enough running jobs are expected to
// end before a stop would take effect. If a job has a right to preempt but finds no victims, the notes say why.
func (r *Round) findPreemption(plan *ares.Plan, e *job.Entry, admitted bool) (found victimSelection, ok bool) {
	sh := e.Shape
	r.PreemptionNotes = nil
	// If the waiting job has an affinity, a victim could be the job near which the waiting job must be placed.
	if r.Place.WouldDelay || r.Place.WindowBlocked || e.IsArray() || len(sh.Affinity)+len(sh.AntiAffinity) > 0 {
		return found, false
	}
	if admitted {
		if found, ok = r.findConsolidation(e, plan); ok {
			return found, true
		}
	}
	rights, guaranteed := r.rightsOf(e, admitted, plan.Now)
	if rights == 0 && admitted {
		r.noteNotAllowed(e)
	}
	if rights&(rightByOrder|rightByLength) == 0 && (rights == 0 || r.knownToFail(sh, rights, e.ClassRank())) {
		return found, false
	}
	if r.restartIsPending() {
		r.notePreemption("preemption waits for a gang that lost a node: it is placed first and may leave devices free")
		return found, false
	}
	if len(r.Jobs.Running.Nominated)+len(plan.Nominate) >= config.MaxNominations {
		r.notePreemption("preemption waits: %d jobs already wait for other jobs to stop, which is the limit", config.MaxNominations)
		return found, false
	}
	if r.searches++; r.searches > maxSearches {
		return found, false
	}
	// Hold the reservations that this job must not delay. The reservations that were held so far were chosen
	// for the previous job.
	r.Backfill.HoldReservations(r.Backfill.DelayedReservations(e.EndsBy(plan.Now)))
	base := r.Txn.Mark()
	r.assumeStopsDone()
	switch found, ok = r.fitsOnceStopped(e, rights.reason(), plan.Now); {
	case ok:
	case rights&rightByOrder != 0:
		found, ok = r.victimsByOrder(e, plan)
	default:
		if others := rights &^ rightByLength; others != 0 && !r.knownToFail(sh, others, e.ClassRank()) {
			found, ok = r.searchVictims(e, others, guaranteed, plan)
		}
		if !ok && rights&rightByLength != 0 {
			found, ok = r.longerVictims(e, plan)
		}
	}
	r.chargeStopping(1)
	r.Txn.Undo(base)
	return found, ok
}

// victimSelection holds the victims of a waiting job, and the seats that the job gets.
type victimSelection struct {
	reason     ares.PreemptionBasis
	seats      []ares.Seat
	victims    []*candidateVictim
	freeWithin time.Duration // when the seats become free, if there are no victims

	// These fields are set only for a consolidation.
	waitSaved    time.Duration                    // how much sooner the job starts
	waitKnown    bool                             // the start without moves is known
	destinations map[*candidateVictim][]ares.Seat // the new seats of each victim
}

// notePreemption records why no job is preempted for the waiting job that the cycle considers.
func (r *Round) notePreemption(format string, args ...any) {
	r.PreemptionNotes = append(r.PreemptionNotes, ares.Blocker{Kind: ares.BlockerPreemption, Detail: ares.Textf(format, args...)})
}

// failedSearch is a search that found no victims in this cycle.
type failedSearch struct {
	request *cluster.Request
	shape   *job.Shape // for preemption by quota the result holds only for the same leaf queue
	rights  preemptionRights
	rank    int
}

// knownToFail reports whether an earlier search for the same request in this cycle found no victims. If the job
// may preempt only because of its higher class, a failed search for another tenant's job also counts. If the
// job may reclaim quota, only a failed search for a job of the same job.Shape counts.
func (r *Round) knownToFail(sh *job.Shape, rights preemptionRights, rank int) bool {
	return slices.ContainsFunc(r.failedSearches, func(v failedSearch) bool {
		return v.request == sh.Request && v.rights == rights && v.rank >= rank && (v.shape == sh || rights == rightByClass && v.shape.AsksAlike(sh))
	})
}
