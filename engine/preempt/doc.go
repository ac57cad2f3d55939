// Package preempt stops running jobs for a waiting job, or moves them to other nodes.
//
// In reading order:
//   - rights.go defines what gives a waiting job the right to stop other jobs. There are four such rights: by
//     a higher class, to reclaim borrowed quota, by the order of the queue, and to move the other jobs to
//     other nodes.
//   - preempt.go defines Round, the state of one cycle, and PreemptFor, which preempts jobs for a blocked job.
//   - victims.go searches for the victims that lose the least work. The search uses
//     candidates.go (eligible jobs and their seats), protection.go (jobs that must not be
//     stopped), costs.go (the cost of a stop), selection.go (one set of victims, node by
//     node) and reclaim.go (borrowed quota).
//   - byorder.go finds victims by the order of the queue.
//   - consolidation.go and migrations.go move running jobs, and hold capacity for them
//     until they run again.
//   - nominations.go keeps the seats of a nominated job free while its victims stop.
//   - restarts.go keeps the seats of a gang free after the gang lost a node.
//   - pendingstops.go computes the state of the cluster after all stopping jobs have ended.
//
// The plan stops the victims and nominates the waiting job. A later plan then places the job on the freed seats.
// To test whether a job would fit, the package changes the cluster in a transaction and then undoes the changes.
// Package preempt does not depend on the packages cycle and explain.
package preempt
