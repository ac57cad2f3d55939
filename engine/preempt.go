package engine

import (
	"time"

	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
)

// preemptRound is what preemption knows in one cycle: the nominations, the jobs
// that are being stopped, and the candidates.
type preemptRound struct {
	cfg      *config.Config
	cluster  *cluster.Cluster
	scorer   *score.Scorer
	jobs     *job.Table
	windows  *window.Calendar
	txn      *cluster.Txn
	place    *placement.Placer
	backfill *backfill.BackfillRound

	restartHolds        []restartHold             // that lost a node, with what is kept for them
	stopping            []*job.Entry              // are stopped by this plan, to give way
	destinations        []backfill.NominationHold // places of those of them who are moved
	victims             []*job.Entry              // of whom it was worked out what their giving way costs
	victimAt            []*candidateVictim        // the same by the number of the job, nil for the others
	loadedClasses       uint8                     // the classes of these
	searchCount         int                       // counts the searches for victims
	searchedShapes      int                       // the shapes for which that was done
	failedSearches      []failedSearch            // those that found none
	preemptionNotes     []ares.Blocker            // why nobody gives way to the job whose turn it is
	allowMoves          bool                      // jobs may be moved
	consolidationTries  int                       // the shapes for which that was tried
	consolidationsFound []ares.Consolidation      // what came of it, unless it is nil
}

func (pr *preemptRound) begin() {
	clear(pr.restartHolds)
	pr.restartHolds = pr.restartHolds[:0]
	pr.searchedShapes, pr.preemptionNotes = 0, nil
	pr.allowMoves, pr.consolidationTries = pr.cfg.Preemption.Moving, 0
}

func (pr *preemptRound) close() {
	pr.resetVictims()
	clear(pr.stopping)
	clear(pr.failedSearches)
	clear(pr.destinations)
	pr.stopping, pr.failedSearches, pr.destinations = pr.stopping[:0], pr.failedSearches[:0], pr.destinations[:0]
}

// preemptionBlockers says what comes of a waiting job's right to have others give way, if
// it has one.
func (pr *preemptRound) preemptionBlockers(e *job.Entry, now time.Time) []ares.Blocker {
	if e == nil || e.Job == nil || e.Queue != job.InPending {
		return nil
	}
	if e.Run != nil && e.Run.Nominated != nil {
		k := backfill.NominationHold{Seats: e.Run.Nominated.Seats}
		_, k.FreeSeats = pr.txn.HoldSeats(k.Seats)
		return []ares.Blocker{waitBlocker(&k)}
	}
	members, _ := pr.jobs.AdmissibleMembers(e.Shape, now)
	if found, ok := pr.findPreemption(&ares.Plan{Now: now}, e, members > 0); ok {
		pr.notePreemption("%s", preemptionText(pr.newNomination(e, &found, now)))
	}
	return pr.preemptionNotes
}
