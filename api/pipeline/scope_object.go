package pipeline

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// ofObjects is the tenant whose chunks and snapshots a request concerns. It is found as for a submitted job. A caller that may submit to
// one of the tenant's queues may store code there.
func ofObjects(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	tenant, err := tenantOr(req.(interface{ GetTenantId() string }).GetTenantId(), who, roles.JobSubmit)
	if err != nil {
		return Scope{}, err
	}
	if err = CheckTenantID(tenant); err != nil {
		return Scope{}, err
	}
	return Scope{Tenant: tenant, Queue: roles.Any, Absent: store.NoTenant(tenant)}, nil
}
