package store

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestPoliciesOfHostileTenants checks that tenants with as many policies as they may have keep neither the platform nor other
// tenants from adding one, until all tenants together have reached their limit.
func TestPoliciesOfHostileTenants(t *testing.T) {
	all := map[string]*ares.Policy{}
	fill := func(tenant string, n int) {
		for i := range n {
			p := &ares.Policy{Name: fmt.Sprint("p", i), Tenant: tenant}
			all[p.ID()] = p
		}
	}
	check := func(tenant, want string) {
		t.Helper()
		if err := checkPolicyLimit(all, tenant); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("tenant %q with %d policies: %v, want %q", tenant, len(all), err, want)
		}
	}
	for i := range 12 {
		fill(fmt.Sprint("hostile", i), ares.MaxTenantPolicies)
	}
	check("hostile0", "of its own, which is the limit")
	check("third", "")
	check("", "")
	for i := range 20 {
		fill(fmt.Sprint("more", i), ares.MaxTenantPolicies)
	}
	check("third", "all tenants together")
	check("", "")
	fill("", ares.MaxPolicies)
	check("", "of the platform, which is the limit")
}
