package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// unsolicited returns attempts by tenant red to bind tenant blue's subjects to a role, to accept such a binding itself, and
// to use more tokens, bindings and alert channels than a tenant may.
func (s *scene) unsolicited() []attempt {
	var out []attempt
	add := func(name, token, method, path, body string, codes ...string) {
		a := s.rest(name, token, method, path, body, nil)
		a.codes = codes
		out = append(out, a)
	}
	offer := `{"subject":"token:{tenant}/{token}","role":"viewer","tenant_id":"red"}`
	for _, who := range []struct{ name, token string }{{"red's admin", s.red}, {"red's submitter", s.submitter}, {"a node", s.node}} {
		add(who.name+" accepts for blue's token", who.token, http.MethodPost, "/api/v1/bindings:accept", offer, "403", "404")
		add(who.name+" accepts for a platform token", who.token, http.MethodPost, "/api/v1/bindings:accept", `{"subject":"token:admin","role":"viewer","tenant_id":"red"}`, "403", "404")
		add(who.name+" accepts for blue's user", who.token, http.MethodPost, "/api/v1/bindings:accept", `{"subject":"oidc:cyan","role":"viewer","tenant_id":"{tenant}"}`, "403", "404")
		add(who.name+" accepts in blue", who.token, http.MethodPost, "/api/v1/bindings:accept", `{"subject":"token:red/worker","role":"viewer","tenant_id":"{tenant}"}`, "403", "404")
		add(who.name+" ends a binding of blue's token", who.token, http.MethodDelete, "/api/v1/bindings?subject=token:{tenant}/{token}&role=viewer&tenant_id={tenant}", "", "403", "404")
	}
	for name, body := range map[string]string{
		"says that it is accepted":       `{"subject":"token:blue/navy","role":"viewer","tenant_id":"red","accepted_by":"token:blue/navy"}`,
		"says that it is pending":        `{"subject":"token:blue/navy","role":"viewer","tenant_id":"red","pending":true}`,
		"for all tenants":                `{"subject":"token:blue/navy","role":"viewer"}`,
		"as an administrator everywhere": `{"subject":"token:red/worker","role":"platform-admin"}`,
	} {
		add("a binding by red "+name, s.red, http.MethodPost, "/api/v1/bindings", body, "400", "403", "404")
	}
	for _, subject := range []string{
		"oidc:cyan\u200b", "oidc:\u202enayc", "group:staff ", "token:blue/navy/x", "token:/x", "node:n1", "cert:n1", "*", "everyone", "system:nodes", "oidc:", "group:a\\nb",
	} {
		add(fmt.Sprintf("red binds the subject %q", subject), s.red, http.MethodPost, "/api/v1/bindings", `{"subject":"`+subject+`","role":"viewer","tenant_id":"red"}`, "400")
	}
	for _, subject := range []string{"oidc:new", "group:everyone", "oidc:cyan", "token:admin"} {
		add("red accepts its own binding of "+subject, s.red, http.MethodPost, "/api/v1/bindings:accept", `{"subject":"`+subject+`","role":"viewer","tenant_id":"red"}`, "403")
		add("red's submitter binds "+subject, s.submitter, http.MethodPost, "/api/v1/bindings", `{"subject":"`+subject+`","role":"viewer","tenant_id":"red"}`, "403")
	}
	policy := func(channel string) string {
		return fmt.Sprintf(`{"name":"noise","tenant_id":"red","on":"submission","rule":"false","message":"the leader is lost","mode":"dry-run","alert":[%q]}`, channel)
	}
	add("a tenant's policy names the platform's channel", s.red, http.MethodPut, "/api/v1/policies", policy("ops"), "403")
	add("a tenant's policy names another tenant's channel", s.red, http.MethodPut, "/api/v1/policies", policy("blues"), "403")
	add("a tenant's policy names a channel that does not exist", s.red, http.MethodPut, "/api/v1/policies", policy("nowhere"), "403")
	add("a tenant's policy names a channel with a line break", s.red, http.MethodPut, "/api/v1/policies", policy("ops\nblues"), "400")
	add("a tenant tests the platform's channel", s.red, http.MethodPost, "/api/v1/alerts/channels/ops:test", "{}", "403")
	return out
}

// TestTenantsApart makes attempts of one tenant at the expense of another against a real server. Pending bindings, limits and
// the end of a tenant are checked on the way.
func TestTenantsApart(t *testing.T) {
	t.Parallel()
	hook := write(t, t.TempDir(), "hook.url", "http://127.0.0.1:1/hook")
	s := newScene(t, fmt.Sprintf("alerts: {channels: [{name: ops, kind: webhook, url_file: %[1]s}, {name: blues, kind: webhook, url_file: %[1]s, tenants: [blue]}]}\n"+
		"limits: {tokens_per_tenant: 4, bindings_per_tenant: 40, event_streams: 8}\n", hook))
	before := s.estate()
	heard := s.make(s.unsolicited())
	ask := func(token, method, path, body string, want int) string {
		t.Helper()
		got, err := s.ask(t.Context(), token, method, path, body, http.Header{"X-Request-Id": {"apart"}})
		if err != nil || got.code != want {
			t.Errorf("%s %s: %v %d %s, want %d", method, path, err, got.code, got.body, want)
		}
		return got.body
	}
	offer := `{"subject":"token:blue/navy","role":"submitter","tenant_id":"red"}`
	if got := ask(s.red, http.MethodPost, "/api/v1/bindings", offer, http.StatusCreated); !strings.Contains(got, `"pending":true`) {
		t.Errorf("an unsolicited binding is %s", got)
	}
	if got := ask(s.blueToken, http.MethodGet, "/api/v1/auth/whoami", "", http.StatusOK); strings.Contains(got, "red") {
		t.Errorf("without consent, blue's token is %s", got)
	}
	ask(s.blueToken, http.MethodGet, "/api/v1/tenants/red", "", http.StatusNotFound)
	ask(s.blueToken, http.MethodDelete, "/api/v1/bindings?subject=token:blue/navy&role=submitter&tenant_id=red", "", http.StatusOK)
	for _, subject := range []string{"oidc:cyan", "group:everyone"} {
		body := fmt.Sprintf(`{"subject":%q,"role":"tenant-admin","tenant_id":"red"}`, subject)
		if got := ask(s.red, http.MethodPost, "/api/v1/bindings", body, http.StatusCreated); !strings.Contains(got, `"pending":true`) {
			t.Errorf("red takes %s unasked: %s", subject, got)
		}
		ask(s.red, http.MethodDelete, "/api/v1/bindings?subject="+subject+"&role=tenant-admin&tenant_id=red", "", http.StatusOK)
	}
	for i := range 2 {
		ask(s.red, http.MethodPost, "/api/v1/tokens", fmt.Sprintf(`{"name":"extra%d","tenant_id":"red","bindings":[{"role":"viewer","tenant_id":"red"}]}`, i), http.StatusCreated)
	}
	ask(s.red, http.MethodPost, "/api/v1/tokens", `{"name":"extra2","tenant_id":"red","bindings":[{"role":"viewer","tenant_id":"red"}]}`, http.StatusForbidden)
	for i := range 41 {
		want := http.StatusCreated
		if i == 40 {
			want = http.StatusForbidden
		}
		ask(s.red, http.MethodPost, "/api/v1/bindings", fmt.Sprintf(`{"subject":"oidc:u%d","role":"viewer","tenant_id":"red"}`, i), want)
	}
	if after := s.estate(); after != before {
		t.Errorf("blue had\n%s\nand has\n%s", before, after)
	}
	s.do(t, http.MethodDelete, "/api/v1/tenants/red", "")
	for _, token := range []string{s.red, s.submitter} {
		ask(token, http.MethodGet, "/api/v1/jobs", "", http.StatusUnauthorized)
	}
	s.auditedAtLeast(heard, len(heard))
}
