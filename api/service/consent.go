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
// A token belongs to the tenant in its name; a token without a tenant belongs to the platform. The users and groups of an
// OpenID issuer belong to nobody at first: a tenant cannot know whose they are, so a platform administrator decides about
// the first binding of a user or group in a tenant. After that, the tenant's administrator may change its roles there. A
// user that belongs to one tenant is that tenant's, whose administrator decides about other tenants. A user of several
// tenants needs the consent of all of them, because each new tenant can change the default tenant of the user's jobs. The
// members of a group can come from any tenant, so no tenant can decide for a group.

// subjectTenants has the tenants in which users and groups have bindings that are in effect, by subject.
type subjectTenants map[string][]string

func subjectTenantsOf(all []store.Binding) subjectTenants {
	out := subjectTenants{}
	for i := range all {
		b := &all[i]
		if _, isToken := auth.TenantOf(b.Subject); !isToken && !b.Pending && b.Tenant != "" && !slices.Contains(out[b.Subject], b.Tenant) {
			out[b.Subject] = append(out[b.Subject], b.Tenant)
		}
	}
	return out
}

// The method `owners` returns the tenants that together decide about the bindings of a subject in other tenants. The list is
// empty if only platform administrators decide.
func (s subjectTenants) owners(subject string) []string {
	if tenant, isToken := auth.TenantOf(subject); isToken {
		if tenant == "" {
			return nil
		}
		return []string{tenant}
	}
	if auth.IsGroup(subject) {
		return nil
	}
	return s[subject]
}

// mayConsent reports whether a caller may accept bindings of a subject: as an administrator of the platform, or of all
// tenants that the subject belongs to.
func (s subjectTenants) mayConsent(who *ares.Identity, subject string) bool {
	return allowsAll(who, roles.BindingWrite, s.owners(subject))
}

// allowsAll reports whether a caller has a permission in all tenants of the platform, or in all tenants of a list that is not
// empty.
func allowsAll(who *ares.Identity, v roles.Verb, tenants []string) bool {
	denied := func(t string) bool { return !roles.Allows(who, v, t, "") }
	return roles.Allows(who, v, "", "") || len(tenants) > 0 && !slices.ContainsFunc(tenants, denied)
}

// The method `shows` reports whether a caller may see a binding because of its subject: every binding of its tenant's
// tokens, and those bindings of its users that it can accept. The other bindings of a user are no concern of a tenant.
func (s subjectTenants) shows(who *ares.Identity, b *store.Binding) bool {
	_, isToken := auth.TenantOf(b.Subject)
	return (isToken || b.Pending) && allowsAll(who, roles.BindingRead, s.owners(b.Subject))
}

// needsConsent reports whether a binding that a caller creates is pending at first. A user or group that already has a
// binding in the tenant needs no further consent for it.
func (s subjectTenants) needsConsent(who *ares.Identity, b *store.Binding) bool {
	known := b.Tenant != "" && slices.Contains(s[b.Subject], b.Tenant)
	return !known && !s.mayConsent(who, b.Subject)
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
// every binding of its tenant's tokens, and the bindings of its users that it could accept or that were accepted for it.
func (s subjectTenants) mayDelete(who *ares.Identity, b *store.Binding, stored []store.Binding) error {
	_, isToken := auth.TenantOf(b.Subject)
	others := slices.DeleteFunc(slices.Clone(s.owners(b.Subject)), func(t string) bool { return !isToken && t == b.Tenant })
	offered := isToken || slices.ContainsFunc(stored, func(o store.Binding) bool {
		return o.Subject == b.Subject && o.Binding == b.Binding && (o.Pending || o.AcceptedBy != "")
	})
	if offered && allowsAll(who, roles.BindingWrite, others) {
		return nil
	}
	return mayGrant(who, b.Binding)
}
