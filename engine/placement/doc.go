// Package placement finds nodes and devices for the members of one job, and takes them
// in a transaction.
//
// Read Placer and PlaceJob first (placer.go). A job of one member goes to the node with
// the best score (single.go). The topology chooses the nodes of a gang (gang.go).
// FeasibleNodes applies the filters, administrators' reservations and affinity
// (feasible.go, affinity.go). The other files say what a failed placement means:
// unschedulable.go remembers shapes that do not fit, and windows.go finds out whether
// reservations alone block a job.
//
// The package does not choose the job, and does not check quotas. It does not know
// backfill reservations or victims; these are in packages above it that use a Placer.
package placement
