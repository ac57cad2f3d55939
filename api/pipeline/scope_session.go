package pipeline

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy/roles"
)

// ofSession is the scope of the job with which a user wants a session. A user who did not submit the job needs more than the permission of
// the method. The check is here, and not in the handler, because it is repeated while the session lasts.
func ofSession(ctx context.Context, d *Pipeline, who *ares.Identity, req any) (Scope, error) {
	p, err := ofJob(ctx, d, who, req)
	if err != nil || !roles.Allows(who, roles.JobExec, p.Tenant, p.Queue) || roles.Allows(who, roles.JobExecAny, p.Tenant, p.Queue) {
		return p, err // Authorize rejects a caller without the permission
	}
	id := ares.JobID(req.(interface{ GetJobId() string }).GetJobId())
	job, err := d.liveJob(ctx, id)
	if err != nil {
		return Scope{}, err
	}
	if job != nil && job.Owner != who.Name {
		return Scope{}, ares.Errorf(ares.Forbidden, "job %s was submitted by %s: only that user and administrators of tenant %s may have sessions with it", id, job.Owner, p.Tenant)
	}
	return p, nil
}

// liveJob returns a job that is not archived, or nil.
func (d *Pipeline) liveJob(ctx context.Context, id ares.JobID) (*ares.Job, error) {
	if e := d.Cfg.View.Job(id); e != nil {
		return e.Job, nil
	}
	snap, err := d.Cfg.Store.Job(ctx, id)
	if ares.CodeOf(err) == ares.NotFound {
		return nil, nil
	}
	return snap.Job, err
}

// ofRecordings is the tenant whose recordings of sessions are requested. If the request names none, it is the caller's own tenant, or all
// tenants for a caller that may read the recordings of all tenants.
func ofRecordings(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	named := req.(interface{ GetTenantId() string }).GetTenantId()
	if named == "" && roles.Allows(who, roles.SessionRead, "", "") {
		return Scope{}, nil
	}
	tenant, err := tenantOr(named, who, roles.SessionRead)
	if err != nil {
		return Scope{}, err
	}
	return Scope{Tenant: tenant, Absent: NoTenant(tenant)}, nil
}
