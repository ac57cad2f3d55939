// Package cluster is the ledger of nodes and devices. The ledger records the capacity and the allocations of each
// node, and computes which requests fit into the free capacity. Decisions change the ledger in transactions, which
// can be undone.
//
// Read the package in this order:
//
//   - Node, Device and NodeType record the capacity and allocations of one node, and the properties that nodes with
//     the same hardware share.
//   - Cluster contains all nodes, sorted by location, and the indexes over them. Events mark nodes as dirty, and
//     RefreshIndex brings the indexes up to date.
//   - Request, Constraints and RequestTable describe the needs of one member of a job. Jobs with equal requests share
//     one Request.
//   - Filter, Reason and DeviceMatch form the table of all reasons why a member cannot be placed on a node.
//     RefreshFeasible updates the set of nodes that pass the static filters of a request.
//   - The methods RoomFor, Fits, RoomWithout and PickDevices of Node compute how many members fit into a node's free
//     capacity, and which devices a member gets.
//   - Txn, Delta, Savepoint and Hold take and release seats, undo changes, and hold capacity for one job.
//   - Set, changeLog, blockMax, nodeSummary and RoomGains are the structures that make searches fast on a large
//     cluster.
//
// In function names, Room means the number of members that fit.
//
// Package cluster uses neither scores nor the order of queues. The package reads no part of a job except its
// specification, which RequestOf converts to a Request. An occupant is a seat together with the number that the
// job table assigned to its job. The caller searches for nodes, and package score ranks them.
package cluster
