package engine

import ares "github.com/ares-scheduler/ares"

// preemptRound is what preemption knows in one cycle: the nominations, the jobs
// that are being stopped, and the candidates.
type preemptRound struct {
	cfg      *Config
	cluster  *Cluster
	scorer   *Scorer
	jobs     *jobTable
	windows  *calendar
	txn      *Txn
	place    *Placer
	backfill *backfillRound

	restartHolds        []restartHold        // that lost a node, with what is kept for them
	stopping            []*entry             // are stopped by this plan, to give way
	destinations        []nominationHold     // places of those of them who are moved
	victims             []*entry             // of whom it was worked out what their giving way costs
	loadedClasses       uint8                // the classes of these
	searchCount         int                  // counts the searches for victims
	searchedShapes      int                  // the shapes for which that was done
	failedSearches      []failedSearch       // those that found none
	preemptionNotes     []ares.Blocker       // why nobody gives way to the job whose turn it is
	allowMoves          bool                 // jobs may be moved
	consolidationTries  int                  // the shapes for which that was tried
	consolidationsFound []ares.Consolidation // what came of it, unless it is nil
}
