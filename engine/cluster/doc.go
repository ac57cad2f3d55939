// Package cluster is the ledger of nodes and devices: what each node has, what is taken
// of it, and which requests fit into the rest. Decisions change the ledger in
// transactions, which can be undone.
//
// Read it in this order:
//
//   - Node, Device and NodeType: the account of one node, and what nodes of one build
//     have in common.
//   - Cluster: all nodes in the order of their locations, and the indexes over them.
//     Events mark nodes as dirty, and RefreshIndex brings the indexes up to date.
//   - Request, Constraints and RequestTable: what one member needs from a node. Equal
//     requests are shared.
//   - Filter, Reason and DeviceMatch: the table of all reasons why a node cannot take a
//     member. RefreshFeasible keeps the nodes that pass the static filters of a request.
//   - RoomFor, Fits, RoomWithout and PickDevices of Node: how many members fit into the
//     free capacity, and which devices a member gets.
//   - Txn, Delta, Savepoint and Hold: taking and releasing seats, undoing, and holding
//     capacity for one job.
//   - Set, changeLog, blockMax, nodeSummary and RoomGains: the structures that make
//     searches fast on a large cluster.
//
// Room, in the name of a function, is a number of members that fit.
//
// The package knows no jobs beyond the specification that RequestOf reads, no order of
// queues and no scores. An occupant is a seat with a number, which the job table gives.
// A caller searches for nodes, and package score ranks them.
package cluster
