package backfill

import (
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Round is what backfill knows in one cycle: the reservations of blocked
// jobs, and when nodes are expected to have room.
type Round struct {
	Cfg     *config.Config
	Cluster *cluster.Cluster
	Scorer  *score.Scorer
	Jobs    *job.Table
	Windows *window.Calendar
	Txn     *cluster.Txn
	Place   *placement.Placer

	forecasts        []nodeForecast // by position
	forecastLayout   int            // layout as of which positions are right
	openings         [job.Quantiles]map[*cluster.Request]*openings
	openingCaches    [job.Quantiles][]*cluster.Request // that have openings, oldest first
	firstScratch     []int64                           // scratch of enough
	shortage         deviceShortage                    // scratch of nearest
	increaseScratch  []roomIncrease                    // scratch of enough
	Backfill         config.BackfillConfig             // as of this decision
	Reservations     []backfillReservation
	HeldReservations uint64           // which of them hold what they have
	ReservationTries int              // times one was looked for
	probes           int              // times somebody was seen to be kept off
	ReserveForAll    bool             // each has its own, whether alike or not: to foresee who is behind
	Quantile         job.Quantile     // ends are foreseen by
	Holds            []NominationHold // the nominations
	HoldsBefore      int              // of these, those that were there before the decision
}

func (b *Round) Begin() {
	clear(b.Reservations)
	b.Backfill, b.Reservations = b.BackfillConfig(), b.Reservations[:0]
	b.HeldReservations, b.ReservationTries, b.probes, b.ReserveForAll, b.Quantile = 0, 0, 0, false, job.P90
	if b.Cfg.Queue.Blocked == config.BlockedReserve { // as it was published
		b.Quantile = job.P50
	}
}

// NominationHold is a nomination in one decision: its seats, and what of them is free
// and so held, in order that nobody else is given it.
type NominationHold struct {
	Entry     *job.Entry
	Seats     []ares.Seat
	Until     time.Time // its seats are free by then, or given up
	Hold      cluster.Hold
	FreeSeats int              // seats of which all is held
	Grant     queue.Allocation // counts for limits and quotas meanwhile, and for no share
	Over      bool             // it has its place, or was given up: nothing is held
	Invalid   string           // why it was given up
}

// KnownUnschedulable says whether the shape is known to find no place.
func (b *Round) KnownUnschedulable(sh *job.Shape, ban uint64) bool {
	r := &sh.Unschedulable
	if r.Known = r.Known && r.Layout == b.Cluster.Layout && r.Ban&^ban == 0 && b.Cluster.RefreshGains(sh.Request) && r.Seen >= sh.Request.Gains.From; !r.Known {
		return false
	}
	for _, g := range sh.Request.Gains.Nodes {
		if n := b.Cluster.Nodes[g.At]; g.When > r.Seen && n.Schedulable() && b.roomIgnoringHolds(n, sh.Request) > 0 {
			r.Known = false
			return false
		}
	}
	return true
}

// BackfillConfig is how places are kept: of one job of each queue that reserves by
// its order, or else as configured.
func (b *Round) BackfillConfig() config.BackfillConfig {
	switch q := &b.Cfg.Queue; {
	case q.Blocked == config.BlockedReserve:
		return config.BackfillConfig{First: config.MaxReserved}
	case q.Blocked == config.BlockedSkip && !q.Preempt:
		return b.Cfg.Backfill
	}
	return config.BackfillConfig{}
}
