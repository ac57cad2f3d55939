package service

import (
	"cmp"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// These constants limit tokens and bindings. pipeline.Limits has the limits for one tenant.
const (
	maxTokens   = 10_000
	maxBindings = 50_000
	// maxOfSubject is the maximum number of bindings of one subject. Each call of a subject evaluates all of them.
	maxOfSubject = 1000
	// maxPending is the maximum number of bindings of one subject that wait for consent, so that other tenants cannot
	// fill the list in which the subject's tenant finds them. One tenant may offer only maxOffers of them, so that it does
	// not keep other tenants from offering something to the same subject.
	maxPending = 32
	maxOffers  = 8
	// maxPendingOfTenant is the maximum number of pending bindings in one tenant. The subject of a pending binding need not
	// exist, so a tenant could otherwise fill another tenant's list with invented names.
	maxPendingOfTenant = 64
	// keptForAdmins is the part of the tokens and bindings that only platform administrators may create: one tenth.
	keptForAdmins = 10
)

// checkTokens returns an error if no token may be added to a tenant.
func (d *identityService) checkTokens(who *ares.Identity, tenant string, all []store.Token) error {
	own := 0
	for i := range all {
		if all[i].Tenant() == tenant {
			own++
		}
	}
	most := cmp.Or(d.Pipeline.Cfg.Limits.TokensPerTenant, pipeline.DefaultLimits().TokensPerTenant)
	return checkQuota(who, "tokens", "revoke tokens that are no longer used", "limits.tokens_per_tenant", tenant, own, most, len(all), maxTokens)
}

// checkBindings returns an error if a binding may not be added to the existing ones.
func (d *identityService) checkBindings(who *ares.Identity, b *store.Binding, all []store.Binding) error {
	own, same, pending, offers, offered := 0, 0, 0, 0, 0
	for i := range all {
		here, its, waits := all[i].Tenant == b.Tenant, all[i].Subject == b.Subject, all[i].Pending
		own += count(here)
		same += count(its)
		pending += count(its && waits)
		offers += count(here && its && waits)
		offered += count(here && waits)
	}
	most := cmp.Or(d.Pipeline.Cfg.Limits.BindingsPerTenant, pipeline.DefaultLimits().BindingsPerTenant)
	err := checkQuota(who, "role bindings", "delete unused ones, or bind roles to groups instead of users", "limits.bindings_per_tenant", b.Tenant, own, most, len(all), maxBindings)
	switch {
	case err != nil:
		return err
	case same >= maxOfSubject:
		return ares.Errorf(ares.LimitReached, "%s has %d role bindings, which is the limit: bind it to whole tenants instead of queues, or to all tenants", ares.Clip(b.Subject), same)
	case b.Pending && offers >= maxOffers:
		return ares.Errorf(ares.LimitReached, "%d role bindings of %s in tenant %s wait for consent, which is the limit: delete some, or ask an administrator of the subject's tenant or of the platform to accept them", offers, ares.Clip(b.Subject), b.Tenant)
	case b.Pending && offered >= maxPendingOfTenant:
		return ares.Errorf(ares.LimitReached, "%d role bindings in tenant %s wait for consent, which is the limit: delete some, or ask a platform administrator to accept them", offered, b.Tenant)
	case b.Pending && pending >= maxPending:
		return ares.Errorf(ares.LimitReached, "too many role bindings of %s wait for consent: ask an administrator of its tenant or of the platform to accept or delete them", ares.Clip(b.Subject))
	}
	return nil
}

// The function `count` is 1 for true, and 0 for false.
func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// checkQuota returns an error if a tenant has reached its limit, or if all tenants together have reached theirs. Objects
// without a tenant count only towards the total.
func checkQuota(who *ares.Identity, what, advice, key, tenant string, own, most, all, total int) error {
	switch kept := total / keptForAdmins; {
	case tenant != "" && own >= most:
		return ares.Errorf(ares.LimitReached, "tenant %s has %d %s, which is the limit for one tenant (%s): %s", tenant, own, what, key, advice)
	case all >= total:
		return ares.Errorf(ares.LimitReached, "there are %d %s, which is the limit: %s", all, what, advice)
	case all >= total-kept && !roles.Allows(who, roles.TenantWrite, "", ""):
		return ares.Errorf(ares.LimitReached, "there are %d %s, and the last %d are kept for platform administrators: %s", all, what, kept, advice)
	}
	return nil
}
