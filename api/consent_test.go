package api

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
)

// TestConsent checks that a tenant cannot bind a subject of another tenant on its own. The binding has no effect until an
// administrator of the subject's tenant has accepted it, and this administrator can also remove it.
func TestConsent(t *testing.T) {
	e := newEstate(t)
	red, target := with(e.tokens["tenant-admin"]), "token:b/ci"
	victim := e.put("ci", "b", ares.Binding{Role: ares.Viewer, Tenant: "b"})
	blue := with(e.put("boss", "b", ares.Binding{Role: ares.TenantAdmin, Tenant: "b"}))
	e.cfg.Auth.Changed()
	bind := func(subject string) map[string]any {
		return map[string]any{"subject": subject, "role": "viewer", "tenant_id": "a"}
	}
	tenants := func() string {
		return fmt.Sprint(e.do("GET", "/api/v1/auth/whoami", nil, with(victim)).json["bindings"])
	}
	before := tenants()
	a := e.do("POST", "/api/v1/bindings", bind(target), red)
	if a.code != 201 || a.json["pending"] != true {
		t.Fatalf("red's binding is %d %s", a.code, a.body)
	}
	if got := tenants(); got != before {
		t.Errorf("without consent, blue's token has %s, want %s", got, before)
	}
	for name, as := range map[string]string{"a viewer of b": victim, "the submitter": e.tokens["submitter"]} {
		if got := e.do("POST", "/api/v1/bindings:accept", bind(target), with(as)); got.code != 403 {
			t.Errorf("%s accepts: %d %s", name, got.code, got.body)
		}
	}
	e.refused(e.do("POST", "/api/v1/bindings:accept", bind(target), red), 403, ares.Forbidden, "cannot accept bindings of token:b/ci")
	if got := tenants(); got != before {
		t.Errorf("after refusals, blue's token has %s", got)
	}
	if got := e.do("GET", "/api/v1/bindings?subject="+target, nil, blue); !strings.Contains(got.body, `"pending":true`) {
		t.Errorf("blue's administrator sees %s", got.body)
	}
	if got := e.do("POST", "/api/v1/bindings:accept", bind(target), blue); got.code != 200 || got.json["accepted_by"] != "token:b/boss" || got.json["pending"] == true {
		t.Fatalf("blue's consent answered %d %s", got.code, got.body)
	}
	if got := tenants(); !strings.Contains(got, "tenant_id:a") {
		t.Errorf("with consent, blue's token has %s", got)
	}
	if got := e.do("DELETE", "/api/v1/bindings?subject="+target+"&role=viewer&tenant_id=a", nil, blue); got.code != 200 {
		t.Errorf("blue withdraws its consent: %d %s", got.code, got.body)
	}
	if got := tenants(); got != before {
		t.Errorf("after the withdrawal, blue's token has %s", got)
	}
}

// TestWhoNeedsConsent checks which bindings are pending.
func TestWhoNeedsConsent(t *testing.T) {
	e := newEstate(t)
	red := with(e.tokens["tenant-admin"])
	for _, c := range []struct {
		subject string
		pending bool
	}{
		{"token:a/holder", false},
		{"token:b/holder", true},
		{"token:b/no-such-token", true},
		{"token:root", true}, // of the platform
		{"oidc:new", true},   // nobody knows whose user it is
		{"group:new", true},
		{"group:*", true}, // a name like any other
		{"oidc:" + canaryOf("a"), false},
		{"oidc:" + canaryOf("b"), true},
	} {
		a := e.do("POST", "/api/v1/bindings", map[string]any{"subject": c.subject, "role": "viewer", "tenant_id": "a", "queue": "q"}, red)
		if a.code != 201 || (a.json["pending"] == true) != c.pending {
			t.Errorf("%s: %d %s, want pending %v", c.subject, a.code, a.body, c.pending)
		}
	}
	if a := e.do("POST", "/api/v1/bindings", map[string]any{"subject": "token:b/holder", "role": "submitter", "tenant_id": "a"}); a.code != 201 || a.json["pending"] == true {
		t.Errorf("a platform administrator's binding is %d %s", a.code, a.body)
	}
	e.refused(e.do("POST", "/api/v1/bindings", map[string]any{"subject": "oidc:x", "role": "viewer", "tenant_id": "a", "accepted_by": "me"}, red), 400, ares.Invalid, "accepted_by")
	for _, path := range []string{"/api/v1/bindings", "/api/v1/bindings?tenant_id=b"} {
		if a := e.do("GET", path, nil, red); strings.Contains(a.body, `"tenant_id":"b"`) {
			t.Errorf("%s shows red bindings in tenant b: %s", path, a.body)
		}
	}
}

// TestQuotasOfIdentities checks the limits on the tokens and bindings of one tenant, and on pending bindings.
func TestQuotasOfIdentities(t *testing.T) {
	e := newEstate(t)
	limits := pipeline.DefaultLimits()
	limits.TokensPerTenant, limits.BindingsPerTenant = 6, 40
	h := newHouse(t, func(c *Config) {
		c.Store, c.View, c.Auth, c.Admission, c.Limits = e.store, e.view, e.cfg.Auth, e.cfg.Admission, limits
	})
	red := with(e.tokens["tenant-admin"])
	mint := func(i int) answer {
		return h.do("POST", "/api/v1/tokens", map[string]any{"name": fmt.Sprint("t", i), "tenant_id": "a", "bindings": []any{map[string]any{"role": "viewer", "tenant_id": "a"}}}, red)
	}
	if a := mint(0); a.code != 403 || a.json["code"] != string(ares.LimitReached) || !strings.Contains(a.body, "limits.tokens_per_tenant") {
		t.Errorf("tenant a has six tokens, and another one is %d %s", a.code, a.body)
	}
	bind := func(subject string) answer {
		return h.do("POST", "/api/v1/bindings", map[string]any{"subject": subject, "role": "viewer", "tenant_id": "a"}, red)
	}
	for i := range 8 {
		if a := h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "a", "name": fmt.Sprint("p", i)}); a.code != 201 {
			t.Fatal(a.body)
		}
		a := h.do("POST", "/api/v1/bindings", map[string]any{"subject": "token:b/holder", "role": "viewer", "tenant_id": "a", "queue": fmt.Sprint("p", i)}, red)
		if a.code != 201 {
			t.Fatalf("binding %d: %d %s", i, a.code, a.body)
		}
	}
	if a := bind("token:b/holder"); a.code != 403 || a.json["code"] != string(ares.LimitReached) || !strings.Contains(a.body, "wait for consent") {
		t.Errorf("the 9th unsolicited binding is %d %s", a.code, a.body)
	}
	for i := range 31 {
		if a := bind(fmt.Sprint("oidc:u", i)); a.code != 201 {
			t.Fatal(a.body)
		}
	}
	if a := bind("oidc:u31"); a.code != 403 || a.json["code"] != string(ares.LimitReached) || !strings.Contains(a.body, "limits.bindings_per_tenant") {
		t.Errorf("the 41st binding is %d %s", a.code, a.body)
	}
	if a := bind("oidc:u0"); a.code != 201 {
		t.Errorf("repeating a binding at the limit: %d %s", a.code, a.body)
	}
}
