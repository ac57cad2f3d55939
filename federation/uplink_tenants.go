package federation

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// The method `shared` stores what the hub decides about a tenant.
func (l *link) shared(m *apipb.SharedTenant) error {
	t := ares.Tenant{
		ID: m.GetTenantId(), Name: m.GetName(), PriorityTier: ares.Class(m.GetPriorityTier()), MayPreempt: m.GetMayPreempt(),
		Weight: m.GetWeight(), WeightMin: m.GetWeightMin(), WeightMax: m.GetWeightMax(), Shared: &ares.Shared{Hub: m.GetHub(), Version: m.GetVersion()},
	}
	var p ares.Problems
	t.CheckWeight(&p)
	if err := p.Err(); err != nil || m.GetHub() != l.me.Hub || !ares.ValidName(t.ID) || t.PriorityTier != "" && t.PriorityTier.Rank() < 0 {
		l.u.Log.Warn("a tenant of the hub was not stored: upgrade this cluster if the hub is newer", "tenant", ares.Clip(t.ID), "error", err)
		return nil
	}
	err := l.u.Store.ShareTenant(l.ctx, l.u.lead, t, l.u.Now())
	if ares.CodeOf(err) == ares.Fenced {
		return nil // a later version is stored, or this server does not lead any more
	}
	return err
}
