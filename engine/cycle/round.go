package cycle

import (
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

	blockedShapes int            // shapes that found no place
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
