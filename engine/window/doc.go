// Package window applies administrators' reservations: it says which nodes they keep
// from a job, which nodes are reserved for it, and which jobs must leave.
//
// A Window is one reservation with its nodes, and the Calendar holds all windows. A
// window blocks a job without a right to it that would still run when the window is
// open. A Stay says when the job would start and for how long it is expected to run.
//
// The package does not place jobs. It does not know backfill reservations, which the
// engine makes for blocked jobs.
package window
