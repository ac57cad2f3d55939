package api

import (
	"context"
	"strings"

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
	service := serviceOf(method)
	switch service {
	case "AgentService":
		return true
	case "PolicyService":
		return isPlatformAdmin(who)
	}
	return false
}

func isPlatformAdmin(who *ares.Identity) bool {
	return roles.Allows(who, roles.PolicyWrite, "", "")
}

func serviceOf(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/ares.v1."), "/")
	return service
}

// requestOf is a call as policies see it.
func requestOf(method string) policy.Request {
	name := strings.TrimPrefix(method, "/")
	action := name[strings.LastIndexByte(name, '/')+1:]
	return policy.Request{Method: name, Service: serviceOf(method), Action: action, Write: writes(action)}
}

// writes says whether a method changes something, by its name.
func writes(action string) bool {
	for _, read := range []string{"Get", "List", "Watch", "Stream", "Explain", "Plan", "Predict", "Dump", "Backup", "Record", "Check", "Export", "Verify"} {
		if strings.HasPrefix(action, read) {
			return false
		}
	}
	return true
}

// objectOf is what a call is about, as far as its request names it.
func (d *Doors) objectOf(method string, req any) policy.Object {
	o := policy.Object{Kind: kindOf(method)}
	if m, ok := req.(interface{ GetTenantId() string }); ok {
		o.Tenant = m.GetTenantId()
	}
	switch m := req.(type) {
	case interface{ GetJobId() string }:
		o.Kind, o.ID = "job", m.GetJobId()
		if e := d.cfg.View.Job(ares.JobID(o.ID)); e != nil {
			o.Tenant = e.Job.Tenant
		}
	case interface{ GetJob() *apipb.JobSpec }:
		o.Kind, o.ID, o.Tenant = "job", m.GetJob().GetName(), m.GetJob().GetTenantId()
		if o.Tenant == "" {
			o.Tenant = ares.DefaultTenant
		}
	case interface{ GetNodeId() string }:
		o.Kind, o.ID = "node", m.GetNodeId()
	case interface{ GetPolicy() *apipb.Policy }:
		o.ID, o.Tenant = m.GetPolicy().GetName(), m.GetPolicy().GetTenantId()
	case interface{ GetReservation() *apipb.Reservation }:
		o.ID, o.Tenant = m.GetReservation().GetName(), m.GetReservation().GetTenantId()
	case interface{ GetQueue() *apipb.Queue }:
		o.ID, o.Tenant = m.GetQueue().GetName(), m.GetQueue().GetTenantId()
	case interface{ GetTenant() *apipb.Tenant }:
		o.ID, o.Tenant = m.GetTenant().GetId(), m.GetTenant().GetId()
	case interface{ GetName() string }:
		o.ID = m.GetName()
	default:
		if o.Kind == "tenant" {
			o.ID = o.Tenant
		}
	}
	return o
}

// kindOf is the kind of things a service keeps: that of JobService are jobs.
func kindOf(method string) string {
	return strings.ToLower(strings.TrimSuffix(serviceOf(method), "Service"))
}

// seesPolicy says whether a policy may be shown to a caller. Those for all tenants
// may name any of them.
func (d *Doors) seesPolicy(ctx context.Context, p *ares.Policy) bool {
	return roles.Allows(identityOf(ctx), roles.PolicyRead, p.Tenant, "")
}

// callerIdentity is who makes a call, nil where nobody had to say.
func callerIdentity(ctx context.Context) *ares.Identity {
	if _, ok := callerOf(ctx); !ok {
		return nil
	}
	return identityOf(ctx)
}

// asUser has the policies that a submission meets know who makes it.
func asUser(ctx context.Context) context.Context {
	if who := callerIdentity(ctx); who != nil {
		return control.WithUser(ctx, who)
	}
	return ctx
}
