// Package placement finds nodes and devices for the members of one job, and takes them
// in a transaction.
//
// Read Placer and PlaceJob first (placer.go). A job of one member goes to the node with the best score (single.go).
// The topology chooses the nodes of a gang (gang.go). FeasibleNodes applies the filters, administrators'
// reservations and affinity (feasible.go, affinity.go). Preferred anti-affinity spreads jobs (spread.go). Two files
// handle failed placements. unschedulable.go records which jobs do not fit, and windows.go finds jobs that only
// reservations block.
//
// The package does not choose the job, and does not check quotas. Backfill reservations
// and victims are handled by higher packages, which use a Placer.
package placement
