// Package metadata holds what the clusters of a federation say about themselves: one entry for each cluster, with its
// version. Each entry has a single writer, which raises the version with every change. Two copies are merged by taking
// the entry with the higher version, so the copies of the hub and of all members become equal in any order of messages,
// with repeated and with lost messages, and without clocks. Such a structure is called a state-based CRDT.
//
// Only data for which the last word of its writer is enough belongs here: addresses, regions, labels, the roster.
// Grants, loans and tenants need one owner at a time, so they are transactions of a store.
//
// The package is pure.
package metadata
