package api

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/policy"
	"github.com/ares-scheduler/ares/policy/roles"
)

// policed asks the policies on access about a call that its maker's roles allow.
// They can deny it and grant nothing. They are not asked about agents, whose
// calls keep running jobs alive, nor about a platform-admin who mends policies:
// nobody can be locked out of that by a policy.
func (d *Doors) policed(ctx context.Context, method string, req any) error {
	who := callerIdentity(ctx)
	if d.cfg.Policies == nil || who == nil || beyondPolicies(method, who) {
		return nil
	}
	return d.cfg.Policies.Access(func() policy.Access {
		return policy.Access{User: policy.NewUser(who), Request: requestOf(method), Object: d.objectOf(method, req)}
	})
}

// beyondPolicies says whether no policy may deny a call.
func beyondPolicies(method string, who *ares.Identity) bool {
	return roles.Allows(who, roles.AgentAct, roles.Any, roles.Any) ||
		serviceOf(method) == "PolicyService" && roles.Allows(who, roles.PolicyWrite, "", "")
}

func serviceOf(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/ares.v1."), "/")
	return service
}

// requestOf is a call as policies see it.
func requestOf(method string) policy.Request {
	name := strings.TrimPrefix(method, "/")
	keep := deedOf(method).keep
	return policy.Request{
		Method: name, Service: serviceOf(method), Action: name[strings.LastIndexByte(name, '/')+1:],
		Write: keep != reads && keep != opens && keep != nothing,
	}
}

// objectOf is what a call is about, as far as its request names it.
func (d *Doors) objectOf(method string, req any) policy.Object {
	m, _ := req.(proto.Message)
	about := deedOf(method)
	o := policy.Object{Kind: about.kind, Tenant: tenantIn(m)}
	for _, name := range about.names {
		if value := textAt(m, name); value != "" {
			o.ID = value // the last is its own name, what is before says whose it is
		}
	}
	switch {
	case o.Kind == "" && serviceOf(method) == "JobService":
		o.Kind = "job"
		if e := d.cfg.View.Job(ares.JobID(o.ID)); e != nil {
			o.Tenant = e.Job.Tenant
		} else if o.ID == "" {
			o.ID = textAt(m, "job.name")
		}
	case o.Kind == "tenant":
		o.Tenant = o.ID
	}
	return o
}

// tenantIn is the tenant that a request names, wherever it does.
func tenantIn(m proto.Message) string {
	for _, path := range []string{"tenant_id", "job.tenant_id", "policy.tenant_id", "queue.tenant_id", "reservation.tenant_id"} {
		if tenant := textAt(m, path); tenant != "" {
			return tenant
		}
	}
	if spec, ok := m.(interface{ GetJob() *apipb.JobSpec }); ok && spec.GetJob() != nil {
		return ares.DefaultTenant
	}
	return ""
}

// seesPolicy says whether a policy may be shown to a caller. Those for all tenants
// may name any of them.
func (d *Doors) seesPolicy(ctx context.Context, p *ares.Policy) bool {
	return roles.Allows(identityOf(ctx), roles.PolicyRead, p.Tenant, "")
}

// callerIdentity is who makes a call, nil where nobody had to say.
func callerIdentity(ctx context.Context) *ares.Identity {
	if who, ok := callerOf(ctx); ok {
		return who.Identity()
	}
	return nil
}

// asUser has the policies that a submission meets know who makes it.
func asUser(ctx context.Context) context.Context {
	if who := callerIdentity(ctx); who != nil {
		return control.WithUser(ctx, who)
	}
	return ctx
}
