package preempt

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

// Round is what preemption knows in one cycle: the nominations, the jobs
// that are being stopped, and the candidates.
type Round struct {
	Cfg      *config.Config
	Cluster  *cluster.Cluster
	Scorer   *score.Scorer
	Jobs     *job.Table
	Windows  *window.Calendar
	Txn      *cluster.Txn
	Place    *placement.Placer
	Backfill *backfill.Round

	restartHolds        []restartHold             // that lost a node, with what is kept for them
	Stopping            []*job.Entry              // are stopped by this plan, to give way
	destinations        []backfill.NominationHold // places of those of them who are moved
	Victims             []*job.Entry              // of whom it was worked out what their giving way costs
	victimAt            []*candidateVictim        // the same by the number of the job, nil for the others
	loadedClasses       uint8                     // the classes of these
	searchCount         int                       // counts the searches for victims
	searchedShapes      int                       // the shapes for which that was done
	failedSearches      []failedSearch            // those that found none
	PreemptionNotes     []ares.Blocker            // why nobody gives way to the job whose turn it is
	AllowMoves          bool                      // jobs may be moved
	consolidationTries  int                       // the shapes for which that was tried
	ConsolidationsFound []ares.Consolidation      // what came of it, unless it is nil
}

func (pr *Round) Begin() {
	clear(pr.restartHolds)
	pr.restartHolds = pr.restartHolds[:0]
	pr.searchedShapes, pr.PreemptionNotes = 0, nil
	pr.AllowMoves, pr.consolidationTries = pr.Cfg.Preemption.Moving, 0
}

func (pr *Round) Close() {
	pr.resetVictims()
	clear(pr.Stopping)
	clear(pr.failedSearches)
	clear(pr.destinations)
	pr.Stopping, pr.failedSearches, pr.destinations = pr.Stopping[:0], pr.failedSearches[:0], pr.destinations[:0]
}

// PreemptionBlockers says what comes of a waiting job's right to have others give way, if
// it has one.
func (pr *Round) PreemptionBlockers(e *job.Entry, now time.Time) []ares.Blocker {
	if e == nil || e.Job == nil || e.Queue != job.InPending {
		return nil
	}
	if e.Run != nil && e.Run.Nominated != nil {
		k := backfill.NominationHold{Seats: e.Run.Nominated.Seats}
		_, k.FreeSeats = pr.Txn.HoldSeats(k.Seats)
		return []ares.Blocker{WaitBlocker(&k)}
	}
	members, _ := pr.Jobs.AdmissibleMembers(e.Shape, now)
	if found, ok := pr.findPreemption(&ares.Plan{Now: now}, e, members > 0); ok {
		pr.notePreemption("%s", PreemptionText(pr.newNomination(e, &found, now)))
	}
	return pr.PreemptionNotes
}
