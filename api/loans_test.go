package api

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestTenantOfTheHub reads and changes a tenant of the hub in a cluster. The loan is shown, and a field about which the hub decides
// is not changed.
func TestTenantOfTheHub(t *testing.T) {
	h := newHouse(t)
	s := h.cfg.Store
	_, err := s.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubIncarnation = "east", "hub-1"; return nil })
	must(t, err)
	lead, _ := storetest.NewLead(t, s)
	must(t, s.ShareTenant(t.Context(), lead, ares.Tenant{ID: "vision", Name: "Vision", Weight: 2, MayPreempt: true, Shared: &ares.Shared{Hub: "hub-1", Version: 3}}, time.Now()))
	_, err = s.SetLoan(t.Context(), lead, "vision", ares.Loan{Hub: "hub-1", Version: 4, GPUs: 3, Quota: 8, Budget: ares.LoanBudget{Hours: 9, Secs: 5400}})
	must(t, err)
	got := h.do("GET", "/api/v1/tenants/vision", nil).json
	if got["hub_loan_gpus"] != 3.0 || got["hub_max_gpus"] != 8.0 || got["hub_tenant"] != true || got["max_gpus"] != nil {
		t.Errorf("the tenant is %v", got)
	}
	if got["hub_loan_gpu_hours"] != 1.5 || got["hub_gpu_hours_per_month"] != 9.0 || got["gpu_hours_per_month"] != nil {
		t.Errorf("the GPU-hours of the tenant are %v", got)
	}
	for field, value := range map[string]any{"fair_share_weight": 3, "priority_tier": "low", "name": "Other", "allow_preemption": false} {
		a := h.do("PATCH", "/api/v1/tenants/vision", map[string]any{field: value})
		h.refused(a, 409, ares.Conflict, field)
		if !strings.Contains(string(a.body), "the hub decides") {
			t.Errorf("%s: %s", field, a.body)
		}
	}
	h.refused(h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"hub_loan_gpus": 9}), 400, ares.Invalid, "hub_loan_gpus")
	h.refused(h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"hub_loan_gpu_hours": 9}), 400, ares.Invalid, "hub_loan_gpu_hours")
	if a := h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"max_gpus": 2}); a.code != 200 || a.json["hub_loan_gpus"] != 3.0 || a.json["max_gpus"] != 2.0 {
		t.Errorf("an edit answered %d %s", a.code, a.body)
	}
	h.refused(h.do("DELETE", "/api/v1/tenants/vision", nil), 409, ares.Conflict, "")
}

// TestLoansOfAHub reads a tenant and a cluster at a hub.
func TestLoansOfAHub(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Federation = service.Federation{Hub: true} })
	s := h.cfg.Store
	c := storetest.NewCluster(t, s, "one-1")
	lead, _ := storetest.NewLead(t, s)
	tenant := storetest.NewTenant(t, s)
	tenant.Limits.GPUs, tenant.GPUHours = 8, 4
	_, err := s.UpdateTenant(t.Context(), tenant)
	must(t, err)
	l, err := s.Lend(t.Context(), lead, store.Loan{Tenant: tenant.ID, Cluster: c.Name, Fresh: true})
	must(t, err)
	month := time.Now().UTC().Format(ares.MonthForm)
	answer := store.LoanAnswer{Tenant: tenant.ID, Cluster: c.Name, Incarnation: "one-1", Version: l.Revision, GPUs: 5, Hours: &store.HoursAnswer{Month: month, Used: 900}}
	l, err = s.LoanAnswered(t.Context(), lead, answer)
	must(t, err)
	l.Hours.Secs, l.Hours.Limit = 3600, 3600
	l, err = s.Lend(t.Context(), lead, l)
	must(t, err)
	l.Hours.Limit = 1800
	_, err = s.Lend(t.Context(), lead, l)
	must(t, err)
	for _, path := range []string{"/api/v1/tenants/" + tenant.ID, "/api/v1/clusters/" + c.Name} {
		got := h.do("GET", path, nil)
		loans, _ := got.json["loans"].([]any)
		if len(loans) != 1 {
			t.Fatalf("%s answered %s", path, got.body)
		}
		if one := loans[0].(map[string]any); one["tenant_id"] != tenant.ID || one["cluster"] != c.Name || one["gpus"] != 5.0 || one["limit"] != 0.0 ||
			one["gpu_hours"] != 1.0 || one["gpu_hours_limit"] != 0.5 || one["gpu_hours_used"] != 0.25 {
			t.Errorf("%s answered %v", path, one)
		}
	}
}
