// Package storetest is the conformance suite of the store. The suite runs against an embedded
// and an external etcd. It also has fixtures with which tests of other packages set up a store.
//
// Each test creates its own tenants, jobs and nodes, so that all tests can share one store. The
// tests run one after the other, because only one leader can exist.
package storetest

import (
	"testing"

	"github.com/ares-scheduler/ares/store"
)

type law struct {
	name string
	test func(*testing.T, *store.Store)
}

// Run runs the whole suite on the store that the function `open` returns. Run calls this
// function only once.
func Run(t *testing.T, open func(testing.TB) *store.Store) {
	t.Helper()
	s := open(t)
	for _, group := range []struct {
		name string
		laws []law
	}{
		{"Create", createLaws},
		{"Commit", commitLaws},
		{"Seats", seatLaws},
		{"Gangs", gangLaws},
		{"Void", voidLaws},
		{"Sessions", sessionLaws},
		{"Drain", drainLaws},
		{"Yields", yieldLaws},
		{"Watch", watchLaws},
		{"Archive", archiveLaws},
		{"Forecasts", forecastLaws},
		{"Arrays", arrayLaws},
		{"After", afterLaws},
		{"Tenants", tenantLaws},
		{"Queues", queueLaws},
		{"Reservations", reservationLaws},
		{"Trust", trustLaws},
		{"Policies", policyLaws},
		{"Secrets", secretLaws},
		{"Remove", removeLaws},
		{"AuditMarks", auditMarkLaws},
		{"Clusters", clusterLaws},
		{"Hub", hubLaws},
		{"Member", memberLaws},
		{"Roster", rosterLaws},
		{"Metadata", metadataLaws},
		{"Loans", loanLaws},
		{"Lent", lentLaws},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, l := range group.laws {
				t.Run(l.name, func(t *testing.T) { l.test(t, s) })
			}
		})
	}
}
