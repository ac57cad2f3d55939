// Package cycle runs one scheduling cycle over the waiting jobs. A cycle decides which waiting jobs are
// placed, which running jobs are stopped for others, and which jobs must wait.
//
// engine.Decide runs the phases of a cycle in this order:
//
//  1. Settle: end retry delays and finished arrays, and evict jobs from the nodes of open
//     reservations (Round.Settle).
//  2. Hold: place nominated jobs whose seats are free, and hold seats for the other
//     nominations, for restarting gangs and for migrating jobs (Round.run).
//  3. Order: take the next waiting job by fair share and by the order of its queue (Round.OfferInOrder). Before
//     the first job, hold nodes for jobs that have waited long (Round.holdForLongestWaiting). At a queue's turn,
//     place its overdue jobs that fit (Round.placeOverdue).
//  4. Admit: check dependencies, budget, limits and quotas (Round.admitAndPlace).
//  5. Place: find seats for the whole gang or for none of it, without delaying earlier jobs
//     that have backfill reservations (Round.admitAndPlace).
//  6. Preempt: stop victims for a blocked job that has the right to preempt, and
//     nominate it for their seats (Round.handleBlocked).
//  7. Reserve: make a backfill reservation for one of the first blocked jobs
//     (Round.reserveAndSkip).
//  8. Refuse: record the blockers of a job that is not placed, once for all jobs
//     with the same job.Shape (Round.refuse).
//  9. Finish: record planned starts, end jobs whose queue timeout is over, and set the
//     time of the next cycle (engine.Decide).
//
// The cycle runs phases 3 to 8 for each waiting job in turn. A cycle can run phases 2 to 8 a second
// time, and no job may borrow quota in this second pass; see Round.RunCycle.
//
// The main type is Round. Read round.go, cycle.go, offer.go, refuse.go and
// elements.go in this order.
//
// Package cycle does not apply events and does not use the store. A cycle takes capacity of the cluster only within
// a transaction, and undoes the transaction at the end. Package engine/explain computes detailed explanations.
package cycle
