package backfill

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/window"
)

// Round is the state of backfill in one cycle: the reservations of blocked jobs, and
// when nodes are expected to have free capacity. Forecasts and openings are kept from
// cycle to cycle, and refreshed only where nodes changed.
type Round struct {
	Cfg     *config.Config
	Cluster *cluster.Cluster
	Scorer  *score.Scorer
	Jobs    *job.Table
	Windows *window.Calendar
	Txn     *cluster.Txn
	Place   *placement.Placer

	forecasts      []nodeForecast // by node position
	forecastLayout int            // cluster layout of these positions
	openings       [job.Quantiles]map[*cluster.Request]*openings
	openingsOrder  [job.Quantiles][]*cluster.Request // keys of openings, oldest first

	openTimes []int64            // scratch of timeWithCapacity
	increases []capacityIncrease // scratch of timeWithCapacity
	shortage  deviceShortage     // scratch of nearestNodes

	Backfill         config.BackfillConfig // in effect in this cycle
	Reservations     []backfillReservation // at most 64: sets of them are bit masks
	HeldReservations uint64                // reservations that hold their free parts now
	ReservationTries int                   // calls of ReserveFor
	probes           int                   // placements tried without holds, see maxProbes
	ReserveForAll    bool                  // every blocked job gets a reservation: to predict start times
	Quantile         job.Quantile          // of the runtime estimates

	Holds       []NominationHold // nominations of this cycle
	HoldsBefore int              // the first of Holds: nominations made by earlier plans
}

// Begin resets the round for a new cycle.
func (b *Round) Begin() {
	clear(b.Reservations)
	b.Backfill, b.Reservations = b.BackfillConfig(), b.Reservations[:0]
	b.HeldReservations, b.ReservationTries, b.probes, b.ReserveForAll, b.Quantile = 0, 0, 0, false, job.P90
	if b.Cfg.Queue.Blocked == config.BlockedReserve { // as it was published
		b.Quantile = job.P50
	}
}

// KnownUnschedulable reports whether the shape was found to fit nowhere, and no node has
// gained capacity for it since.
func (b *Round) KnownUnschedulable(sh *job.Shape, ban uint64) bool {
	r := &sh.Unschedulable
	if r.Known = r.Known && r.Layout == b.Cluster.Layout && r.Ban&^ban == 0 && b.Cluster.RefreshGains(sh.Request) && r.Seen >= sh.Request.Gains.From; !r.Known {
		return false
	}
	for _, g := range sh.Request.Gains.Nodes {
		if n := b.Cluster.Nodes[g.At]; g.When > r.Seen && n.Schedulable() && b.capacityIgnoringReservations(n, sh.Request) > 0 {
			r.Known = false
			return false
		}
	}
	return true
}

// BackfillConfig is the configuration in effect: one reservation for each queue if
// blocked jobs reserve by queue order, as configured if blocked jobs are skipped, and
// no reservations otherwise.
func (b *Round) BackfillConfig() config.BackfillConfig {
	switch q := &b.Cfg.Queue; {
	case q.Blocked == config.BlockedReserve:
		return config.BackfillConfig{First: config.MaxReserved}
	case q.Blocked == config.BlockedSkip && !q.Preempt:
		return b.Cfg.Backfill
	}
	return config.BackfillConfig{}
}
