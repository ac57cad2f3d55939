// Package preempt stops running jobs for a waiting one, or moves them out of its way.
//
// In reading order:
//   - rights.go: the rights by which a waiting job may stop others: its class, quota that
//     others borrowed, the order of its queue, or a move to other nodes.
//   - preempt.go: Round, the state of one cycle, and PreemptFor, which uses these rights.
//   - victims.go: victimSearch, the search for the victims that lose the least work, with
//     candidates.go (eligible jobs and their seats), protection.go (jobs that must not be
//     stopped), costs.go (what a stop costs), selection.go (one set of victims, node by
//     node) and reclaim.go (no more than the borrowed quota is reclaimed).
//   - byorder.go: victims by the order of the queue.
//   - consolidation.go, migrations.go: moves of running jobs, and the capacity held for
//     them until they run again.
//   - nominations.go: the seats held for a job while its victims stop.
//   - restarts.go: the seats held for a gang that lost a node.
//   - pendingstops.go: the cluster as it will be when the jobs being stopped are gone.
//
// Victims are stopped by the plan, and the waiting job is nominated: a later plan places it
// on the freed seats. The package plans against a transaction and undoes it. It does not
// know the cycle that calls it, nor explanations.
package preempt
