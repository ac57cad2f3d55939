package api

import (
	"context"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// rule says what a caller of a method must be allowed, and where: its scope finds
// that in the request.
type rule struct {
	verb  roles.Verb
	scope scope
}

// place is where a call acts, and what is answered to a caller who sees nothing
// there: the same as if there were nothing.
type place struct {
	tenant, queue string
	absent        error
}

// scope finds where a request acts. A tenant that the request leaves out is the
// caller's own, and is filled in.
type scope func(ctx context.Context, d *Doors, who *ares.Identity, req any) (place, error)

var (
	// anyone need not say who they are.
	anyone = rule{}
	// everybody who has said who they are may call it.
	everybody = rule{scope: func(context.Context, *Doors, *ares.Identity, any) (place, error) {
		return place{roles.Any, roles.Any, nil}, nil
	}}
)

// everywhere is for what concerns all tenants.
func everywhere(context.Context, *Doors, *ares.Identity, any) (place, error) { return place{}, nil }

// somewhere is for methods that show, of all there is, what their caller may
// see, or look at each part of their request themselves.
func somewhere(context.Context, *Doors, *ares.Identity, any) (place, error) {
	return place{tenant: roles.Any, queue: roles.Any}, nil
}

// ofJob is where the job is that the request names.
func ofJob(ctx context.Context, d *Doors, who *ares.Identity, req any) (place, error) {
	id := req.(interface{ GetJobId() string }).GetJobId()
	if err := jobID(id); err != nil {
		return place{}, err
	}
	if e := d.cfg.View.Job(ares.JobID(id)); e != nil {
		return d.ofLive(ctx, who, e.Job), nil
	}
	snap, err := d.cfg.Store.Job(ctx, ares.JobID(id))
	if err == nil && snap.Job != nil {
		return d.ofLive(ctx, who, snap.Job), nil
	}
	if err != nil && ares.CodeOf(err) != ares.NotFound {
		return place{}, err
	}
	known, absent := d.remembered(ctx, ares.JobID(id))
	switch {
	case known != nil:
		return place{known.Job.Tenant, known.Job.Queue, store.NoJob(known.Job.ID)}, nil
	case snap.Tombstone != nil:
		return ofTombstone(who, snap.Tombstone, absent), nil
	}
	return place{}, absent
}

// ofLive is where a live job is. Who does not see it is answered as for one that
// is not there, and for that history is asked: while it does not answer, nobody
// can say that there is no such job, so it is not said of this one either.
func (d *Doors) ofLive(ctx context.Context, who *ares.Identity, job *ares.Job) place {
	p := place{job.Tenant, job.Queue, store.NoJob(job.ID)}
	if !roles.Allows(who, roles.JobRead, p.tenant, p.queue) {
		if _, err := d.remembered(ctx, job.ID); err != nil {
			p.absent = err
		}
	}
	return p
}

// ofTombstone is where an archived job was, as far as that can be told: it keeps
// a hash of its tenant and nothing of its queue. Absent is what history said.
func ofTombstone(who *ares.Identity, t *store.Tombstone, absent error) place {
	mine, _ := roles.Tenants(who, roles.JobRead)
	for _, tenant := range mine {
		if t.Of(tenant) {
			return place{tenant, "", absent}
		}
	}
	return place{absent: absent}
}

// ofSpec is where a job would go.
func ofSpec(_ context.Context, _ *Doors, who *ares.Identity, req any) (place, error) {
	return placeOf(who, req.(interface{ GetJob() *apipb.JobSpec }).GetJob())
}

// placeOf is where a job that somebody submits goes.
func placeOf(who *ares.Identity, m *apipb.JobSpec) (place, error) {
	if m == nil {
		return place{tenant: roles.Any, queue: roles.Any}, nil // the contract refuses it, or needs none
	}
	if m.GetTenantId() == "" {
		home, err := homeOf(who, roles.JobSubmit)
		if err != nil {
			return place{}, err
		}
		m.TenantId = home
	}
	p := place{tenant: m.GetTenantId(), queue: m.GetQueue()}
	if p.tenant == "" {
		p.tenant = ares.DefaultTenant
	}
	if p.queue == "" {
		p.queue = ares.DefaultQueue
	}
	p.absent = control.NoTenant(clip(p.tenant))
	if roles.Allows(who, roles.JobRead, p.tenant, roles.Any) {
		p.absent = control.NoQueue(p.tenant, clip(p.queue))
	}
	return p, nil
}

// homeOf is the tenant that a request without one means. It is left out for who
// is bound to all, as it was before there were others.
func homeOf(who *ares.Identity, v roles.Verb) (string, error) {
	if who.Tenant != "" {
		return who.Tenant, nil
	}
	names, all := roles.Tenants(who, v)
	switch {
	case all || len(names) == 0:
		return "", nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", ares.Errorf(ares.Invalid, "tenant_id: is needed: you are bound to %s", strings.Join(names, ", ")).At("tenant_id")
}

func ofJobOrSpec(ctx context.Context, d *Doors, who *ares.Identity, req any) (place, error) {
	if req.(*apipb.PredictJobRequest).GetJobId() != "" {
		return ofJob(ctx, d, who, req)
	}
	return ofSpec(ctx, d, who, req)
}

// ofTenant is the tenant that the request names; to be bound to one of its queues
// is enough.
func ofTenant(_ context.Context, _ *Doors, _ *ares.Identity, req any) (place, error) {
	id := req.(interface{ GetTenantId() string }).GetTenantId()
	if err := tenantID(id); err != nil {
		return place{}, err
	}
	return place{id, roles.Any, store.NoTenant(id)}, nil
}

// inTenant is for lists of one tenant, or of all that the caller sees.
func inTenant(_ context.Context, _ *Doors, _ *ares.Identity, req any) (place, error) {
	id := req.(interface{ GetTenantId() string }).GetTenantId()
	if id == "" {
		return place{tenant: roles.Any, queue: roles.Any}, nil
	}
	return place{id, roles.Any, noTenant(id)}, nil
}

func ofQueue(_ context.Context, _ *Doors, _ *ares.Identity, req any) (place, error) {
	m := req.(interface {
		GetTenantId() string
		GetName() string
	})
	tenant, name := m.GetTenantId(), m.GetName()
	if err := queueNames(tenant, name); err != nil {
		return place{}, err
	}
	return place{tenant, name, store.NoQueue(tenant, name)}, nil
}

func ofNewQueue(_ context.Context, _ *Doors, who *ares.Identity, req any) (place, error) {
	q := req.(*apipb.CreateQueueRequest).GetQueue()
	if q == nil {
		return place{tenant: roles.Any, queue: roles.Any}, nil // the contract refuses it
	}
	if q.TenantId == "" {
		home, err := homeOf(who, roles.QueueWrite)
		if err != nil {
			return place{}, err
		}
		q.TenantId = home
	}
	tenant := q.GetTenantId()
	if tenant == "" {
		tenant = ares.DefaultTenant
	}
	return place{tenant, "", store.NoTenant(tenant)}, nil
}

func ofPolicy(_ context.Context, _ *Doors, _ *ares.Identity, req any) (place, error) {
	m := req.(interface {
		GetTenantId() string
		GetName() string
	})
	tenant, name := m.GetTenantId(), m.GetName()
	if err := policyID(tenant, name); err != nil {
		return place{}, err
	}
	return place{tenant: tenant, absent: store.NoPolicy(tenant, name)}, nil
}

// ofNewPolicy is where a policy is to count; without a tenant it counts for all.
func ofNewPolicy(_ context.Context, _ *Doors, _ *ares.Identity, req any) (place, error) {
	tenant := req.(*apipb.ApplyPolicyRequest).GetPolicy().GetTenantId()
	if tenant == "" {
		return place{}, nil
	}
	return place{tenant: tenant, absent: store.NoTenant(clip(tenant))}, nil
}

// ofUsage is the tenant, and queue, whose use is asked for: one's own, unless one
// may read all.
func ofUsage(_ context.Context, _ *Doors, who *ares.Identity, req any) (place, error) {
	m := req.(*apipb.GetUsageRequest)
	if m.GetTenantId() == "" && !roles.Allows(who, roles.UsageRead, "", "") {
		home, err := homeOf(who, roles.UsageRead)
		if err != nil {
			return place{}, err
		}
		m.TenantId = home
	}
	if m.GetTenantId() == "" {
		return place{}, nil
	}
	return place{tenant: m.GetTenantId(), queue: m.GetQueue(), absent: noTenant(m.GetTenantId())}, nil
}

// ofAudit is the tenant whose entries are asked for: one's own, unless one may
// read all.
func ofAudit(_ context.Context, _ *Doors, who *ares.Identity, req any) (place, error) {
	m := req.(*apipb.ListAuditEntriesRequest)
	if m.GetTenantId() == "" && !roles.Allows(who, roles.AuditRead, "", "") {
		home, err := homeOf(who, roles.AuditRead)
		if err != nil {
			return place{}, err
		}
		m.TenantId = home
	}
	if m.GetTenantId() == "" {
		return place{}, nil
	}
	return place{tenant: m.GetTenantId(), absent: noTenant(m.GetTenantId())}, nil
}

// ofNode is for agents: one whose identity names a node speaks for that alone.
func ofNode(_ context.Context, _ *Doors, who *ares.Identity, req any) (place, error) {
	node := ""
	switch m := req.(type) {
	case *apipb.OpenSessionRequest:
		node = m.GetNode().GetNodeId()
	case interface{ GetRef() *apipb.SessionRef }:
		node = m.GetRef().GetNodeId()
	}
	if who.Node != "" && node != who.Node {
		return place{}, ares.Errorf(ares.Forbidden, "this agent speaks for node %s, not for %q", who.Node, clip(node))
	}
	return place{tenant: roles.Any, queue: roles.Any}, nil
}

func (r rule) open() bool { return r.verb == "" && r.scope == nil }

// admits refuses who may not do this anywhere.
func (r rule) admits(who *ares.Identity) error {
	if r.verb == "" || roles.Allows(who, r.verb, roles.Any, roles.Any) {
		return nil
	}
	return mayNot(who, r.verb, "")
}

// permit refuses a request that acts where its caller may not. It comes before
// anything is done or shown.
func (d *Doors) permit(ctx context.Context, method string, req any) error {
	r := access[method]
	if r.scope == nil {
		return r.admits(identityOf(ctx)) // nobody's, or for anyone
	}
	who := identityOf(ctx)
	if err := r.admits(who); err != nil {
		return err
	}
	p, err := r.scope(ctx, d, who, req)
	if err != nil || r.verb == "" {
		return err
	}
	if err = p.allows(who, r.verb); err != nil {
		return noRight{err}
	}
	return nil
}

// noRight is the answer to who has no right to what it asked for. It may look
// like another failure, where that is what is answered for what is not there.
type noRight struct{ error }

func (n noRight) Unwrap() error { return n.error }

// allows refuses who may not do something in a place, as if there were nothing
// if they see nothing there.
func (p place) allows(who *ares.Identity, v roles.Verb) error {
	switch {
	case roles.Allows(who, v, p.tenant, p.queue):
		return nil
	case p.absent != nil && !roles.Allows(who, roles.JobRead, p.tenant, p.queue):
		return p.absent
	}
	return mayNot(who, v, p.tenant)
}

// mayNot says what is missing.
func mayNot(who *ares.Identity, v roles.Verb, tenant string) error {
	if v == roles.AgentAct {
		return ares.Errorf(ares.Forbidden, "this call is for node agents: use a node token (%s has %s)", who.Name, rolesOf(who))
	}
	where := ""
	if tenant != "" && tenant != roles.Any {
		where = " in tenant " + tenant
	}
	return ares.Errorf(ares.Forbidden, "%s may not do this (%s)%s: it has %s; somebody who may bind it to more is who you need, or an admin token", who.Name, v, where, rolesOf(who))
}

// rolesOf says what an identity is bound to.
func rolesOf(who *ares.Identity) string {
	if len(who.Bindings) == 0 {
		return "no role"
	}
	const most = 8
	var words []string
	for _, b := range who.Bindings[:min(len(who.Bindings), most)] {
		words = append(words, roles.String(b))
	}
	if len(who.Bindings) > most {
		words = append(words, "and more")
	}
	return strings.Join(words, ", ")
}
