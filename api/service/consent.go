package service

import (
	"context"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// A role binding changes what its subject sees and which tenant its jobs go to by default. So a tenant must not bind the
// subjects of other tenants without being asked. A binding to a subject of another tenant is stored as pending and has no
// effect until it is accepted.
//
// A token belongs to the tenant in its name; a token without a tenant belongs to the platform. A user or group of an OpenID
// issuer belongs to the tenants in which it has bindings that are in effect.

// subjectTenants has the tenants of users and groups, by subject.
type subjectTenants map[string][]string

func subjectTenantsOf(all []store.Binding) subjectTenants {
	out := subjectTenants{}
	for i := range all {
		b := &all[i]
		if _, isToken := auth.TenantOf(b.Subject); !isToken && !b.Pending && b.Tenant != "" {
			out[b.Subject] = append(out[b.Subject], b.Tenant)
		}
	}
	return out
}

// The method `of` returns the tenants of a subject. The list is empty for a subject of the platform, and for a user or
// group without bindings. Such a user or group is free, and any tenant may bind it.
func (s subjectTenants) of(subject string) (tenants []string, free bool) {
	if tenant, isToken := auth.TenantOf(subject); isToken {
		if tenant == "" {
			return nil, false
		}
		return []string{tenant}, false
	}
	return s[subject], len(s[subject]) == 0
}

// mayConsent reports whether a caller may accept bindings of a subject: as an administrator of the platform, or of one of
// the subject's tenants.
func (s subjectTenants) mayConsent(who *ares.Identity, subject string) bool {
	return s.allows(who, roles.BindingWrite, subject)
}

// The method `allows` reports whether a caller has a permission in all tenants or in one of the subject's tenants.
func (s subjectTenants) allows(who *ares.Identity, v roles.Verb, subject string) bool {
	tenants, _ := s.of(subject)
	return roles.Allows(who, v, "", "") || slices.ContainsFunc(tenants, func(t string) bool { return roles.Allows(who, v, t, "") })
}

// The method `shows` reports whether a caller may see a binding because of its subject: every binding of its tenant's
// tokens, and those bindings of its users and groups that it can accept. The other bindings of a user are no concern of a
// tenant.
func (s subjectTenants) shows(who *ares.Identity, b *store.Binding) bool {
	_, isToken := auth.TenantOf(b.Subject)
	return (isToken || b.Pending) && s.allows(who, roles.BindingRead, b.Subject)
}

// needsConsent reports whether a binding that a caller creates is pending at first.
func (s subjectTenants) needsConsent(who *ares.Identity, subject string) bool {
	_, free := s.of(subject)
	return !free && !s.mayConsent(who, subject)
}

// AcceptBinding implements apipb.IdentityServiceServer.
func (d *identityService) AcceptBinding(ctx context.Context, req *apipb.AcceptBindingRequest) (*apipb.AcceptBindingResponse, error) {
	who := pipeline.IdentityOf(ctx)
	b := store.Binding{
		Binding: ares.Binding{Role: ares.Role(req.GetRole()), Tenant: req.GetTenantId(), Queue: req.GetQueue()}, Subject: req.GetSubject(),
	}
	var p ares.Problems
	auth.CheckSubject(&p, "subject", b.Subject)
	roles.Check(&p, "", b.Binding)
	if err := p.Err(); err != nil {
		return nil, err
	}
	all, err := d.Cfg.Store.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	if !subjectTenantsOf(all).mayConsent(who, b.Subject) {
		if !roles.Allows(who, roles.BindingRead, b.Tenant, b.Queue) {
			return nil, store.NoBinding(b)
		}
		return nil, ares.Errorf(ares.Forbidden, "%s cannot accept bindings of %s: ask an administrator of its tenant or of the platform to run `ares binding accept`",
			who.Name, ares.Clip(b.Subject))
	}
	was, now, err := d.Cfg.Store.AcceptBinding(ctx, b, who.Name)
	if err != nil {
		return nil, err
	}
	if was.Pending {
		pipeline.AuditChange(ctx, b.Tenant, was, now)
	} else {
		pipeline.AuditCreation(ctx, b.Tenant, now, false)
	}
	d.Cfg.Auth.Changed()
	return &apipb.AcceptBindingResponse{Binding: newStoredBinding(&now)}, nil
}

// mayDelete returns an error if a caller may not delete a binding. An administrator may delete the bindings in its scope,
// and every binding of its tenant's tokens.
func mayDelete(who *ares.Identity, b *store.Binding) error {
	if tenant, isToken := auth.TenantOf(b.Subject); isToken && tenant != "" && roles.Allows(who, roles.BindingWrite, tenant, "") {
		return nil
	}
	return mayGrant(who, b.Binding)
}
