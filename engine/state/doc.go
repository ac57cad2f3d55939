// Package state holds everything that a scheduling decision may depend on, as of one store
// revision. This includes jobs, nodes, tenants, queues, reservations and the topology,
// with the accounts of allocated resources.
//
// Read State first. Then read Apply, which brings the State to the next revision, and
// Refresh, which updates the derived data before a decision. Check counts all accounts
// again from the runs and compares the results with the accounts. Check is called by
// tests, and by servers with the option scheduler.check_laws.
//
// The package makes no decisions. The package does not depend on the packages cycle, placement and backfill.
package state
