package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/store"
)

// The function `with` adds a token to an HTTP request.
func with(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// TestTokens checks that a new token is shown only once. The token must allow exactly the calls
// that its permissions cover, until it is revoked.
func TestTokens(t *testing.T) {
	e := newEstate(t)
	lead := with(e.tokens["tenant-admin"])
	ask := func(more ...any) map[string]any {
		m := map[string]any{"name": "ci", "tenant_id": "a", "bindings": []any{map[string]any{"role": "submitter", "tenant_id": "a", "queue": "q"}}}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	a := e.do("POST", "/api/v1/tokens", ask(), lead)
	if a.code != 201 {
		t.Fatal(a.body)
	}
	secret := a.json["token"].(string)
	if a.json["record"].(map[string]any)["subject"] != "token:a/ci" || a.json["record"].(map[string]any)["created_by"] != "token:a/tenant-admin" {
		t.Errorf("made %s", a.body)
	}
	e.refused(e.do("POST", "/api/v1/tokens", ask(), lead), 409, ares.Conflict, "already")
	for _, path := range []string{"/api/v1/tokens", "/api/v1/tokens?tenant_id=a", "/api/v1/debug/store"} {
		if got := e.do("GET", path, nil); strings.Contains(got.body, secret) || strings.Contains(got.body, "hash") || !strings.Contains(got.body, "ci") {
			t.Errorf("%s tells %s", path, got.body)
		}
	}
	mine := with(secret)
	if got := e.do("GET", "/api/v1/auth/whoami", nil, mine); got.json["name"] != "token:a/ci" || got.json["tenant_id"] != "a" || got.json["expires_at"] == nil {
		t.Errorf("it is %s", got.body)
	}
	made := e.do("POST", "/api/v1/jobs", job("queue", "q"), mine)
	if made.code != 201 {
		t.Fatal(made.body)
	}
	e.seen()
	got := e.do("GET", "/api/v1/jobs/"+made.json["job_id"].(string), nil, mine)
	if got.json["tenant_id"] != "a" || got.json["submitted_by"] != "token:a/ci" {
		t.Errorf("its job is %s", got.body)
	}
	list := e.do("GET", "/api/v1/jobs", nil, mine)
	if list.json["total"] != 1.0 {
		t.Errorf("of queue q it sees %s", list.body)
	}
	// This caller may use only queue q, so the default queue of its tenant must
	// seem not to exist.
	e.refused(e.do("POST", "/api/v1/jobs", job(), mine), 400, ares.Invalid, `tenant a has no queue \"default\"`)
	e.refused(e.do("POST", "/api/v1/jobs", job("tenant_id", "b", "queue", "q"), mine), 400, ares.Invalid, `there is no tenant \"b\"`)
	for what, bad := range map[string]struct {
		body   map[string]any
		status int
		code   ares.Code
	}{
		"a platform-admin":  {ask("name", "x", "bindings", []any{map[string]any{"role": "platform-admin"}}), 403, ares.Forbidden},
		"another tenant":    {ask("name", "x", "bindings", []any{map[string]any{"role": "viewer", "tenant_id": "b"}}), 404, ares.NotFound},
		"all tenants":       {ask("name", "x", "bindings", []any{map[string]any{"role": "viewer"}}), 403, ares.Forbidden},
		"an agent":          {ask("name", "x", "bindings", []any{map[string]any{"role": "agent"}}), 403, ares.Forbidden},
		"an auditor":        {ask("name", "x", "bindings", []any{map[string]any{"role": "auditor", "tenant_id": "a"}}), 403, ares.Forbidden},
		"another's token":   {ask("name", "x", "tenant_id", "b"), 404, ares.NotFound},
		"the platform's":    {ask("name", "x", "tenant_id", ""), 403, ares.Forbidden},
		"a path":            {ask("name", "../x"), 400, ares.Invalid},
		"a name of two":     {ask("name", "b/x"), 400, ares.Invalid},
		"no bindings":       {ask("name", "x", "bindings", []any{}), 400, ares.Invalid},
		"for ever":          {ask("name", "x", "lifetime_seconds", 40_000_000), 400, ares.Invalid},
		"for a moment":      {ask("name", "x", "lifetime_seconds", 1), 400, ares.Invalid},
		"a role of nobody":  {ask("name", "x", "bindings", []any{map[string]any{"role": "admin", "tenant_id": "a"}}), 400, ares.Invalid},
		"a queue of nobody": {ask("name", "x", "bindings", []any{map[string]any{"role": "viewer", "queue": "q"}}), 400, ares.Invalid},
	} {
		if got := e.do("POST", "/api/v1/tokens", bad.body, lead); got.code != bad.status || got.json["code"] != string(bad.code) {
			t.Errorf("%s answered %d %s", what, got.code, got.body)
		}
	}
	if got := e.do("DELETE", "/api/v1/tenants/a/tokens/ci", nil, lead); got.code != 200 {
		t.Error(got.body)
	}
	e.refused(e.do("GET", "/api/v1/auth/whoami", nil, mine), 401, ares.Unauthentic, "unknown")
	e.refused(e.do("DELETE", "/api/v1/tenants/a/tokens/ci", nil, lead), 404, ares.NotFound)
	if strings.Contains(e.log.String(), secret) {
		t.Error("the log shows a token")
	}
}

// TestBindings checks that permissions change immediately on this server when
// bindings change.
func TestBindings(t *testing.T) {
	e := newEstate(t)
	lead, nobody := with(e.tokens["tenant-admin"]), with(e.tokens["unbound"])
	bind := map[string]any{"subject": "token:a/unbound", "role": "viewer", "tenant_id": "a"}
	e.refused(e.do("GET", "/api/v1/jobs", nil, nobody), 403, ares.Forbidden, "no role")
	for range 2 { // repeating the request changes nothing
		if a := e.do("POST", "/api/v1/bindings", bind, lead); a.code != 201 || a.json["created_by"] != "token:a/tenant-admin" {
			t.Fatal(a.body)
		}
	}
	if a := e.do("GET", "/api/v1/jobs", nil, nobody); a.code != 200 || a.json["total"] != 1.0 {
		t.Errorf("bound, it sees %s", a.body)
	}
	if a := e.do("GET", "/api/v1/auth/can-i?verb=job.read", nil, nobody); a.json["allowed"] != true {
		t.Errorf("can it: %s", a.body)
	}
	if a := e.do("GET", "/api/v1/auth/can-i?verb=job.submit", nil, nobody); a.json["allowed"] != false || !strings.Contains(a.body, "viewer in a") {
		t.Errorf("can it: %s", a.body)
	}
	e.refused(e.do("GET", "/api/v1/auth/can-i?verb=steal", nil, nobody), 400, ares.Invalid, "job.submit")
	list := e.do("GET", "/api/v1/bindings", nil, lead)
	if list.json["total"] != 2.0 || strings.Contains(list.body, canaryOf("b")) {
		t.Errorf("the bindings of a are %s", list.body)
	}
	for role, want := range map[string]int{"platform-admin": 403, "tenant-admin": 403, "viewer": 404} {
		body := map[string]any{"subject": "oidc:x", "role": role}
		if role == "viewer" {
			body["tenant_id"] = "b"
		}
		if a := e.do("POST", "/api/v1/bindings", body, lead); a.code != want {
			t.Errorf("%s elsewhere: %d %s", role, a.code, a.body)
		}
	}
	e.refused(e.do("DELETE", "/api/v1/bindings?subject=oidc:"+canaryOf("b")+"&role=viewer&tenant_id=b", nil, lead), 404, ares.NotFound)
	if a := e.do("DELETE", "/api/v1/bindings?subject=token:a/unbound&role=viewer&tenant_id=a", nil, lead); a.code != 200 {
		t.Error(a.body)
	}
	e.refused(e.do("GET", "/api/v1/jobs", nil, nobody), 403, ares.Forbidden)
	// A binding whose subject only earlier versions accepted can be deleted. Without it, the subject is a mistake.
	if _, err := e.store.CreateBinding(t.Context(), store.Binding{Subject: "oidc:x ", Binding: ares.Binding{Role: ares.Viewer, Tenant: "a"}}); err != nil {
		t.Fatal(err)
	}
	old := "/api/v1/bindings?subject=oidc:x%20&role=viewer&tenant_id=a"
	if a := e.do("DELETE", old, nil, lead); a.code != 200 {
		t.Error(a.body)
	}
	e.refused(e.do("DELETE", old, nil, lead), 400, ares.Invalid, "ends with a space")
}

// TestRightsNeedTheirPlace creates bindings and tokens that name a tenant or a queue. They must
// be rejected if that tenant or queue does not exist. A name that matches no tenant or queue is
// probably mistyped. Suppose that a binding to a missing queue were accepted. A person who
// creates this queue later would not know that others already have access to it.
func TestRightsNeedTheirPlace(t *testing.T) {
	e := newEstate(t)
	admin := with(adminToken)
	if a := e.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "a", "name": "night"}, admin); a.code != 201 {
		t.Fatal(a.body)
	}
	at := func(tenant, queue string) map[string]any {
		return map[string]any{"role": "submitter", "tenant_id": tenant, "queue": queue}
	}
	for _, c := range []struct {
		tenant, queue string
		says          []string // words of the error; empty if the tenant and queue exist
	}{
		{"a", "night", nil},
		{"a", "default", nil}, // every tenant has a default queue, even if nobody created it
		{"a", "", nil},
		{"a", "nigth", []string{"there is no queue nigth of tenant a", "ares queue list", "ares queue create a/nigth"}},
		{"b", "night", []string{"there is no queue night of tenant b"}},
		{"c", "night", []string{"there is no tenant c", "ares tenant create"}},
		{"c", "default", []string{"there is no tenant c"}},
		{"c", "", []string{"there is no tenant c"}},
	} {
		binding := at(c.tenant, c.queue)
		binding["subject"] = "group:people"
		token := map[string]any{"name": "t-" + c.tenant + c.queue, "bindings": []any{at("a", ""), at(c.tenant, c.queue)}}
		for path, body := range map[string]map[string]any{"/api/v1/bindings": binding, "/api/v1/tokens": token} {
			got := e.do("POST", path, body, admin)
			if c.says == nil && got.code != 201 {
				t.Errorf("%s in %s/%s: %s", path, c.tenant, c.queue, got.body)
			}
			if c.says != nil {
				e.refused(got, 404, ares.NotFound, c.says...)
			}
		}
	}
	if n := e.stored("bindings/c/") + e.stored("bindings/b/night/") + e.stored("tokens/t-c"); n != 0 {
		t.Errorf("%d rights in places that are not there", n)
	}
	// An error must not reveal which queues another tenant has.
	lead := with(e.tokens["tenant-admin"])
	foreign := at("b", "nosuch")
	foreign["subject"] = "group:people"
	e.refused(e.do("POST", "/api/v1/bindings", foreign, lead), 404, ares.NotFound, "no tenant b")
}

// TestRightsEndWithTheTenant checks that a new tenant does not inherit the
// bindings of a deleted tenant with the same name.
func TestRightsEndWithTheTenant(t *testing.T) {
	h := newHouse(t)
	make := func() {
		a := h.do("POST", "/api/v1/tenants", map[string]any{"id": "t", "max_gpus": 1, "max_gpu_memory_mb": 1, "max_cpu_cores": 1, "max_memory_mb": 1, "max_concurrent_jobs": 1})
		if a.code != 201 {
			t.Fatal(a.body)
		}
	}
	make()
	must(t, h.store.PutToken(t.Context(), store.Token{Name: "t/x", Hash: auth.HashToken("tx"), Bindings: []ares.Binding{{Role: ares.TenantAdmin, Tenant: "t"}}}))
	_, err := h.store.CreateBinding(t.Context(), store.Binding{Subject: "oidc:x", Binding: ares.Binding{Role: ares.TenantAdmin, Tenant: "t"}})
	must(t, err)
	h.cfg.Auth.Changed()
	if a := h.do("GET", "/api/v1/tenants/t", nil, with("tx")); a.code != 200 {
		t.Fatal(a.body)
	}
	if a := h.do("DELETE", "/api/v1/tenants/t", nil); a.code != 200 {
		t.Fatal(a.body)
	}
	make()
	if n := h.stored("tokens/t/") + h.stored("bindings/t/"); n != 0 {
		t.Errorf("%d rights outlive their tenant", n)
	}
	_, err = h.store.CreateBinding(t.Context(), store.Binding{Subject: "oidc:x", Binding: ares.Binding{Role: ares.Viewer, Tenant: "nowhere"}})
	if ares.CodeOf(err) != ares.NotFound {
		t.Errorf("bound to a tenant that is not: %v", err)
	}
}

// TestStreamsAreRechecked checks that a stream ends when its token is revoked
// or its caller's binding is deleted. Until a stream ends, it must send only
// events about objects that the caller may still see.
func TestStreamsAreRechecked(t *testing.T) {
	e := newEstate(t)
	e.Heartbeat, e.Recheck = time.Millisecond, 5*time.Millisecond
	last := func(next func() (sse, bool)) sse {
		end := sse{}
		for ev, ok := next(); ok; ev, ok = next() {
			end = ev
		}
		return end
	}
	follow := func(token string) func() (sse, bool) {
		next, _ := e.follow("", with(token))
		if _, ok := next(); !ok {
			t.Fatal("no stream")
		}
		return next
	}
	for what, end := range map[string]struct {
		role func() string
		do   func()
		code string
	}{
		"revoked": {func() string { return e.tokens["viewer"] }, func() {
			_, err := e.store.RevokeToken(t.Context(), "a/viewer", "token:a/viewer")
			must(t, err)
		}, "unauthenticated"},
		"unbound": {func() string { return e.tokens["submitter"] }, func() { e.put2("a/submitter", e.tokens["submitter"]) }, "forbidden"},
		"expired": {func() string { return e.tokens["auditor"] }, func() {
			must(t, e.store.PutToken(t.Context(), store.Token{
				Name: "a/auditor", Hash: auth.HashToken(e.tokens["auditor"]), Until: time.Now().Add(-time.Second), Bindings: []ares.Binding{{Role: ares.Auditor, Tenant: "a"}},
			}))
		}, "unauthenticated"},
	} {
		next := follow(end.role())
		end.do()
		e.cfg.Auth.Changed()
		if ev := last(next); ev.event != "error" || ev.data["code"] != end.code {
			t.Errorf("%s: it ended with %+v", what, ev)
		}
	}
}

// put2 registers an existing token again, this time without role bindings.
func (e *estate) put2(name, token string) {
	must(e.t, e.store.PutToken(e.t.Context(), store.Token{Name: name, Hash: auth.HashToken(token)}))
}

// TestAgentsOwnNode checks that an agent whose identity names a node may act only for that node.
// The test also checks that a certificate is accepted only if the server can verify it.
func TestAgentsOwnNode(t *testing.T) {
	revoked := false
	h := newHouse(t, func(c *Config) {
		c.Certified = func(_ context.Context, leaf *x509.Certificate) (ares.Identity, error) {
			if revoked {
				return ares.Identity{}, ares.Errorf(ares.Unauthentic, "this certificate was revoked")
			}
			node := string(leaf.Raw)
			return ares.Identity{Name: "node:" + node, Kind: ares.ByCert, Node: node, Bindings: []ares.Binding{{Role: ares.AgentRole}}}, nil
		}
	})
	by := func(info credentials.AuthInfo) context.Context {
		return peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{}, AuthInfo: info})
	}
	leaf := &x509.Certificate{Raw: []byte("n1")}
	proven := credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}}
	offered := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}
	const renew = apipb.AgentService_RenewSession_FullMethodName
	ctx, err := admit(by(proven), h.Pipeline, renew)
	must(t, err)
	if id := pipeline.IdentityOf(ctx); id.Name != "node:n1" || id.Kind != ares.ByCert || id.Node != "n1" {
		t.Errorf("it is %+v", id)
	}
	for node, want := range map[string]ares.Code{"n1": "", "n2": ares.Forbidden, "": ares.Forbidden} {
		ref := &apipb.SessionRef{NodeId: node}
		for _, req := range []any{&apipb.RenewSessionRequest{Ref: ref}, &apipb.WatchSeatsRequest{Ref: ref}, &apipb.ServeFilesRequest{Ref: ref}, &apipb.ClaimSeatRequest{Ref: ref}} {
			if err = permit(ctx, h.Pipeline, renew, req); ares.CodeOf(err) != want {
				t.Errorf("%T for node %q: %v", req, node, err)
			}
		}
		if err = permit(ctx, h.Pipeline, apipb.AgentService_OpenSession_FullMethodName, &apipb.OpenSessionRequest{Node: &apipb.NodeInfo{NodeId: node}}); ares.CodeOf(err) != want {
			t.Errorf("a session for node %q: %v", node, err)
		}
	}
	if _, err = admit(by(offered), h.Pipeline, renew); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("a certificate that nobody verified: %v", err)
	}
	if _, err = admit(by(proven), h.Pipeline, apipb.JobService_ListJobs_FullMethodName); ares.CodeOf(err) != ares.Forbidden {
		t.Errorf("an agent lists jobs: %v", err)
	}
	revoked = true
	if err = h.RecheckCaller(ctx, callAs(ctx, renew, nil)); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("a stream of a revoked certificate: %v", err)
	}
	h.Pipeline.Cfg.Certified = nil
	if _, err = admit(by(proven), h.Pipeline, renew); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("a certificate where they are nobody's: %v", err)
	}
}

// TestNodesHideForeignJobs checks that every caller sees all nodes and their
// free resources, but only its own tenant's jobs on the nodes.
func TestNodesHideForeignJobs(t *testing.T) {
	e := newEstate(t)
	at := e.view.Revision()
	devices := []ares.Device{{ID: "g0", Healthy: true}, {ID: "g1", Index: 1, Healthy: true}, {ID: "g2", Index: 2, Healthy: true}}
	batch := ares.Batch{Revision: at + 1, Events: []ares.Event{{Revision: at + 1, Node: &ares.Node{ID: "n1", Devices: devices, CPUs: 8}}}}
	for i, tenant := range []string{"a", "b"} {
		held := ares.SeatStatus{Seat: ares.Seat{Node: "n1", Shares: []ares.Share{{Device: fmt.Sprintf("g%d", i), Milli: 1000}}}, State: ares.SeatClaimed}
		run := ares.Run{Phase: ares.Running, Placed: 1, Attempts: []ares.Attempt{{Number: 1, Fence: 5, Seats: []ares.SeatStatus{held}}}, Revision: at + 1}
		batch.Events = append(batch.Events, ares.Event{Revision: at + 1, Run: &ares.RunEvent{Job: ares.JobID(e.jobs[tenant]), Run: run}})
	}
	e.view.Apply(batch)
	a := e.do("GET", "/api/v1/nodes/n1", nil, with(e.tokens["viewer"]))
	if strings.Contains(a.body, e.jobs["b"]) || !strings.Contains(a.body, e.jobs["a"]) || a.json["gpus_free"] != 1.0 || strings.Count(a.body, `"taken":true`) != 2 {
		t.Errorf("a viewer of a sees %s", a.body)
	}
	if a = e.do("GET", "/api/v1/nodes/n1", nil); !strings.Contains(a.body, e.jobs["b"]) || !strings.Contains(a.body, e.jobs["a"]) {
		t.Errorf("an administrator sees %s", a.body)
	}
	for token, want := range map[string]float64{e.tokens["viewer"]: 1, adminToken: 2} {
		if got := e.do("GET", "/api/v1/cluster/status", nil, with(token)); got.json["total_jobs"] != want || got.json["available_gpus"] != 1.0 {
			t.Errorf("the status is %s", got.body)
		}
	}
}

// TestAfterIsOfOneTenant checks that a job cannot depend on another tenant's
// job, because that would reveal how the other job ended.
func TestAfterIsOfOneTenant(t *testing.T) {
	e := newEstate(t)
	submits := with(e.tokens["submitter"])
	nothing := string(ares.NewJobID("a", "never"))
	theirs := e.do("POST", "/api/v1/jobs", job("after", []string{e.jobs["b"]}), submits)
	none := e.do("POST", "/api/v1/jobs", job("after", []string{nothing}), submits)
	if theirs.code != none.code || strings.ReplaceAll(theirs.body, e.jobs["b"], nothing) != none.body || none.code < 400 {
		t.Errorf("after another's job: %d %s, after none: %d %s", theirs.code, theirs.body, none.code, none.body)
	}
	if a := e.do("POST", "/api/v1/jobs", job("after", []string{e.jobs["a"]}), submits); a.code != 201 {
		t.Errorf("after its own: %s", a.body)
	}
}

// TestHomes checks that a request that names no tenant applies to the caller's
// own tenant. A caller that is bound to several tenants must name a tenant.
func TestHomes(t *testing.T) {
	e := newEstate(t)
	both := e.put("both", "", ares.Binding{Role: ares.Submitter, Tenant: "a"}, ares.Binding{Role: ares.Submitter, Tenant: "b"})
	one := e.put("one", "", ares.Binding{Role: ares.TenantAdmin, Tenant: "b"})
	e.cfg.Auth.Changed()
	e.refused(e.do("POST", "/api/v1/jobs", job(), with(both)), 400, ares.Invalid, "tenant_id", "a, b")
	if a := e.do("POST", "/api/v1/jobs", job("tenant_id", "b"), with(both)); a.code != 201 {
		t.Error(a.body)
	}
	a := e.do("POST", "/api/v1/queues", map[string]any{"name": "mine"}, with(one))
	if a.code != 201 || a.json["tenant_id"] != "b" {
		t.Errorf("made %s", a.body)
	}
	batch := e.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{job(), job("tenant_id", "a"), job("tenant_id", "nowhere")}}, with(one))
	if batch.json["accepted"] != 1.0 || batch.json["refused"] != 2.0 || strings.Count(batch.body, `"error":"tenant_id: there is no tenant`) != 2 {
		t.Errorf("a batch: %s", batch.body)
	}
}
