package federation

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// shareTenant tells the connected members what the hub decides about the tenant.
func (t *term) shareTenant(in *tenantLoans) {
	if in.tenant == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range in.clusters { // order-free: sessions are independent
		if s := t.sessions[name]; s != nil && s.open {
			t.shareWith(s, in.tenant)
		}
	}
}

// shareWith tells a member what the hub decides about a tenant, if it was not told yet. The caller holds the term's lock.
func (t *term) shareWith(s *session, of *ares.Tenant) {
	if of == nil || s.shared[of.ID] == of.Revision {
		return
	}
	if s.shared == nil {
		s.shared = map[string]int64{}
	}
	s.shared[of.ID] = of.Revision
	s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Tenant{Tenant: &apipb.SharedTenant{
		TenantId: of.ID, Version: of.Revision, Hub: t.me, Name: of.Name, PriorityTier: string(of.PriorityTier),
		Weight: of.Weight, WeightMin: of.WeightMin, WeightMax: of.WeightMax, MayPreempt: of.MayPreempt,
	}}})
}
