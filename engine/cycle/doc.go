// Package cycle runs one scheduling cycle over the waiting jobs: it decides which of
// them the plan places, which running jobs it stops for others, and which jobs wait.
//
// engine.Decide runs the phases of a cycle in this order:
//
//  1. Settle: end retry delays and finished arrays, evict jobs from the nodes of open
//     reservations (Round.Settle).
//  2. Hold: place nominated jobs whose seats are free, and hold seats for the other
//     nominations, for restarting gangs and for migrating jobs (Round.run).
//  3. Order: take the next waiting job by fair share and priority (Round.OfferInOrder).
//  4. Admit: check dependencies, budget, limits and quotas (Round.admitAndPlace).
//  5. Place: find seats for the whole gang or for none of it, as backfill where earlier
//     jobs have backfill reservations (Round.admitAndPlace).
//  6. Preempt: stop victims for a blocked job that has the right to preempt, and
//     nominate it for their seats (Round.handleBlocked).
//  7. Reserve: make a backfill reservation for one of the first blocked jobs
//     (Round.reserveAndSkip).
//  8. Refuse: record the blockers of a job that is not placed, once for each shape
//     (Round.refuse).
//  9. Finish: record planned starts, end jobs whose queue timeout is over, and set the
//     time of the next cycle (engine.Decide).
//
// Phases 3 to 8 run for one job after the other. A cycle can run phases 2 to 8 a
// second time, without borrowing: see Round.RunCycle.
//
// The main type is Round. Read round.go, cycle.go, offer.go, refuse.go and
// elements.go in this order.
//
// The package does not apply events and does not know the store. It changes the
// accounts of the cluster only within its transaction, and undoes that in the end.
// The long form of an explanation is in engine/explain.
package cycle
