package engine

import ares "github.com/ares-scheduler/ares"

// round is one pass over the waiting jobs.
type round struct {
	cfg      *Config
	cluster  *Cluster
	scorer   *Scorer
	jobs     *jobTable
	windows  *calendar
	txn      *Txn
	place    *Placer
	backfill *backfillRound
	preempt  *preemptRound

	unplaced      int            // shapes that found no place
	noBorrowing   bool           // nobody borrows what others are promised
	borrowBlocked bool           // that keeps off the job whose turn it was
	borrowed      bool           // somebody was given what others are promised
	lastRefusals  int            // of the last one, for the room of the next
	plannedStarts []ares.Promise // by the last one
}

func newRound(co *core) *round {
	txn := &Txn{cluster: co.cluster}
	place := &Placer{cfg: &co.cfg, cluster: co.cluster, scorer: co.scorer, jobs: co.jobs, windows: co.windows, txn: txn}
	backfill := &backfillRound{cfg: &co.cfg, cluster: co.cluster, scorer: co.scorer, jobs: co.jobs, windows: co.windows, txn: txn, place: place}
	preempt := &preemptRound{cfg: &co.cfg, cluster: co.cluster, scorer: co.scorer, jobs: co.jobs, windows: co.windows, txn: txn, place: place, backfill: backfill}
	return &round{cfg: &co.cfg, cluster: co.cluster, scorer: co.scorer, jobs: co.jobs, windows: co.windows, txn: txn, place: place, backfill: backfill, preempt: preempt}
}

// begin begins a round. The caller closes it.
func (t *round) begin() *round {
	t.place.cycle++
	t.place.epoch++
	t.backfill.begin()
	t.preempt.begin()
	t.unplaced, t.noBorrowing, t.borrowBlocked, t.borrowed = 0, false, false, false
	return t
}

func (b *backfillRound) begin() {
	clear(b.reservations)
	b.backfill, b.reservations = b.backfillConfig(), b.reservations[:0]
	b.heldReservations, b.reservationTries, b.probes, b.reserveForAll, b.quantile = 0, 0, 0, false, p90
	if b.cfg.Queue.Blocked == BlockedReserve { // as it was published
		b.quantile = p50
	}
}

func (pr *preemptRound) begin() {
	clear(pr.restartHolds)
	pr.restartHolds = pr.restartHolds[:0]
	pr.searchedShapes, pr.preemptionNotes = 0, nil
	pr.allowMoves, pr.consolidationTries = pr.cfg.Preemption.Moving, 0
}

// close gives back everything that was taken, and forgets the rest.
func (t *round) close() {
	t.place.noteReturnedRoom()
	t.txn.undo(0)
	t.place.close()
	t.preempt.close()
}

func (pl *Placer) close() {
	clear(pl.placed)
	pl.placed, pl.offer = pl.placed[:0], ares.Placing{}
}

func (pr *preemptRound) close() {
	pr.resetVictims()
	clear(pr.stopping)
	clear(pr.failedSearches)
	clear(pr.destinations)
	pr.stopping, pr.failedSearches, pr.destinations = pr.stopping[:0], pr.failedSearches[:0], pr.destinations[:0]
}
