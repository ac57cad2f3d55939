// Package choose decides at the hub of a federation which waiting job is offered to which clusters.
//
// A Chooser has an engine.State of its own. Its nodes are not real: they stand for the shapes in the clusters'
// summaries (package summary). So the hub's order of jobs, quotas, dependencies, ageing and deadlines are those of one
// cluster, decided by the same code. The engine says which jobs come next and fit somewhere; the cost says where:
//
//	gpu_hours × price × speed + Σ missing bytes × egress + value per hour × (start delay + Σ missing bytes ÷ bandwidth)
//
// in whole millionths of the currency. The three clusters with the lowest cost get an offer. A cluster that wants the job
// answers with a bid, and an Auction picks the winner. A summary does not show topology, NUMA nodes, taints and
// affinity. So a job that has waited for some minutes and fits nowhere according to the summaries is offered too,
// as an offer ahead: a cluster that can start it anyway, or soon, claims it.
//
// Regions, clusters, residency of data and models are hard constraints: an offer never breaks them, whatever the cost.
//
// The package is pure. Read chooser.go, rank.go, cost.go and auction.go in this order.
package choose
