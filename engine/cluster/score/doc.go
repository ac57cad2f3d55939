// Package score computes how good a node is for one member of a job. The default score is the fragmentation that the
// member causes. Fragmentation is free capacity that the expected jobs can no longer use. The node with the lowest
// cost is chosen.
//
// Read Scorer first. FragmentationCost in fragmentation.go compares the freeCapacity of a node before and after a
// placement. WorkloadMix describes the expected jobs, and demandTracker learns them from the jobs in the state. A scarce
// model has a price, see modelPrices.
// ScoreCache stores the costs of all nodes for one request, and recomputes a cost only when its node changed. A
// Policy replaces the default score, and package baseline has policies from the literature.
//
// Package score does not use jobs, queues or gangs. All arithmetic uses integers, so that a replay computes the
// same scores.
package score
