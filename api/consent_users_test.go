package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// offers is a test server with the administrators of two hostile tenants.
type offers struct {
	*estate
	red, blue func(*http.Request)
}

func newOffers(t *testing.T) *offers {
	e := newEstate(t)
	o := &offers{estate: e, red: with(e.tokens["tenant-admin"]), blue: with(e.put("boss", "b", ares.Binding{Role: ares.TenantAdmin, Tenant: "b"}))}
	e.cfg.Auth.Changed()
	return o
}

func role(subject, role, tenant string) map[string]any {
	return map[string]any{"subject": subject, "role": role, "tenant_id": tenant}
}

// The method `pending` creates a binding, which must be possible, and reports whether it waits for consent.
func (o *offers) pending(b map[string]any, as ...func(*http.Request)) bool {
	o.t.Helper()
	a := o.do("POST", "/api/v1/bindings", b, as...)
	if a.code != 201 {
		o.t.Fatalf("%v: %d %s", b, a.code, a.body)
	}
	return a.json["pending"] == true
}

func (o *offers) accept(b map[string]any, as ...func(*http.Request)) answer {
	return o.do("POST", "/api/v1/bindings:accept", b, as...)
}

func (o *offers) end(b map[string]any, as ...func(*http.Request)) answer {
	at := fmt.Sprintf("/api/v1/bindings?subject=%s&role=%s&tenant_id=%s", url.QueryEscape(fmt.Sprint(b["subject"])), b["role"], b["tenant_id"])
	return o.do("DELETE", at, nil, as...)
}

// TestFirstBindingOfAUser checks that a tenant cannot take users and groups of the OpenID issuer on its own: the first binding
// in a tenant needs a platform administrator, whether or not the user has other bindings.
func TestFirstBindingOfAUser(t *testing.T) {
	o := newOffers(t)
	for _, subject := range []string{"oidc:ann", "group:staff", "oidc:" + canaryOf("b")} {
		b := role(subject, "viewer", "a")
		if !o.pending(b, o.red) {
			t.Errorf("red takes %s unasked", subject)
		}
		o.refused(o.accept(b, o.red), 403, ares.Forbidden, "cannot accept bindings of "+subject)
		if a := o.accept(b); a.code != 200 || a.json["pending"] == true {
			t.Errorf("a platform administrator accepts %s: %d %s", subject, a.code, a.body)
		}
		if o.pending(role(subject, "submitter", "a"), o.red) {
			t.Errorf("%s belongs to red now, but a further role in red is pending", subject)
		}
	}
	if o.pending(role("oidc:eve", "viewer", "a")) {
		t.Error("a platform administrator's binding is pending")
	}
}

// TestConsentForAUser checks who decides about a user that already belongs to tenants, and that no tenant decides for a group.
func TestConsentForAUser(t *testing.T) {
	o := newOffers(t)
	o.pending(role("oidc:ann", "viewer", "a"))
	o.pending(role("group:staff", "viewer", "a"))
	group := role("group:staff", "viewer", "b")
	if !o.pending(group, o.blue) {
		t.Error("blue takes red's group")
	}
	if a := o.accept(group, o.red); a.code != 404 {
		t.Errorf("red accepts for a group, whose members can be anybody: %d %s", a.code, a.body)
	}
	if a := o.do("GET", "/api/v1/bindings", nil, o.red); strings.Contains(a.body, `"tenant_id":"b"`) {
		t.Errorf("red is told what blue offers to a group: %s", a.body)
	}
	b := role("oidc:ann", "viewer", "b")
	if !o.pending(b, o.blue) {
		t.Error("blue takes red's user")
	}
	if a := o.end(b, o.red); a.code != 200 {
		t.Errorf("red cannot decline what blue offers to its user: %d %s", a.code, a.body)
	}
	o.pending(b, o.blue)
	if a := o.accept(b, o.red); a.code != 200 {
		t.Errorf("red's consent for its user: %d %s", a.code, a.body)
	}
	must(t, o.store.RegisterTenant(t.Context(), ares.Tenant{ID: "c", Name: "c", Limits: ares.NoLimits(), Weight: 1}))
	third := with(o.put("boss", "c", ares.Binding{Role: ares.TenantAdmin, Tenant: "c"}))
	o.cfg.Auth.Changed()
	c := role("oidc:ann", "viewer", "c")
	if !o.pending(c, third) {
		t.Error("a third tenant takes the user of two")
	}
	for name, as := range map[string]func(*http.Request){"red": o.red, "blue": o.blue} {
		if a := o.accept(c, as); a.code != 404 {
			t.Errorf("%s decides alone about a user of two tenants: %d %s", name, a.code, a.body)
		}
		if a := o.end(c, as); a.code != 404 {
			t.Errorf("%s declines alone: %d %s", name, a.code, a.body)
		}
	}
	if a := o.end(b, o.red); a.code != 200 {
		t.Errorf("red ends what it accepted: %d %s", a.code, a.body)
	}
	if a := o.end(role("oidc:ann", "viewer", "a"), o.blue); a.code != 404 {
		t.Errorf("blue ends red's own binding: %d %s", a.code, a.body)
	}
}

// TestPendingTellsNothing checks that a tenant cannot learn from its own bindings whether a subject exists or has roles
// elsewhere.
func TestPendingTellsNothing(t *testing.T) {
	o := newOffers(t)
	answers := map[string]string{}
	for _, subject := range []string{"oidc:nobody", "oidc:" + canaryOf("b"), "token:b/holder", "token:b/no-such", "token:nowhere/x", "group:none"} {
		a := o.do("POST", "/api/v1/bindings", role(subject, "viewer", "a"), o.red)
		text := strings.ReplaceAll(a.body, subject, "SUBJECT")
		at := strings.Index(text, `"created_at"`)
		answers[text[:max(at, 0)]] = subject
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
}

// TestSubjectsThatLookLikeOthers checks that a subject cannot have characters that a list does not show, and that only users,
// groups and tokens can be bound.
func TestSubjectsThatLookLikeOthers(t *testing.T) {
	o := newOffers(t)
	for _, subject := range []string{
		"oidc:ann\u200b", "oidc:\u202enna", "oidc:ann\u0085", "group:staff ", "oidc: ann", "token:b/holder/x", "token:/x", "token:b/", "token:a b",
		"node:n1", "*", "oidc:", "everyone", "system:nodes", "cert:n1",
	} {
		a := o.do("POST", "/api/v1/bindings", role(subject, "viewer", "a"), o.red)
		if a.code != 400 || a.json["code"] != string(ares.Invalid) {
			t.Errorf("%q: %d %s", subject, a.code, a.body)
		}
	}
	if !o.pending(role("token:admin@host-1", "viewer", "a"), o.red) {
		t.Error("a server's token needs no consent")
	}
}

// TestPendingBindingsOfOneTenant checks that a tenant cannot fill another tenant's list with invented tokens, and that it
// cannot keep a third tenant from offering something to a subject.
func TestPendingBindingsOfOneTenant(t *testing.T) {
	o := newOffers(t)
	ctx := t.Context()
	for i := range 64 {
		_, err := o.store.CreateBinding(ctx, store.Binding{Subject: fmt.Sprint("token:b/t", i), Pending: true, Binding: ares.Binding{Role: ares.Viewer, Tenant: "a"}})
		must(t, err)
	}
	o.refused(o.do("POST", "/api/v1/bindings", role("token:b/t64", "viewer", "a"), o.red), 403, ares.LimitReached, "64 role bindings in tenant a wait for consent")
	if a := o.do("POST", "/api/v1/bindings", role("token:a/holder", "viewer", "a"), o.red); a.code != 201 {
		t.Errorf("a binding that needs no consent: %d %s", a.code, a.body)
	}
	if !o.pending(role("token:a/holder", "viewer", "b"), o.blue) {
		t.Error("blue takes red's token")
	}
}

// TestRolesBeyondOnesOwn checks that nobody gives a role that it does not have in the whole scope of the binding.
func TestRolesBeyondOnesOwn(t *testing.T) {
	o := newOffers(t)
	narrow := with(o.put("narrow", "a", ares.Binding{Role: ares.TenantAdmin, Tenant: "a", Queue: "q"}))
	o.cfg.Auth.Changed()
	for name, b := range map[string]map[string]any{
		"the whole tenant": role("token:a/holder", "viewer", "a"),
		"another queue":    {"subject": "token:a/holder", "role": "viewer", "tenant_id": "a", "queue": "default"},
		"everything":       {"subject": "token:a/holder", "role": "auditor"},
		"agents":           {"subject": "token:a/holder", "role": "agent"},
		"another tenant":   role("token:a/holder", "viewer", "b"),
	} {
		if a := o.do("POST", "/api/v1/bindings", b, narrow); a.code != 403 && a.code != 404 {
			t.Errorf("an administrator of one queue gives a role in %s: %d %s", name, a.code, a.body)
		}
	}
	mint := map[string]any{"name": "wide", "tenant_id": "a", "bindings": []any{map[string]any{"role": "viewer", "tenant_id": "a"}}}
	if a := o.do("POST", "/api/v1/tokens", mint, narrow); a.code != 403 && a.code != 404 {
		t.Errorf("an administrator of one queue makes a token for the tenant: %d %s", a.code, a.body)
	}
	if a := o.do("POST", "/api/v1/bindings", role("token:a/holder", "platform-admin", ""), o.red); a.code != 403 {
		t.Errorf("a tenant's administrator makes a platform administrator: %d %s", a.code, a.body)
	}
}
