// Package topology chooses the nodes of a job with several members (a gang). It
// knows the location of each node (region, zone, spine, leaf), the bandwidth
// and latency of the switches between them, and the free devices of every
// domain.
//
// Its types in reading order: a Location is the location of a node, and a Locator
// derives it from the declared topology and the node's labels. A Tree groups
// the nodes into domains and tracks free devices. A Request is the request of one
// job, and a NodeEvaluator answers questions about single nodes. Choose returns Assignments:
// nodes with their number of members. PlacementCost orders placements; the search
// returns the placement with the lowest one.
//
// A search does not visit every node. It skips leaves whose free devices cannot
// hold the job and leaves whose lower bound is above the best placement found
// so far. In a large leaf it samples the first nodes of each number of free
// devices, and scans all of them only before it reports that the job does not
// fit.
//
// A node without a location at some level is alone there, unless no node has a
// location at that level: then the level does not divide the nodes. A fleet
// without any locations is therefore one leaf.
//
// The package is pure: it has no clock and does no I/O. A Tree has one owner,
// because a search uses its scratch memory.
package topology
