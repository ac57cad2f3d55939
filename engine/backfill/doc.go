// Package backfill reserves capacity for blocked jobs. The package places later jobs only where they do
// not delay a reservation.
//
// In reading order:
//   - releases.go computes when running jobs are expected to end. It also computes how much capacity
//     each node has after each of these jobs has ended.
//   - openings.go computes when each node first has capacity for one member of a request.
//   - earlieststart.go finds the earliest time at which a blocked job fits, and the nodes on which it fits.
//   - reservations.go defines the backfill reservations of one cycle. It places other jobs only where
//     they do not delay these reservations.
//   - hold.go, readiness.go and shortage.go hold nodes for a job that has waited for a long time, on the nodes where
//     this is expected to leave the fewest GPUs idle, and only for as much idle time as the job has earned.
//   - plannedstart.go converts a reservation to the form that users see.
//
// Round is the state of backfill in one cycle. A backfill reservation lasts for one cycle
// and is never stored. Reservations that administrators make are in package window.
//
// Package backfill does not depend on preemption, queue order or explanations.
package backfill
