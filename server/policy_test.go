package server

import (
	"fmt"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy"
)

// TestMetricsOfTenantsPolicies checks that a tenant that applies policies with ever new names does not create ever new metrics,
// and that the platform's policies keep theirs.
func TestMetricsOfTenantsPolicies(t *testing.T) {
	m := newPolicyMetrics(nil)
	for i := range 2 * maxNamedPolicies {
		m.count(&ares.Policy{Name: fmt.Sprint("p", i), Tenant: "red"}, policy.Allowed)
	}
	if got := m.name(&ares.Policy{Name: "new", Tenant: "red"}); got != otherPolicies {
		t.Errorf("another policy is named %q", got)
	}
	if got := m.name(&ares.Policy{Name: "p0", Tenant: "red"}); got != (&ares.Policy{Name: "p0", Tenant: "red"}).ID() {
		t.Errorf("a known policy is named %q", got)
	}
	if got := m.name(&ares.Policy{Name: "new"}); got != "new" {
		t.Errorf("a policy of the platform is named %q", got)
	}
}
