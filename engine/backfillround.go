package engine

// backfillRound is what backfill knows in one cycle: the reservations of blocked
// jobs, and when nodes are expected to have room.
type backfillRound struct {
	cfg     *Config
	cluster *Cluster
	scorer  *Scorer
	jobs    *jobTable
	windows *calendar
	txn     *Txn
	place   *Placer

	openingCaches    [quantiles][]*request // that have openings, oldest first
	firstScratch     []int64               // scratch of enough
	shortage         deviceShortage        // scratch of nearest
	increaseScratch  []roomIncrease        // scratch of enough
	backfill         BackfillConfig        // as of this decision
	reservations     []backfillReservation
	heldReservations uint64           // which of them hold what they have
	reservationTries int              // times one was looked for
	probes           int              // times somebody was seen to be kept off
	reserveForAll    bool             // each has its own, whether alike or not: to foresee who is behind
	quantile         quantile         // ends are foreseen by
	holds            []nominationHold // the nominations
	holdsBefore      int              // of these, those that were there before the decision
}
