package api

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/store"
)

// TestLimiterTenants checks that the callers of one tenant together get at most half of the slots, that a tenth of the
// slots stays free for administrators, and that a tenant with many callers in the queue loses its place to others.
func TestLimiterTenants(t *testing.T) {
	t.Parallel()
	g := pipeline.NewLimiter("read", "calls under way", 20, 10, time.Hour)
	tries := func(tenant string, callers int) (got int) {
		for i := range 40 {
			who := pipeline.Account{Name: fmt.Sprintf("token:%s/%d", tenant, i%callers), Tenant: tenant}
			if tenant == "" {
				who.Name = fmt.Sprint("token:admin", i%callers)
			}
			g.Queue = 0
			if _, err := g.Enter(t.Context(), who); err == nil {
				got++
			} else if ares.CodeOf(err) != ares.Exhausted {
				t.Errorf("%v", err)
			}
			g.Queue = 10
		}
		return got
	}
	if got := tries("solo", 1); got != 7 {
		t.Errorf("one caller of a tenant got %d slots, want three quarters of its tenant's ten", got)
	}
	if got := tries("solo", 40); got != 3 {
		t.Errorf("the tenant's other callers got %d slots, want the remaining three", got)
	}
	if got := tries("many", 40); got != 8 {
		t.Errorf("a second tenant got %d slots, want all but the two that are kept", got)
	}
	if got := tries("third", 40); got != 0 {
		t.Errorf("a third tenant got %d of the slots that are kept for administrators", got)
	}
	if err := g.WouldReject(pipeline.Account{Name: "token:third/0", Tenant: "third"}); err != nil {
		t.Errorf("a call that could wait is rejected: %v", err)
	}
	if got := tries("", 2); got != 2 {
		t.Errorf("administrators got %d slots, want the two that are kept", got)
	}
}

// TestLimiterQueueOfTenants fills the queue with the calls of one tenant's many callers. A call of another tenant must
// displace one of them, and an administrator must still find room.
func TestLimiterQueueOfTenants(t *testing.T) {
	t.Parallel()
	g := pipeline.NewLimiter("read", "calls under way", 2, 10, time.Hour)
	admin, err := g.Enter(t.Context(), pipeline.Account{Name: "token:admin"})
	must(t, err)
	leave, err := g.Enter(t.Context(), pipeline.Account{Name: "token:red/0", Tenant: "red"})
	must(t, err)
	answers := make(chan string, 20)
	wait := func(name, tenant string, waiting int) {
		go func() {
			done, err := g.Enter(t.Context(), pipeline.Account{Name: name, Tenant: tenant})
			answers <- fmt.Sprint(tenant, " ", ares.CodeOf(err))
			if err == nil {
				done()
			}
		}()
		until(func() bool { return has(g, 2, waiting) })
	}
	for i := range 9 {
		wait(fmt.Sprint("token:red/", i+1), "red", i+1)
	}
	if _, err = g.Enter(t.Context(), pipeline.Account{Name: "token:red/20", Tenant: "red"}); ares.CodeOf(err) != ares.Exhausted {
		t.Errorf("the tenant that fills the queue gets %v", err)
	}
	wait("token:blue/0", "blue", 9)
	if got := <-answers; got != "red exhausted" {
		t.Errorf("the place in the queue was made by %q", got)
	}
	wait("token:admin", "", 10)
	admin()
	leave()
	for range 10 {
		if got := <-answers; got != "red " && got != "blue " && got != " " {
			t.Errorf("a waiting call ended with %q", got)
		}
	}
	until(func() bool { return has(g, 0, 0) })
	if len(g.Held)+len(g.HeldBy)+len(g.Waiting)+len(g.WaitingOf) != 0 {
		t.Errorf("left: %+v", g)
	}
}

// TestLimiterTwoHostileTenants lets two tenants keep the queue full of calls. A call of a third tenant must get the next slot
// and not wait behind theirs, and so must a call of a colleague behind the calls of one token.
func TestLimiterTwoHostileTenants(t *testing.T) {
	t.Parallel()
	g := pipeline.NewLimiter("read", "calls under way", 8, 100, time.Hour)
	var leaves []func()
	for i := range 7 {
		tenant := []string{"red", "blue"}[i%2]
		leave, err := g.Enter(t.Context(), pipeline.Account{Name: fmt.Sprintf("token:%s/%d", tenant, i/2), Tenant: tenant})
		must(t, err)
		leaves = append(leaves, leave)
	}
	served := make(chan string, 100)
	release := make(chan struct{})
	waiting := 0
	wait := func(name, tenant string) {
		waiting++
		go func() {
			done, err := g.Enter(t.Context(), pipeline.Account{Name: name, Tenant: tenant})
			if err != nil {
				served <- err.Error()
				return
			}
			served <- name
			<-release
			done()
		}()
		until(func() bool { return has(g, 7, waiting) })
	}
	for range 20 {
		wait("token:red/9", "red")
		wait("token:blue/9", "blue")
	}
	wait("token:red/colleague", "red")
	wait("token:green/1", "green")
	leaves[0]() // of red
	if got := <-served; got != "token:green/1" {
		t.Errorf("the first free slot went to %s", got)
	}
	leaves[2]() // of red, which has fewer slots than blue now
	if got := <-served; got != "token:red/9" {
		t.Errorf("the second free slot went to %s", got)
	}
	leaves[4]()
	if got := <-served; got != "token:red/colleague" {
		t.Errorf("the third free slot went to %s, and not to the colleague of a token that has one", got)
	}
	close(release)
	for _, i := range []int{1, 3, 5, 6} {
		leaves[i]()
	}
	until(func() bool { return has(g, 0, 0) })
}

// TestStreamsOfHostileTenants lets several tenants open as many streams as they can get. A further tenant must still get some,
// and the share of the administrators stays free.
func TestStreamsOfHostileTenants(t *testing.T) {
	t.Parallel()
	g := pipeline.NewLimiter("events", "open event streams", 256, 0, 0)
	g.Long = true
	var got []int
	for _, tenant := range []string{"red", "blue", "green", "grey", ""} {
		n := 0
		for i := range 512 {
			if _, err := g.Enter(t.Context(), pipeline.Account{Name: fmt.Sprintf("token:%s/%d", tenant, i%32), Tenant: tenant}); err == nil {
				n++
			} else if ares.CodeOf(err) != ares.Exhausted {
				t.Error(err)
			}
		}
		got = append(got, n)
	}
	if got[0] < 100 || got[1] < 50 || got[2] < 25 || got[3] < 12 || got[4] < 26 {
		t.Errorf("the streams of the tenants one after the other, and of the administrators: %v", got)
	}
}

// TestAccountOf checks to whom the calls of an identity are charged.
func TestAccountOf(t *testing.T) {
	t.Parallel()
	in := func(r ares.Role, tenants ...string) (out []ares.Binding) {
		for _, tenant := range tenants {
			out = append(out, ares.Binding{Role: r, Tenant: tenant})
		}
		return out
	}
	for want, id := range map[string]ares.Identity{
		"":     {Name: "token:root", Bindings: in(ares.PlatformAdmin, "")},
		"red":  {Name: "token:red/ci", Tenant: "red", Bindings: in(ares.Viewer, "aqua", "red")},
		"aqua": {Name: "oidc:ann", Bindings: in(ares.Viewer, "red", "aqua")},
		"*":    {Name: "token:dashboard", Bindings: in(ares.Viewer, "red", "")},
		"-":    {Name: "oidc:nobody"},
	} {
		if got := pipeline.AccountOf(&id); got.Tenant != want || got.Name != id.Name {
			t.Errorf("%s is charged to %+v, want tenant %q", id.Name, got, want)
		}
	}
	if got := pipeline.AccountOf(&ares.Identity{Name: "node:n1", Tenant: "x", Bindings: in(ares.AgentRole, "")}); got.Tenant != "" {
		t.Errorf("an agent is charged to %+v", got)
	}
}

// TestStreamsOfOneTenant opens event streams with two tokens of one tenant. The tenant must not use up the event streams:
// another tenant and an administrator must still get theirs.
func TestStreamsOfOneTenant(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	tokens := map[string]string{}
	for _, tenant := range []string{"red", "blue"} {
		must(t, b.store.RegisterTenant(t.Context(), ares.Tenant{ID: tenant, Name: tenant, Limits: ares.NoLimits(), Weight: 1}))
		for _, name := range []string{"one", "two"} {
			token, hash := auth.NewToken()
			tokens[tenant+"/"+name] = token
			must(t, b.store.PutToken(t.Context(), store.Token{Name: tenant + "/" + name, Hash: hash, Bindings: []ares.Binding{{Role: ares.Viewer, Tenant: tenant}}}))
		}
	}
	b.cfg.Auth.Changed()
	b.seen()
	open := func(token string) {
		t.Helper()
		next, _ := b.follow("", with(token))
		if begin, _ := next(); begin.id == "" {
			t.Errorf("a stream begins with %+v", begin)
		}
	}
	open(tokens["red/one"])
	open(tokens["red/two"])
	for _, name := range []string{"red/one", "red/two"} {
		b.refused(b.do("GET", "/api/v1/events", nil, with(tokens[name])), 429, ares.Exhausted, "limit for one", "open event streams")
	}
	open(tokens["blue/one"])
	b.refused(b.do("GET", "/api/v1/events", nil, with(tokens["blue/two"])), 429, ares.Exhausted, "its limit for all tenants (3 open event streams)")
	open(adminToken)
}

// TestRatesOfOneTenant checks that the tokens of one tenant share the tenant's rate, and that other callers do not.
func TestRatesOfOneTenant(t *testing.T) {
	e := newEstate(t)
	first, second := with(e.tokens["viewer"]), with(e.tokens["submitter"])
	h := newHouse(t, func(c *Config) {
		c.Store, c.View, c.Auth, c.Admission = e.store, e.view, e.cfg.Auth, e.cfg.Admission
		c.Limits = pipeline.DefaultLimits()
		c.Limits.TenantRate = pipeline.Rate{PerSecond: 0.001, Burst: 3, Setting: "limits.tenant_calls_per_second"}
	})
	for i, as := range []func() answer{
		func() answer { return h.do("GET", "/api/v1/jobs", nil, first) },
		func() answer { return h.do("GET", "/api/v1/jobs", nil, second) },
		func() answer { return h.do("GET", "/api/v1/jobs", nil, first) },
	} {
		if a := as(); a.code != 200 {
			t.Errorf("call %d answered %d %s", i, a.code, a.body)
		}
	}
	h.refused(h.do("GET", "/api/v1/jobs", nil, second), 429, ares.Exhausted, "tenant a makes too many calls", "limits.tenant_calls_per_second")
	if a := h.do("GET", "/api/v1/jobs", nil, with(e.tokens["platform-admin"])); a.code != 200 {
		t.Errorf("an administrator got %d %s", a.code, a.body)
	}
}

// TestRejectedCallsCount checks that calls for which a caller has no permission count against its rate.
func TestRejectedCallsCount(t *testing.T) {
	e := newEstate(t)
	viewer := with(e.tokens["viewer"])
	h := newHouse(t, func(c *Config) {
		c.Store, c.View, c.Auth, c.Admission = e.store, e.view, e.cfg.Auth, e.cfg.Admission
		c.Limits = pipeline.DefaultLimits()
		c.Limits.TenantRate = pipeline.Rate{PerSecond: 0.001, Burst: 3, Setting: "limits.tenant_calls_per_second"}
	})
	for range 3 {
		h.refused(h.do("POST", "/api/v1/tokens", map[string]any{"name": "x"}, viewer), 403, ares.Forbidden)
	}
	h.refused(h.do("POST", "/api/v1/tokens", map[string]any{"name": "x"}, viewer), 429, ares.Exhausted, "too many calls")
}
