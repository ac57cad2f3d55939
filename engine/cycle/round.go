package cycle

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/backfill"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/preempt"
	"github.com/ares-scheduler/ares/engine/state"
	"github.com/ares-scheduler/ares/engine/window"
)

// Round is the working state of one pass over the waiting jobs. A Round is reused for all passes of a state.
// Between two passes, a Round holds no capacity of the cluster.
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

	blocked       bool // an admitted job was not placed in this pass
	blockedShapes int  // admitted shapes that were not placed in this pass
	noBorrowing   bool // jobs that would borrow quota are not placed in this pass
	borrowBlocked bool // noBorrowing blocks the current job
	borrowed      bool // a job that borrows quota was placed in this pass

	LastRefusals  int                 // number of refusals in the last plan, used as capacity for the next plan's list
	PlannedStarts []ares.PlannedStart // the backfill reservations of the last plan
}

// NewRound returns a round over a state. All parts of a round share one transaction.
func NewRound(s *state.State) *Round {
	txn := &cluster.Txn{Cluster: s.Cluster}
	place := &placement.Placer{Cfg: &s.Cfg, Cluster: s.Cluster, Scorer: s.Scorer, Jobs: s.Jobs, Windows: s.Windows, Txn: txn}
	backfill := &backfill.Round{Cfg: &s.Cfg, Cluster: s.Cluster, Scorer: s.Scorer, Jobs: s.Jobs, Windows: s.Windows, Txn: txn, Place: place}
	preempt := &preempt.Round{Cfg: &s.Cfg, Cluster: s.Cluster, Scorer: s.Scorer, Jobs: s.Jobs, Windows: s.Windows, Txn: txn, Place: place, Backfill: backfill}
	return &Round{cfg: &s.Cfg, cluster: s.Cluster, scorer: s.Scorer, jobs: s.Jobs, windows: s.Windows, Txn: txn, Place: place, Backfill: backfill, Preempt: preempt}
}

// Begin starts a pass and returns the round. Jobs placed in the pass start at the given time. The pass also uses
// the administrators' reservations of that time. The caller must call Close.
func (r *Round) Begin(at time.Time) *Round {
	r.Place.At = at
	r.Place.Cycle++
	r.Place.Epoch++
	r.Backfill.Begin()
	r.Preempt.Begin()
	r.blocked, r.blockedShapes, r.noBorrowing, r.borrowBlocked, r.borrowed = false, 0, false, false, false
	return r
}

// Close ends a pass and undoes everything that the pass took from the cluster. The backfill reservations remain readable
// until the next Begin.
func (r *Round) Close() {
	r.Place.RecordReturnedCapacity()
	r.Txn.Undo(0)
	r.Place.Close()
	r.Preempt.Close()
}

// RecordPlannedStarts copies the backfill reservations of the last pass to PlannedStarts. A planned start is firm if
// five conditions hold: no earlier job was blocked, the start time is known, the job would not borrow quota, no
// administrator's reservation blocks the job, and jobs that arrive later do not come first. With
// config.OrderExpectedWork a shorter job may arrive at any time, so no planned start is firm.
func (r *Round) RecordPlannedStarts() {
	clear(r.PlannedStarts)
	r.PlannedStarts = r.PlannedStarts[:0]
	for i := range r.Backfill.Reservations {
		res := &r.Backfill.Reservations[i]
		p := res.PlannedStart()
		p.Firm = res.Firm && r.cfg.Queue.Order != config.OrderExpectedWork && !p.At.IsZero() && !r.jobs.WouldBorrowNow(res.Entry) && len(r.windows.WindowsBlocking(res.Entry, r.Place.StayOf(res.Entry))) == 0
		r.PlannedStarts = append(r.PlannedStarts, p)
	}
}
