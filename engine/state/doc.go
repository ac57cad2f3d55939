// Package state holds everything that a scheduling decision may depend on, as of one
// revision of the store: jobs, nodes, tenants, queues, reservations and the topology,
// with the accounts of what is allocated.
//
// Read State first, then Apply, which brings it to the next revision, and Refresh,
// which updates the derived data before a decision. Check recounts all accounts from
// the runs and compares them; it is for tests and for laws that a live server checks.
//
// The package does not decide anything: it does not know cycles, placements or
// backfill.
package state
