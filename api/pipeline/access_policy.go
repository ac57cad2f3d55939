package pipeline

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/policy"
	"github.com/ares-scheduler/ares/policy/roles"
)

// IsExempt reports whether a call is exempt from all access policies. Policies
// can deny a call but never grant one. Policies do not apply to agents, because
// running jobs depend on the agents' calls. Policies also do not apply to a
// platform-admin who changes policies, so that no policy can lock everybody
// out.
func IsExempt(m *method.Method, who *ares.Identity) bool {
	return roles.Allows(who, roles.AgentAct, roles.Any, roles.Any) ||
		m.Service() == "PolicyService" && roles.Allows(who, roles.PolicyWrite, "", "")
}

// PolicyRequest describes a call's method in the form that policy expressions
// read.
func PolicyRequest(m *method.Method) policy.Request {
	level := m.Audit.Level
	return policy.Request{
		Method: strings.TrimPrefix(m.Name, "/"), Service: m.Service(), Action: m.Name[strings.LastIndexByte(m.Name, '/')+1:],
		Write: level != method.RejectedReads && level != method.Exports && level != method.NotAudited,
	}
}

// PolicyObject describes the object that a call acts on, if the request names
// the object.
func (d *Pipeline) PolicyObject(c *Call, req any) policy.Object {
	m, _ := req.(proto.Message)
	o := policy.Object{Kind: c.Method.Audit.Kind, Tenant: c.Tenant}
	if o.Tenant == "" {
		o.Tenant = tenantIn(m)
	}
	for _, name := range c.Method.Audit.Names {
		if value := textAt(m, name); value != "" {
			o.ID = value // the last value is the object's own name; earlier values name its parents
		}
	}
	switch {
	case o.Kind == "" && c.Method.Service() == "JobService":
		o.Kind = "job"
		if e := d.Cfg.View.Job(ares.JobID(o.ID)); e != nil {
			o.Tenant = e.Job.Tenant
		} else if o.ID == "" {
			o.ID = textAt(m, "job.name")
		}
	case o.Kind == "tenant":
		o.Tenant = o.ID
	}
	return o
}

// tenantIn returns the tenant that is named in a field of the request.
func tenantIn(m proto.Message) string {
	for _, path := range []string{"tenant_id", "policy.tenant_id", "reservation.tenant_id"} {
		if tenant := textAt(m, path); tenant != "" {
			return tenant
		}
	}
	return ""
}

// SeesPolicy reports whether a caller may see a policy. A policy for all
// tenants may name any tenant, so the caller needs the permission for all
// tenants.
func (d *Pipeline) SeesPolicy(ctx context.Context, p *ares.Policy) bool {
	return roles.Allows(IdentityOf(ctx), roles.PolicyRead, p.Tenant, "")
}

// asUser adds the submitting user to the context, because admission policies
// need it.
func asUser(ctx context.Context) context.Context {
	if c := CallOf(ctx); c.Caller != nil {
		return admission.WithUser(ctx, c.Identity())
	}
	return ctx
}
