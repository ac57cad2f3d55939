package preempt

import (
	"fmt"
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

	restartHolds        []restartHold             // of gangs that lost a node, and of jobs being moved
	Stopping            []*job.Entry              // jobs that this plan stops
	destinations        []backfill.NominationHold // new seats of the jobs that this plan moves
	Victims             []*job.Entry              // jobs loaded by loadVictims
	victimBySlot        []*candidateVictim        // the same by Entry.Slot, nil for all other jobs
	loadedClasses       uint8                     // classes loaded by loadVictims, as bits
	searchID            int                       // of the last search for victims
	searches            int                       // searches for victims in this cycle
	failedSearches      []failedSearch            // searches of this cycle that found no victims
	PreemptionNotes     []ares.Blocker            // why no job is preempted for the job on offer
	AllowMoves          bool                      // running jobs may be moved
	consolidations      int                       // searches for jobs to move in this cycle
	ConsolidationsFound []ares.Consolidation      // moves decided in this cycle; nil: not recorded
}

// Begin resets the round for a new cycle.
func (r *Round) Begin() {
	clear(r.restartHolds)
	r.restartHolds = r.restartHolds[:0]
	r.searches, r.PreemptionNotes = 0, nil
	r.AllowMoves, r.consolidations = r.Cfg.Preemption.Moving, 0
}

// Close drops what belongs to one cycle only.
func (r *Round) Close() {
	r.resetVictims()
	clear(r.Stopping)
	clear(r.failedSearches)
	clear(r.destinations)
	r.Stopping, r.failedSearches, r.destinations = r.Stopping[:0], r.failedSearches[:0], r.destinations[:0]
}

// PreemptionBlockers says whether jobs are preempted for a waiting job, and why not if it
// has a right to it.
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

// maxSearches is the number of searches for victims in one cycle, so that a cycle stays
// short when many jobs may preempt and none finds enough victims.
const maxSearches = 64

// PreemptFor preempts running jobs for a blocked job, if it has a right to that and then
// fits. Its seats are held from now on, and a later plan places it.
func (r *Round) PreemptFor(round *queue.Round[*job.Entry], plan *ares.Plan, e *job.Entry, admitted bool) bool {
	found, ok := r.findPreemption(plan, e, admitted)
	if ok {
		r.nominate(round, plan, e, &found)
	}
	return ok
}

// findPreemption finds the victims of a job, and the seats it gets. If the job fits once
// the jobs being stopped are gone, or once jobs have ended that are expected to end
// before a stop would take effect, it gets these seats and has no victims.
// If a job has a right to preempt but finds no victims, the notes say why.
func (r *Round) findPreemption(plan *ares.Plan, e *job.Entry, admitted bool) (found victimSelection, ok bool) {
	sh := e.Shape
	r.PreemptionNotes = nil
	// With affinity a victim may be the very job that the waiting job must be near.
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
	if rights == 0 || rights&rightByOrder == 0 && r.knownToFail(sh, rights, e.ClassRank()) {
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
	// The job offered before may have left other reservations held.
	r.Backfill.HoldReservations(r.Backfill.DelayedReservations(e.EndsBy(plan.Now)))
	base := r.Txn.Mark()
	r.assumeStopsDone()
	switch found, ok = r.fitsOnceStopped(e, rights.reason(), plan.Now); {
	case ok:
	case rights&rightByOrder != 0:
		found, ok = r.victimsByOrder(e, plan)
	default:
		found, ok = r.searchVictims(e, rights, guaranteed, plan)
	}
	r.chargeStopping(1)
	r.Txn.Undo(base)
	return found, ok
}

// victimSelection is the victims of a job, and the seats it gets.
type victimSelection struct {
	reason     ares.PreemptionBasis
	seats      []ares.Seat
	victims    []*candidateVictim
	freeWithin time.Duration // when the seats are free, without victims

	// Of a consolidation:
	waitSaved    time.Duration                    // how much sooner the job starts
	waitKnown    bool                             // the start without moves is known
	destinations map[*candidateVictim][]ares.Seat // the new seats of each victim
}

// notePreemption notes why no job is preempted for the job on offer.
func (r *Round) notePreemption(format string, args ...any) {
	r.PreemptionNotes = append(r.PreemptionNotes, ares.Blocker{Kind: ares.BlockerPreemption, Detail: fmt.Sprintf(format, args...)})
}

// failedSearch is a search that found no victims in this cycle.
type failedSearch struct {
	request *cluster.Request
	shape   *job.Shape // by quota the outcome holds only for the same leaf queue
	rights  preemptionRights
	rank    int
}

// knownToFail reports whether a search for the same request found no victims in this
// cycle. By class the tenant does not matter; by quota the shape must be the same.
func (r *Round) knownToFail(sh *job.Shape, rights preemptionRights, rank int) bool {
	return slices.ContainsFunc(r.failedSearches, func(v failedSearch) bool {
		return v.request == sh.Request && v.rights == rights && v.rank >= rank && (v.shape == sh || rights == rightByClass && v.shape.AsksAlike(sh))
	})
}
