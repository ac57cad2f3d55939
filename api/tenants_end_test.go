package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// TestADeletedTenantsStreamsEnd deletes a tenant while one of its tokens has an open stream. The stream must end at once, and
// the token must not work any more, on the server that deletes the tenant and on another one.
func TestADeletedTenantsStreamsEnd(t *testing.T) {
	h := newHouse(t)
	must(t, h.store.RegisterTenant(t.Context(), ares.Tenant{ID: "red", Name: "red", Limits: ares.NoLimits(), Weight: 1}))
	token, hash := auth.NewToken()
	must(t, h.store.PutToken(t.Context(), store.Token{Name: "red/ci", Hash: hash, Bindings: []ares.Binding{{Role: ares.Viewer, Tenant: "red"}}}))
	h.cfg.Auth.Changed()
	h.seen()
	var nexts []func() (sse, bool)
	other := newHouse(t, func(c *Config) {
		c.Store, c.View, c.Admission = h.store, h.view, h.cfg.Admission
		c.Auth = auth.New(auth.Config{Tokens: h.store.Tokens, Bindings: h.store.Bindings, Tenants: h.store.TenantIDs})
	})
	for _, server := range []*house{h, other} {
		server.Recheck = time.Hour // so that only the deletion can end the stream
		next, _ := server.follow("", with(token))
		if begin, _ := next(); begin.id == "" {
			t.Fatalf("a stream begins with %+v", begin)
		}
		nexts = append(nexts, next)
	}
	if a := h.do("DELETE", "/api/v1/tenants/red", nil); a.code != 200 {
		t.Fatal(a.body)
	}
	for _, server := range []*house{h, other} { // what the view tells each server
		server.cfg.Auth.Apply(ares.Batch{Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindTenant, ID: "red"}}}})
	}
	for _, next := range nexts {
		for e, more := next(); more; e, more = next() {
			if e.event == "error" && !strings.Contains(fmt.Sprint(e.data), "token") {
				t.Errorf("the stream ends with %+v", e)
			}
		}
	}
	for _, server := range []*house{h, other} {
		server.refused(server.do("GET", "/api/v1/jobs", nil, with(token)), 401, ares.Unauthentic, "unknown")
	}
}

// TestARevokedTokensStreamsEnd revokes a token and deletes a binding while streams are open that depend on them. The streams
// must end at once, on the server that does it and on another one, which follows the store.
func TestARevokedTokensStreamsEnd(t *testing.T) {
	h := newHouse(t)
	must(t, h.store.RegisterTenant(t.Context(), ares.Tenant{ID: "red", Name: "red", Limits: ares.NoLimits(), Weight: 1}))
	watcher := cache.NewView(time.Now)
	other := newHouse(t, func(c *Config) {
		c.Store, c.View, c.Admission = h.store, h.view, h.cfg.Admission
		c.Auth = auth.New(auth.Config{Tokens: h.store.Tokens, Bindings: h.store.Bindings, Tenants: h.store.TenantIDs})
	})
	watcher.Feed(other.cfg.Auth.Apply)
	watcher.Feed(h.cfg.Auth.Apply) // as every server does
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = watcher.Run(ctx, h.store, func(error) {}) // it ends with the test
	}()
	defer func() { stop(); <-done }()
	in := ares.Binding{Role: ares.Viewer, Tenant: "red"}
	tokens := map[string]string{}
	for name, own := range map[string][]ares.Binding{"revoked": {in}, "unbound": nil} {
		token, hash := auth.NewToken()
		tokens[name] = token
		must(t, h.store.PutToken(t.Context(), store.Token{Name: "red/" + name, Hash: hash, Bindings: own}))
	}
	_, err := h.store.CreateBinding(t.Context(), store.Binding{Subject: "token:red/unbound", Binding: in})
	must(t, err)
	must(t, watcher.WaitFor(t.Context(), h.store.Written()))
	h.cfg.Auth.Changed()
	other.cfg.Auth.Changed()
	h.seen()
	var nexts []func() (sse, bool)
	for _, server := range []*house{h, other} {
		server.Recheck = time.Hour // so that only the deletions can end a stream
		for _, token := range tokens {
			next, _ := server.follow("", with(token))
			if begin, _ := next(); begin.id == "" {
				t.Fatalf("a stream begins with %+v", begin)
			}
			nexts = append(nexts, next)
		}
	}
	for _, path := range []string{"/api/v1/tenants/red/tokens/revoked", "/api/v1/bindings?subject=token:red/unbound&role=viewer&tenant_id=red"} {
		if a := h.do("DELETE", path, nil); a.code != 200 {
			t.Fatal(a.body)
		}
	}
	ends := make(chan sse, len(nexts))
	for _, next := range nexts {
		go func() {
			var last sse
			for e, more := next(); more; e, more = next() {
				last = e
			}
			ends <- last
		}()
	}
	for range nexts {
		select {
		case e := <-ends:
			if e.event == "error" && !strings.Contains(fmt.Sprint(e.data), "token") {
				t.Errorf("a stream ends with %+v", e)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a stream of a lost right does not end")
		}
	}
	for _, server := range []*house{h, other} {
		server.refused(server.do("GET", "/api/v1/jobs", nil, with(tokens["revoked"])), 401, ares.Unauthentic, "unknown")
		server.refused(server.do("GET", "/api/v1/jobs", nil, with(tokens["unbound"])), 403, ares.Forbidden)
	}
}

// TestRoundedPredictions checks that a tenant cannot tell two runs of another tenant apart that end in the same minute, and
// that a platform administrator gets exact answers.
func TestRoundedPredictions(t *testing.T) {
	e := newEstate(t)
	engine := e.cfg.Engine.(*fakeEngine)
	red := with(e.tokens["viewer"])
	start := time.Now().Add(30 * time.Minute).Truncate(time.Minute)
	var answers, exact []string
	for _, second := range []time.Duration{7*time.Second + 123_456*time.Microsecond, 41 * time.Second} {
		engine.explains.ETA = ares.ETA{Earliest: start.Add(second), Latest: start.Add(6*time.Hour + second), Basis: ares.PlainText("runs")}
		a := e.do("GET", "/api/v1/jobs/"+e.jobs["a"]+"/explain", nil, red)
		if a.code != 200 || a.json["eta"] == nil {
			t.Fatalf("%d %s", a.code, a.body)
		}
		answers = append(answers, fmt.Sprint(a.json["eta"]))
		exact = append(exact, fmt.Sprint(e.do("GET", "/api/v1/jobs/"+e.jobs["a"]+"/explain", nil).json["eta"]))
	}
	if answers[0] != answers[1] || !strings.Contains(answers[0], ":00Z") {
		t.Errorf("the tenant is told %v", answers)
	}
	if exact[0] == exact[1] || !strings.Contains(exact[0], "123456") {
		t.Errorf("the administrator is told %v", exact)
	}
}

// TestRoundedRuntimes checks that a predicted runtime is rounded up for tenants.
func TestRoundedRuntimes(t *testing.T) {
	for _, c := range []struct{ p50, p90, want string }{
		{"12.345678s", "59.9s", `"p50_seconds":20,"p90_seconds":60`},
		{"181s", "59m59.5s", `"p50_seconds":240,"p90_seconds":3600`},
		{"2h0m1s", "7h0m1s", `"p50_seconds":7500,"p90_seconds":26100`},
		{"5h", "49h0m0.000001s", `"p50_seconds":18000,"p90_seconds":180000`},
	} {
		p50, err := time.ParseDuration(c.p50)
		must(t, err)
		p90, err := time.ParseDuration(c.p90)
		must(t, err)
		h := newHouse(t, func(cfg *Config) {
			cfg.Predict = func(*ares.Job) ares.RuntimePredicted { return ares.RuntimePredicted{P50: p50, P90: p90, Samples: 3} }
		})
		token, hash := auth.NewToken()
		must(t, h.store.PutToken(t.Context(), store.Token{Name: "default/ci", Hash: hash, Bindings: []ares.Binding{{Role: ares.Submitter, Tenant: "default"}}}))
		h.cfg.Auth.Changed()
		if a := h.do("POST", "/api/v1/jobs:predict", job(), with(token)); a.code != 200 || !strings.Contains(a.body, c.want) {
			t.Errorf("%s, %s: the tenant is told %s", c.p50, c.p90, a.body)
		}
		if a := h.do("POST", "/api/v1/jobs:predict", job()); !strings.Contains(a.body, fmt.Sprintf(`"p50_seconds":%v`, p50.Seconds())) {
			t.Errorf("%s, %s: the administrator is told %s", c.p50, c.p90, a.body)
		}
	}
}

// TestCountsOfOneQueue checks that a caller with a role in one queue sees the counts of this queue and not those of its tenant.
func TestCountsOfOneQueue(t *testing.T) {
	e := newEstate(t) // tenant a has a job in its default queue
	e.submit("tenant_id", "a", "queue", "q", "name", "mine", "request_id", "mine")
	narrow := with(e.put("narrow", "a", ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: "q"}))
	e.cfg.Auth.Changed()
	e.seen()
	for who, c := range map[string]struct {
		as   string
		jobs float64
	}{"the whole tenant": {e.tokens["viewer"], 2}, "one queue": {"", 1}} {
		as := narrow
		if c.as != "" {
			as = with(c.as)
		}
		if a := e.do("GET", "/api/v1/cluster/status", nil, as); a.json["total_jobs"] != c.jobs || a.json["pending_jobs"] != c.jobs {
			t.Errorf("%s: the cluster has %s", who, a.body)
		}
		for _, path := range []string{"/api/v1/tenants/a", "/api/v1/tenants"} {
			a := e.do("GET", path, nil, as)
			if !strings.Contains(a.body, fmt.Sprintf(`"pending_jobs":%v`, c.jobs)) {
				t.Errorf("%s: %s tells %s", who, path, a.body)
			}
		}
	}
}

// TestForbiddenChannels checks that a tenant's policy cannot name an alert channel that does not accept alerts of the tenant.
func TestForbiddenChannels(t *testing.T) {
	h := newHouse(t, func(cfg *Config) { cfg.Notifier = &channels{} })
	for _, tenant := range []string{"allowed", "red"} {
		must(t, h.store.RegisterTenant(t.Context(), ares.Tenant{ID: tenant, Name: tenant, Limits: ares.NoLimits(), Weight: 1}))
	}
	h.seen()
	policy := func(tenant string) map[string]any {
		return map[string]any{"name": "p", "tenant_id": tenant, "on": "submission", "rule": "true", "alert": []string{"ops"}}
	}
	h.refused(h.do("PUT", "/api/v1/policies", policy("red")), 403, ares.Forbidden, "no alert channel ops that policies of tenant red may use")
	for _, tenant := range []string{"allowed", ""} {
		if a := h.do("PUT", "/api/v1/policies", policy(tenant)); a.code != 200 {
			t.Errorf("tenant %q: %d %s", tenant, a.code, a.body)
		}
	}
}
