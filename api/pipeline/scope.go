package pipeline

import (
	"context"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// Scope names the tenant and queue that a call acts on. A caller that may see
// nothing in the scope gets the error in Absent, as if the tenant, queue or
// object did not exist.
type Scope struct {
	Tenant, Queue string
	Absent        error
}

// scopeOf returns the scope of a request.
func (d *Pipeline) scopeOf(ctx context.Context, c *Call, req any) (Scope, error) {
	return scopes[c.Method.Scope](ctx, d, c.Identity(), req)
}

// tenantOr returns the tenant that a request names. If the request names no tenant, tenantOr returns the
// caller's own tenant. If the caller has no tenant of its own, tenantOr returns the only tenant in which the
// caller has the permission. If the caller has the permission in all tenants, tenantOr returns the default
// tenant.
func tenantOr(named string, who *ares.Identity, permission roles.Verb) (string, error) {
	if named != "" {
		return named, nil
	}
	if who.Tenant != "" {
		return who.Tenant, nil
	}
	names, all := roles.Tenants(who, permission)
	switch {
	case all || len(names) == 0:
		return ares.DefaultTenant, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", ares.Errorf(ares.Invalid, "tenant_id: is required, because you can use several tenants: %s", strings.Join(names, ", ")).At("tenant_id")
}

// The variable `scopes` holds a function for each scope of the method table. The function finds the tenant
// and queue of a request. The functions do not change the request.
var scopes = [method.Scopes]func(ctx context.Context, d *Pipeline, who *ares.Identity, req any) (Scope, error){
	method.Public:          anyScope,
	method.Authenticated:   anyScope,
	method.GlobalScope:     globalScope,
	method.AnyScope:        anyScope,
	method.JobScope:        ofJob,
	method.SessionScope:    ofSession,
	method.SpecScope:       ofSpec,
	method.JobOrSpecScope:  ofJobOrSpec,
	method.TenantScope:     ofTenant,
	method.TenantListScope: inTenant,
	method.QueueScope:      ofQueue,
	method.NewQueueScope:   ofNewQueue,
	method.PolicyScope:     ofPolicy,
	method.NewPolicyScope:  ofNewPolicy,
	method.SecretScope:     ofSecret,
	method.ObjectScope:     ofObjects,
	method.UsageScope:      ofUsage,
	method.AuditScope:      ofAudit,
	method.RecordingScope:  ofRecordings,
	method.NodeScope:       ofNode,
}

// globalScope is for calls that concern all tenants.
func globalScope(context.Context, *Pipeline, *ares.Identity, any) (Scope, error) { return Scope{}, nil }

// anyScope is for methods that return only objects that their caller may see, or
// that check each part of their request themselves.
func anyScope(context.Context, *Pipeline, *ares.Identity, any) (Scope, error) {
	return Scope{Tenant: roles.Any, Queue: roles.Any}, nil
}

// ofJob is the scope of the job that the request names.
func ofJob(ctx context.Context, d *Pipeline, who *ares.Identity, req any) (Scope, error) {
	id := req.(interface{ GetJobId() string }).GetJobId()
	if err := CheckJobID(id); err != nil {
		return Scope{}, err
	}
	if e := d.Cfg.View.Job(ares.JobID(id)); e != nil {
		return d.ofLive(ctx, who, e.Job), nil
	}
	snap, err := d.Cfg.Store.Job(ctx, ares.JobID(id))
	if err == nil && snap.Job != nil {
		return d.ofLive(ctx, who, snap.Job), nil
	}
	if err != nil && ares.CodeOf(err) != ares.NotFound {
		return Scope{}, err
	}
	known, absent := d.ArchivedJob(ctx, ares.JobID(id))
	switch {
	case known != nil:
		return Scope{known.Job.Tenant, known.Job.Queue, store.NoJob(known.Job.ID)}, nil
	case snap.Tombstone != nil:
		return ofTombstone(who, snap.Tombstone, absent), nil
	}
	return Scope{}, absent
}

// ofLive returns the scope of a live job. A caller that may not see the job must get the same answer as for a
// job that does not exist. While the history database does not answer, the server cannot tell whether an
// unknown job exists, and its answer says so. It must give the same answer for a live job that the caller may
// not see.
func (d *Pipeline) ofLive(ctx context.Context, who *ares.Identity, job *ares.Job) Scope {
	p := Scope{job.Tenant, job.Queue, store.NoJob(job.ID)}
	if !roles.Allows(who, roles.JobRead, p.Tenant, p.Queue) {
		if _, err := d.ArchivedJob(ctx, job.ID); err != nil {
			p.Absent = err
		}
	}
	return p
}

// ofTombstone returns what is known about the scope of an archived job. The job's tombstone has a hash of its
// tenant, but does not name its queue. The argument `absent` is the error with which history answered.
func ofTombstone(who *ares.Identity, t *store.Tombstone, absent error) Scope {
	mine, _ := roles.Tenants(who, roles.JobRead)
	for _, tenant := range mine {
		if t.Of(tenant) {
			return Scope{tenant, "", absent}
		}
	}
	return Scope{Absent: absent}
}

// ofSpec returns the scope of a submitted job.
func ofSpec(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	return ScopeOfSpec(who, req.(interface{ GetJob() *apipb.JobSpec }).GetJob())
}

// ScopeOfSpec returns the scope of a submitted job. SubmitJobs calls
// ScopeOfSpec for each job of a batch.
func ScopeOfSpec(who *ares.Identity, m *apipb.JobSpec) (p Scope, err error) {
	if m == nil {
		return Scope{Tenant: roles.Any, Queue: roles.Any}, nil // validation rejects it, or it needs no scope
	}
	if p.Tenant, err = tenantOr(m.GetTenantId(), who, roles.JobSubmit); err != nil {
		return Scope{}, err
	}
	if p.Queue = m.GetQueue(); p.Queue == "" {
		p.Queue = ares.DefaultQueue
	}
	if roles.Allows(who, roles.JobRead, p.Tenant, p.Queue) {
		return p, nil // the caller sees the queue, so Absent is never its answer
	}
	p.Absent = admission.NoTenant(ares.Clip(p.Tenant))
	if roles.Allows(who, roles.JobRead, p.Tenant, roles.Any) {
		p.Absent = admission.NoQueue(p.Tenant, ares.Clip(p.Queue))
	}
	return p, nil
}

func ofJobOrSpec(ctx context.Context, d *Pipeline, who *ares.Identity, req any) (Scope, error) {
	if req.(*apipb.PredictJobRequest).GetJobId() != "" {
		return ofJob(ctx, d, who, req)
	}
	return ofSpec(ctx, d, who, req)
}

// ofTenant returns the scope of the tenant that the request names. A binding to
// one of the tenant's queues is enough to see the tenant.
func ofTenant(_ context.Context, _ *Pipeline, _ *ares.Identity, req any) (Scope, error) {
	id := req.(interface{ GetTenantId() string }).GetTenantId()
	if err := CheckTenantID(id); err != nil {
		return Scope{}, err
	}
	return Scope{id, roles.Any, store.NoTenant(id)}, nil
}

// inTenant is the scope of a list request, which covers one tenant or all
// tenants that the caller may see.
func inTenant(_ context.Context, _ *Pipeline, _ *ares.Identity, req any) (Scope, error) {
	id := req.(interface{ GetTenantId() string }).GetTenantId()
	if id == "" {
		return Scope{Tenant: roles.Any, Queue: roles.Any}, nil
	}
	return Scope{id, roles.Any, NoTenant(id)}, nil
}

func ofQueue(_ context.Context, _ *Pipeline, _ *ares.Identity, req any) (Scope, error) {
	m := req.(interface {
		GetTenantId() string
		GetName() string
	})
	tenant, name := m.GetTenantId(), m.GetName()
	if err := CheckQueueName(tenant, name); err != nil {
		return Scope{}, err
	}
	return Scope{tenant, name, store.NoQueue(tenant, name)}, nil
}

func ofNewQueue(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	q := req.(*apipb.CreateQueueRequest).GetQueue()
	if q == nil {
		return Scope{Tenant: roles.Any, Queue: roles.Any}, nil // validation rejects it
	}
	tenant, err := tenantOr(q.GetTenantId(), who, roles.QueueWrite)
	if err != nil {
		return Scope{}, err
	}
	return Scope{tenant, "", store.NoTenant(tenant)}, nil
}

func ofPolicy(_ context.Context, _ *Pipeline, _ *ares.Identity, req any) (Scope, error) {
	m := req.(interface {
		GetTenantId() string
		GetName() string
	})
	tenant, name := m.GetTenantId(), m.GetName()
	if err := CheckPolicyName(tenant, name); err != nil {
		return Scope{}, err
	}
	return Scope{Tenant: tenant, Absent: store.NoPolicy(tenant, name)}, nil
}

// ofNewPolicy is the scope of a new policy: its tenant, or all tenants if it
// names none.
func ofNewPolicy(_ context.Context, _ *Pipeline, _ *ares.Identity, req any) (Scope, error) {
	tenant := req.(*apipb.ApplyPolicyRequest).GetPolicy().GetTenantId()
	if tenant == "" {
		return Scope{}, nil
	}
	return Scope{Tenant: tenant, Absent: store.NoTenant(ares.Clip(tenant))}, nil
}

// ofUsage is the tenant and queue whose usage is requested. If the request names no tenant, ofUsage returns
// the caller's own tenant. For a caller that may read the usage of all tenants, ofUsage returns all tenants.
func ofUsage(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	m := req.(*apipb.GetUsageRequest)
	if m.GetTenantId() == "" && roles.Allows(who, roles.UsageRead, "", "") {
		return Scope{}, nil
	}
	tenant, err := tenantOr(m.GetTenantId(), who, roles.UsageRead)
	if err != nil {
		return Scope{}, err
	}
	return Scope{Tenant: tenant, Queue: m.GetQueue(), Absent: NoTenant(tenant)}, nil
}

// ofAudit is the tenant whose audit entries are requested. If the request names no tenant, ofAudit returns
// the caller's own tenant. For a caller that may read the audit entries of all tenants, ofAudit returns all
// tenants.
func ofAudit(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	m := req.(*apipb.ListAuditEntriesRequest)
	if m.GetTenantId() == "" && roles.Allows(who, roles.AuditRead, "", "") {
		return Scope{}, nil
	}
	tenant, err := tenantOr(m.GetTenantId(), who, roles.AuditRead)
	if err != nil {
		return Scope{}, err
	}
	return Scope{Tenant: tenant, Absent: NoTenant(tenant)}, nil
}

// ofNode is the scope of the calls that agents make. An agent whose identity
// names a node may act only for that node.
func ofNode(_ context.Context, _ *Pipeline, who *ares.Identity, req any) (Scope, error) {
	node := ""
	switch m := req.(type) {
	case *apipb.OpenSessionRequest:
		node = m.GetNode().GetNodeId()
	case interface{ GetRef() *apipb.SessionRef }:
		node = m.GetRef().GetNodeId()
	}
	if who.Node != "" && node != who.Node {
		return Scope{}, ares.Errorf(ares.Forbidden, "this agent may act only for node %s, not for node %q", who.Node, ares.Clip(node))
	}
	return Scope{Tenant: roles.Any, Queue: roles.Any}, nil
}
