// Package topology chooses nodes for a job with several members (a gang). The package knows the location of each node
// (region, zone, spine, leaf), the bandwidth and latency of the switches between nodes, and the free devices of every
// domain.
//
// The main types are described here in reading order. A Location says where a node is in the topology. A Locator
// derives it from the declared topology and the node's labels. A Tree groups the nodes into domains and tracks free
// devices. A Request describes the needs of one job, and a NodeEvaluator answers questions about single nodes.
// Choose returns Assignments, which say how many members are placed on each node. The search returns the placement
// with the lowest PlacementCost.
//
// A search does not visit every node of the cluster. The search skips leaves whose free devices cannot hold the job.
// It also skips leaves whose lower bound is above the cost of the best placement found so far. In a large leaf, the
// search groups the nodes by their number of free devices, and samples the first nodes of each group. If the job
// does not fit on these nodes, the search scans all nodes of the leaf.
//
// A node without a location at some level is alone in its domain of that level. If no node has a location at some
// level, that level does not divide the nodes. So a cluster whose nodes have no locations is a single leaf.
//
// The package is pure: it has no clock and does no I/O. A Tree is not safe for concurrent use, because a search
// uses the tree's scratch memory.
package topology
