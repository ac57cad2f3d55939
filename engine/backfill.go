package engine

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

// backfillRound is what backfill knows in one cycle: the reservations of blocked
// jobs, and when nodes are expected to have room.
type backfillRound struct {
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer
	jobs    *job.Table
	windows *window.Calendar
	txn     *cluster.Txn
	place   *placement.Placer

	forecasts        []nodeForecast // by position
	forecastLayout   int            // layout as of which positions are right
	openings         [job.Quantiles]map[*cluster.Request]*openings
	openingCaches    [job.Quantiles][]*cluster.Request // that have openings, oldest first
	firstScratch     []int64                           // scratch of enough
	shortage         deviceShortage                    // scratch of nearest
	increaseScratch  []roomIncrease                    // scratch of enough
	backfill         config.BackfillConfig             // as of this decision
	reservations     []backfillReservation
	heldReservations uint64           // which of them hold what they have
	reservationTries int              // times one was looked for
	probes           int              // times somebody was seen to be kept off
	reserveForAll    bool             // each has its own, whether alike or not: to foresee who is behind
	quantile         job.Quantile     // ends are foreseen by
	holds            []nominationHold // the nominations
	holdsBefore      int              // of these, those that were there before the decision
}

func (b *backfillRound) begin() {
	clear(b.reservations)
	b.backfill, b.reservations = b.backfillConfig(), b.reservations[:0]
	b.heldReservations, b.reservationTries, b.probes, b.reserveForAll, b.quantile = 0, 0, 0, false, job.P90
	if b.cfg.Queue.Blocked == config.BlockedReserve { // as it was published
		b.quantile = job.P50
	}
}

// nominationHold is a nomination in one decision: its seats, and what of them is free
// and so held, in order that nobody else is given it.
type nominationHold struct {
	entry     *job.Entry
	seats     []ares.Seat
	until     time.Time // its seats are free by then, or given up
	held      []cluster.Delta
	freeSeats int              // seats of which all is held
	grant     queue.Allocation // counts for limits and quotas meanwhile, and for no share
	over      bool             // it has its place, or was given up: nothing is held
	invalid   string           // why it was given up
}

// knownUnschedulable says whether the shape is known to find no place.
func (b *backfillRound) knownUnschedulable(sh *job.Shape, ban uint64) bool {
	r := &sh.Unschedulable
	if r.Known = r.Known && r.Layout == b.cluster.Layout && r.Ban&^ban == 0 && b.cluster.RefreshGains(sh.Request) && r.Seen >= sh.Request.Gains.From; !r.Known {
		return false
	}
	for _, g := range sh.Request.Gains.Nodes {
		if n := b.cluster.Nodes[g.At]; g.When > r.Seen && n.Schedulable() && b.roomIgnoringHolds(n, sh.Request) > 0 {
			r.Known = false
			return false
		}
	}
	return true
}

// backfillConfig is how places are kept: of one job of each queue that reserves by
// its order, or else as configured.
func (b *backfillRound) backfillConfig() config.BackfillConfig {
	switch q := &b.cfg.Queue; {
	case q.Blocked == config.BlockedReserve:
		return config.BackfillConfig{First: config.MaxReserved}
	case q.Blocked == config.BlockedSkip && !q.Preempt:
		return b.cfg.Backfill
	}
	return config.BackfillConfig{}
}
