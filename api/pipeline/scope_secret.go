package pipeline

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// ofSecret is the tenant of the secret that the request names. The queue is "", so that a role in one queue does not
// reach the secrets of the whole tenant.
func ofSecret(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	m := req.(interface {
		GetTenantId() string
		GetName() string
	})
	tenant, err := tenantOr(m.GetTenantId(), who, roles.SecretWrite)
	if err != nil {
		return Scope{}, err
	}
	if err = CheckTenantID(tenant); err != nil {
		return Scope{}, err
	}
	return Scope{Tenant: tenant, Absent: store.NoTenant(tenant)}, nil
}
