package pipeline

import (
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Account says to whom a limiter charges a slot: to a caller and to the tenant of the caller. The tokens of one
// tenant share the tenant's part of the slots, so a tenant gains nothing by creating more tokens.
type Account struct {
	Name string
	// Tenant is the tenant that the slot is charged to. It is empty for platform administrators and for agents,
	// which may also use the slots that are kept free of tenants.
	Tenant string
}

// These texts stand for a tenant in an Account. They are not valid names, so no tenant can have them.
const (
	manyTenants = "*" // a caller with a role in all tenants that is not an administrator
	noTenant    = "-" // callers without any role
)

// AccountOf returns the account of an identity. The calls of an identity that has roles in several tenants and no
// tenant of its own are charged to the first of these tenants, by name.
func AccountOf(id *ares.Identity) Account {
	a := Account{Name: id.Name, Tenant: id.Tenant}
	wide := false
	for _, b := range id.Bindings {
		if b.Role == ares.PlatformAdmin || b.Role == ares.AgentRole || b.Role == ares.MemberRole {
			return Account{Name: id.Name}
		}
		wide = wide || b.Tenant == ""
	}
	switch {
	case a.Tenant != "":
	case wide:
		a.Tenant = manyTenants
	case len(id.Bindings) == 0:
		a.Tenant = noTenant
	default:
		a.Tenant = slices.MinFunc(id.Bindings, func(x, y ares.Binding) int { return strings.Compare(x.Tenant, y.Tenant) }).Tenant
	}
	return a
}

// The method `group` names the tenant of an account, or the caller itself if it has no tenant. When a queue is full,
// the group with the most waiting calls loses one.
func (a Account) group() string {
	if a.Tenant != "" {
		return "tenant " + a.Tenant
	}
	return a.Name
}
