// Package storetest is the law for every etcd the store may stand on: one
// conformance suite, run against the embedded and against an external one,
// and the fixtures that other packages' tests build a store with.
//
// Each test makes tenants, jobs and nodes of its own, so that they share one
// store. They run one after the other: leadership is one.
package storetest

import (
	"testing"

	"github.com/ares-scheduler/ares/store"
)

// law is one test of the suite.
type law struct {
	name string
	test func(*testing.T, *store.Store)
}

// Run proves the store that open returns. It is called once.
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
		{"Remove", removeLaws},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, l := range group.laws {
				t.Run(l.name, func(t *testing.T) { l.test(t, s) })
			}
		})
	}
}
