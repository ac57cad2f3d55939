package pipeline

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/policy"
	"github.com/ares-scheduler/ares/policy/roles"
)

// Authenticate identifies the caller. If there is no tenant in which the caller has the method's permission,
// Authenticate rejects the call. A later step, Authorize, checks the permission for the request's tenant and
// queue. A public method needs no authenticated caller.
func (d *Pipeline) Authenticate(ctx context.Context, c *Call, _ any) (err error) {
	if c.Method.IsPublic() {
		return nil
	}
	if c.Caller == nil { // REST identifies the caller before it reads the body
		if c.Caller, err = d.identify(ctx); err != nil {
			return err
		}
	}
	if err = requirePermission(c.Identity(), c.Method.Permission); err != nil {
		// A rejected call counts too. The caller could otherwise make any number of them.
		if tooMany := d.Limiters.spend(ctx, d.Limiters.byKind[c.Method.Limiter], AccountOf(c.Identity())); tooMany != nil {
			return tooMany
		}
		return err
	}
	if c.Method.Permission != roles.AgentAct {
		return nil
	}
	return d.Cfg.Trust.admitsAgent(ctx, c.Identity())
}

// Authorize finds the tenant and the queue that a request acts on. It rejects the request if the caller lacks
// the permission there or an access policy denies it. Authorize is the only step that fills in a default
// tenant.
func (d *Pipeline) Authorize(ctx context.Context, c *Call, req any) (err error) {
	if c.scope, err = d.scopeOf(ctx, c, req); err != nil {
		return err
	}
	if c.scope.Tenant != roles.Any {
		c.Tenant = c.scope.Tenant
	}
	if c.scope.Queue != roles.Any {
		c.Queue = c.scope.Queue
	}
	c.First.Store(&req)
	if c.Method.Permission != "" {
		if err = c.scope.Allows(c.Identity(), c.Method.Permission); err != nil {
			c.rejected = true
			return err
		}
	}
	if d.Cfg.Policies == nil || c.Caller == nil || IsExempt(c.Method, c.Identity()) {
		return nil
	}
	return d.Cfg.Policies.Access(func() policy.Access {
		return policy.Access{User: policy.NewUser(c.Identity()), Request: PolicyRequest(c.Method), Object: d.PolicyObject(c, req)}
	})
}

// The method `identify` returns the caller of a gRPC call. It uses the call's token, or the connection's
// certificate if there is no token.
func (d *Pipeline) identify(ctx context.Context) (*auth.Caller, error) {
	token := BearerOf(metadata.ValueFromIncomingContext(ctx, "authorization"))
	if leaf := ClientCertificate(ctx); leaf != nil && token == "" && d.Cfg.Certified != nil {
		return auth.NewCaller(ctx, func(ctx context.Context) (ares.Identity, error) { return d.Cfg.Certified(ctx, leaf) })
	}
	return d.Cfg.Auth.Check(ctx, token)
}

// BearerOf returns the bearer token in the values of an Authorization header, or
// "" if there is none.
func BearerOf(values []string) string {
	if len(values) != 1 {
		return ""
	}
	scheme, token, ok := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// requirePermission rejects a caller if there is no tenant in which the caller has the permission.
func requirePermission(who *ares.Identity, permission roles.Verb) error {
	if permission == "" || roles.Allows(who, permission, roles.Any, roles.Any) {
		return nil
	}
	return mayNot(who, permission, "")
}

// Allows returns an error if the caller does not have the permission in this
// scope. A caller that may see nothing in the scope gets the same error as if
// the scope did not exist.
func (p Scope) Allows(who *ares.Identity, v roles.Verb) error {
	switch {
	case roles.Allows(who, v, p.Tenant, p.Queue):
		return nil
	case p.Absent != nil && !roles.Allows(who, roles.JobRead, p.Tenant, p.Queue):
		return p.Absent
	}
	return mayNot(who, v, p.Tenant)
}

// mayNot returns the error for a caller that lacks a permission.
func mayNot(who *ares.Identity, v roles.Verb, tenant string) error {
	if v == roles.AgentAct {
		return ares.Errorf(ares.Forbidden, "only node agents can make this call, not %s (roles: %s): use a node token", who.Name, RolesOf(who))
	}
	where := ""
	if tenant != "" && tenant != roles.Any {
		where = " in tenant " + tenant
	}
	return ares.Errorf(ares.Forbidden, "%s does not have the permission %s%s (its roles: %s): ask an administrator to grant it with `ares binding create`, or use an admin token", who.Name, v, where, RolesOf(who))
}

// RolesOf lists the roles of an identity.
func RolesOf(who *ares.Identity) string {
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
