package federation_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
)

// TestSharedTenant changes a tenant at the hub. The clusters that have it must follow, and a cluster that gets its first job of a
// tenant must get the tenant.
func TestSharedTenant(t *testing.T) {
	h := newHub(t)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.federate(a)
	follows := func(m *member, weight float64) {
		t.Helper()
		controltest.Await(t, m.view, m.name+" to follow the hub", func() bool {
			got := m.view.Tenant(h.tenant.ID)
			return got != nil && got.Shared != nil && got.Weight == weight && got.PriorityTier == ares.High
		})
	}
	h.edit(func(t *ares.Tenant) { t.Weight, t.PriorityTier = 3, ares.High })
	follows(a, 3)
	if got := b.view.Tenant(h.tenant.ID); got.Shared != nil {
		t.Errorf("a cluster without jobs of the tenant has %+v", got)
	}
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	h.edit(func(t *ares.Tenant) { t.Weight = 4 })
	a.wire.set(false)
	follows(a, 4)
	close(b.gate)
	h.await(h.submit(inB), ares.Succeeded)
	follows(b, 4)
}
