package api

import (
	"maps"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
)

// The function `tenant` returns a valid request to create a tenant.
func tenant(more ...any) map[string]any {
	t := map[string]any{
		"max_gpus": 16, "max_gpu_memory_mb": 200000, "max_cpu_cores": 64, "max_memory_mb": 500000, "max_concurrent_jobs": 20,
	}
	for i := 0; i < len(more); i += 2 {
		t[more[i].(string)] = more[i+1]
	}
	return t
}

func TestTenants(t *testing.T) {
	h := newHouse(t)
	h.cfg.Policies.Spent = func(string) float64 { return 2.5 }
	a := h.do("POST", "/api/v1/tenants", tenant("name", "ML Research Team"))
	if a.code != 201 || a.json["id"] != "ml-research-team" || a.json["max_gpus"] != 16.0 || a.json["allow_preemption"] != true {
		t.Fatalf("create answered %d %s", a.code, a.body)
	}
	if use := a.json["current"].(map[string]any); use["gpus"] != 0.0 || use["running_jobs"] != 0.0 {
		t.Errorf("a new tenant uses %v", use)
	}
	b := h.do("POST", "/api/v1/tenants", tenant("name", "ML Research Team"))
	if b.code != 201 || b.json["id"] == a.json["id"] || !strings.HasPrefix(b.json["id"].(string), "ml-research-team-") {
		t.Errorf("the same name again answered %d %s", b.code, b.body)
	}
	for range 2 { // a request with an ID may be repeated
		if c := h.do("POST", "/api/v1/tenants", tenant("id", "vision", "name", "Vision", "priority_tier", "high")); c.code != 201 || c.json["id"] != "vision" {
			t.Errorf("create with an id answered %d %s", c.code, c.body)
		}
	}
	h.refused(h.do("POST", "/api/v1/tenants", tenant("id", "vision", "name", "Other")), 409, ares.Conflict, "id")

	h.submit("tenant_id", "vision")
	h.seen()
	c := h.do("GET", "/api/v1/tenants/vision", nil)
	if c.json["current"].(map[string]any)["pending_jobs"] != 1.0 || c.json["priority_tier"] != "high" || c.json["created_at"] == nil {
		t.Errorf("the tenant is %s", c.body)
	}
	h.refused(h.do("DELETE", "/api/v1/tenants/vision", nil), 409, ares.Conflict, "cancel")
	c = h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"max_gpus": 2, "priority_tier": ""})
	if c.code != 200 || c.json["max_gpus"] != 2.0 || c.json["max_cpu_cores"] != 64.0 || c.json["priority_tier"] != nil || c.json["name"] != "Vision" {
		t.Errorf("patch answered %d %s", c.code, c.body)
	}
	if c.json["gpu_hours_this_month"] != nil {
		t.Errorf("use of a budget that there is not: %s", c.body)
	}
	if c = h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"gpu_hours_per_month": 9}); c.json["gpu_hours_this_month"] != 2.5 {
		t.Errorf("with a budget: %s", c.body)
	}
	h.refused(h.do("POST", "/api/v1/jobs", job("tenant_id", "vision", "gpu_count", 3)), 403, ares.QuotaExceeded, "requested=3, quota=2")
	if d := h.do("GET", "/api/v1/tenants", nil); d.json["total"] != 4.0 || !strings.Contains(d.body, `"id":"default"`) {
		t.Errorf("list answered %s", d.body)
	}
	if d := h.do("DELETE", "/api/v1/tenants/ml-research-team", nil); d.code != 200 || d.json["message"] == "" {
		t.Errorf("delete answered %d %s", d.code, d.body)
	}
	h.refused(h.do("GET", "/api/v1/tenants/ml-research-team", nil), 404, ares.NotFound)
	h.refused(h.do("DELETE", "/api/v1/tenants/default", nil), 409, ares.Conflict, "built in")
	h.refused(h.do("PATCH", "/api/v1/tenants/nobody", map[string]any{"max_gpus": 1}), 404, ares.NotFound)
	h.refused(h.do("GET", "/api/v1/tenants/%2e%2e", nil), 404, ares.NotFound)
}

func TestBadTenants(t *testing.T) {
	h := newHouse(t)
	before := h.stored("")
	for _, c := range []struct {
		body  any
		words []string
	}{
		{tenant(), []string{"name", "required"}},
		{tenant("name", "x", "max_gpus", -1), []string{"max_gpus", "or more"}},
		{tenant("name", "x", "max_gpus", 1<<40), []string{"max_gpus"}},
		{tenant("name", "x", "max_gpus", "4"), []string{"max_gpus"}},
		{tenant("name", "x", "priority_tier", "urgent"), []string{"priority_tier", "critical"}},
		{tenant("name", "x", "fair_share_weight", 0), []string{"fair_share_weight"}},
		{tenant("name", "x", "fair_share_weight", -1), []string{"fair_share_weight"}},
		{tenant("name", "x", "default_lost_after_seconds", 1), []string{"default_lost_after_seconds"}},
		{tenant("name", "x", "id", "a/b"), []string{"id"}},
		{tenant("name", "a\nb"), []string{"name"}},
		{tenant("name", strings.Repeat("x", 300)), []string{"name"}},
		{tenant("name", "x", "current", map[string]any{"gpus": 1}), []string{"current"}},
		{tenant("name", "x", "gpu_hours_this_month", 1), []string{"gpu_hours_this_month"}},
		{tenant("name", "x", "created_at", "2026-01-31T18:00:00Z"), []string{"created_at"}},
		{tenant("name", "x", "max_gpu", 1), []string{"max_gpu", "max_gpus"}},
		{"", []string{"empty"}},
	} {
		h.refused(h.do("POST", "/api/v1/tenants", c.body), 400, ares.Invalid, c.words...)
	}
	h.refused(h.do("PATCH", "/api/v1/tenants/default", map[string]any{"id": "other"}), 400, ares.Invalid, "id")
	h.refused(h.do("PATCH", "/api/v1/tenants/default", map[string]any{"max_gpus": -1}), 400, ares.Invalid, "max_gpus")
	if n := h.stored(""); n != before {
		t.Errorf("%d records are stored, %d were before", n, before)
	}
}

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{
		"ML Research Team": "ml-research-team", "  a  b ": "a-b", "Über": "ber", "日本": "tenant", "a/../b": "a-b",
		strings.Repeat("x", 300): strings.Repeat("x", service.MaxSlug), strings.Repeat("ab ", 100): strings.Repeat("ab-", 16)[:47],
	} {
		if got := service.Slug(name); got != want || !ares.ValidName(got) {
			t.Errorf("slug(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestTenantsLeaveTheEngineAlone checks that the server computes the usage of
// tenants at most once per second, however often callers list the tenants.
func TestTenantsLeaveTheEngineAlone(t *testing.T) {
	h := newHouse(t)
	now, asked := time.Now(), map[string]int{}
	h.cfg.Policies.Now = func() time.Time { return now }
	h.cfg.Policies.Spent = func(tenant string) float64 { asked[tenant]++; return 2.5 }
	for _, id := range []string{"red", "blue"} {
		if a := h.do("POST", "/api/v1/tenants", tenant("id", id, "gpu_hours_per_month", 9)); a.code != 201 {
			t.Fatal(a.body)
		}
	}
	for seconds := range 3 {
		for range 5 {
			if a := h.do("GET", "/api/v1/tenants", nil); strings.Count(a.body, `"gpu_hours_this_month":2.5`) != 2 {
				t.Fatal(a.body)
			}
		}
		if want := map[string]int{"red": seconds + 1, "blue": seconds + 1}; !maps.Equal(asked, want) {
			t.Errorf("after %d s the engine was asked %v times, want %v", seconds, asked, want)
		}
		now = now.Add(time.Second)
	}
}
