// Package score says how good a node is for one member of a job. The default score is
// the fragmentation that the member causes: how much free capacity the expected jobs
// could no longer use. The node with the lowest cost is chosen.
//
// Read Scorer first, then FragmentationCost (fragmentation.go), which compares the
// freeCapacity of a node before and after, then WorkloadMix, the expected jobs, and
// demandTracker, which learns them from the jobs in the state. ScoreCache keeps the
// costs of one request for all nodes and recomputes only those of nodes that changed.
// Policy replaces the default score; package baseline has policies from the
// literature.
//
// The package does not know jobs, queues or gangs. All arithmetic is in integers, so
// that a replay gives the same scores.
package score
