// Package metadata holds what is said about the clusters of a federation: two entries for each cluster, one by the hub and one
// by the cluster itself. Each entry has a single writer, which raises its version with every change. Two copies are merged by
// taking the entry with the higher version, so the copies of the hub and of all members become equal in any order of messages,
// with repeated and with lost messages, and without clocks. Such a structure is called a state-based CRDT.
//
// Only data for which the last word of its writer is enough belongs here: regions, labels, prices, addresses, capacity.
// Grants, loans and who is a member need one owner at a time, so they are transactions of a store.
//
// The package is pure.
package metadata
