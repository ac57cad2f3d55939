package backfill

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/placement"
	"github.com/ares-scheduler/ares/engine/window"
)

// Round is the state of backfill in one cycle: the reservations of blocked jobs, and the times at which nodes are
// expected to have free capacity. Forecasts and openings persist across cycles. A forecast or opening is computed
// again only if its node changed.
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

	openTimes     []int64            // scratch of timeWithCapacity
	increases     []capacityIncrease // scratch of timeWithCapacity
	shortage      deviceShortage     // scratch of cheapestNodes
	nodeReadiness []nodeReadiness    // scratch of cheapestNodes

	Backfill         config.BackfillConfig // the configuration in effect in this cycle
	Reservations     []Reservation         // no more than 64, because a set of reservations is a 64-bit mask
	Held             int                   // number of Reservations that HoldFor made; they are the first ones
	HeldReservations uint64                // reservations that hold their free parts now
	ReservationTries int                   // calls of ReserveFor
	probes           int                   // number of placements tried without holds; see maxProbes
	ReserveForAll    bool                  // every blocked job gets a reservation, to predict start times
	Quantile         job.Quantile          // quantile of the runtime estimates

	Holds       []NominationHold // nominations of this cycle
	HoldsBefore int              // number of nominations at the start of Holds that were made by earlier plans
}

// Begin resets the round for a new cycle.
func (b *Round) Begin() {
	clear(b.Reservations)
	b.Backfill, b.Reservations = b.BackfillConfig(), b.Reservations[:0]
	b.Held, b.HeldReservations, b.ReservationTries, b.probes, b.ReserveForAll, b.Quantile = 0, 0, 0, 0, false, job.P90
	if b.Cfg.Queue.Blocked == config.BlockedReserve { // EASY backfill as published
		b.Quantile = job.P50
	}
}

// KnownUnschedulable reports whether a job is known not to fit. This is so if a job with equal needs
// could not be placed, and no node has gained enough capacity for a member since then.
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

// BackfillConfig returns the backfill configuration in effect. If the policy for blocked jobs is to reserve, the
// first blocked job of each queue gets a reservation. If the policy is to skip blocked jobs, the configured number
// of reservations applies. Under any other policy, no backfill reservations are made.
func (b *Round) BackfillConfig() config.BackfillConfig {
	switch q := &b.Cfg.Queue; {
	case q.Blocked == config.BlockedReserve:
		return config.BackfillConfig{First: config.MaxReserved}
	case q.Blocked == config.BlockedSkip && !q.Preempt:
		return b.Cfg.Backfill
	}
	return config.BackfillConfig{}
}
