// Package backfill reserves capacity for blocked jobs, and places other jobs behind
// them where that delays no reservation.
//
// In reading order:
//   - releases.go: when running jobs are expected to end, and what each node has free
//     after each end.
//   - openings.go: when each node first has capacity for one member of a request.
//   - earlieststart.go: the earliest time and the nodes at which a blocked job fits.
//   - reservations.go: the backfill reservations of one cycle, and the placement of
//     jobs that must not delay them.
//   - drain.go, shortage.go: the reservation of a job that has waited for long. Its
//     nodes are drained: no other job is placed there.
//   - plannedstart.go: a reservation as users read it.
//
// Round holds all of it for one cycle. A backfill reservation lasts for one cycle and is
// never stored. Package window has the reservations that administrators make.
//
// The package does not know preemption, the order of the queues or explanations.
package backfill
