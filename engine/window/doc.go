// Package window applies administrators' reservations. The package determines three things: which nodes a job may
// not use because of reservations, which nodes are reserved for the job, and which jobs must be evicted.
//
// A Window is one reservation with its nodes. The Calendar holds all windows. A window
// blocks a job if the job may not use the window and would still run while the window is
// open. A Stay says when the job would start and for how long it is expected to run.
//
// The package does not place jobs. Backfill reservations, which the engine makes for
// blocked jobs, are not part of this package.
package window
