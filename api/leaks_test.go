package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// TestDependenciesOfAnotherQueue submits jobs as a user with a role in one queue. A job of another queue must give the same
// answer as a job that does not exist, also after it is archived.
func TestDependenciesOfAnotherQueue(t *testing.T) {
	e := newEstate(t)
	mine := e.submit("tenant_id", "a", "queue", "q", "name", "mine", "request_id", "mine")
	narrow := with(e.put("narrow", "a", ares.Binding{Role: ares.Submitter, Tenant: "a", Queue: "q"}))
	e.cfg.Auth.Changed()
	e.seen()
	never := string(ares.NewJobID("a", "never"))
	for _, path := range []string{"/api/v1/jobs", "/api/v1/jobs:plan", "/api/v1/jobs:predict"} {
		ask := func(after string) (int, string) {
			a := e.do("POST", path, job("tenant_id", "a", "queue", "q", "after", []string{after}), narrow)
			return a.code, strings.ReplaceAll(a.body, after, "JOB")
		}
		wantCode, want := ask(never)
		if wantCode/100 != 4 {
			t.Fatalf("%s after no job: %d %s", path, wantCode, want)
		}
		for what, id := range map[string]string{"another queue's": e.jobs["a"], "another tenant's": e.jobs["b"]} {
			if code, text := ask(id); code != wantCode || text != want {
				t.Errorf("%s after %s job: %d %s, want %d %s", path, what, code, text, wantCode, want)
			}
		}
		if code, text := ask(mine); code/100 != 2 {
			t.Errorf("%s after one's own job: %d %s", path, code, text)
		}
	}
	// A user of the whole tenant may name the job.
	if a := e.do("POST", "/api/v1/jobs", job("tenant_id", "a", "queue", "q", "after", []string{e.jobs["a"]}), with(e.tokens["submitter"])); a.code != 201 {
		t.Errorf("a user of the tenant: %d %s", a.code, a.body)
	}
}

// TestFairnessOfOneQueue checks that a caller with a role in one queue does not see the share of its tenant, and that only a
// caller that may see all tenants gets Jain's index.
func TestFairnessOfOneQueue(t *testing.T) {
	e := newEstate(t)
	engine := e.cfg.Engine.(*fakeEngine)
	engine.fair = ares.Fairness{Jain: 875, Shares: []ares.FairShare{
		{Tenant: "a", Waiting: 7}, {Tenant: "a", Queue: "default", Waiting: 5}, {Tenant: "a", Queue: "q", Waiting: 2}, {Tenant: "b", Waiting: 9},
	}}
	narrow := e.put("narrow", "a", ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: "q"})
	e.cfg.Auth.Changed()
	e.seen()
	for _, c := range []struct {
		who, token, waiting string
		jain                any
	}{
		{"one queue", narrow, "[2]", 0.0},
		{"the tenant", e.tokens["viewer"], "[7 5 2]", 0.0},
		{"the platform", e.tokens[string(ares.PlatformAdmin)], "[7 5 2 9]", 0.875},
	} {
		a := e.do("GET", "/api/v1/fairness", nil, with(c.token))
		var waiting []any
		for _, s := range a.json["shares"].([]any) {
			waiting = append(waiting, s.(map[string]any)["waiting_jobs"])
		}
		if jain := a.json["jain_index"]; fmt.Sprint(waiting) != c.waiting || jain != c.jain && jain != nil {
			t.Errorf("%s sees %s", c.who, a.body)
		}
	}
}

// TestTenantIDsAreNotReused deletes tenants and creates them again. A tenant whose jobs are known must not come back, because
// its successor would see these jobs. A tenant without jobs may, but its successor must not read its audit entries.
func TestTenantIDsAreNotReused(t *testing.T) {
	e := newEstate(t)
	create := func(id string) answer { return e.do("POST", "/api/v1/tenants", map[string]any{"id": id, "name": id}) }
	remove := func(id string) {
		t.Helper()
		if a := e.do("DELETE", "/api/v1/tenants/"+id, nil); a.code != 200 {
			t.Fatal(a.body)
		}
		e.seen()
	}
	if a := create("c"); a.code != 201 {
		t.Fatal(a.body)
	}
	e.seen()
	id := e.submit("tenant_id", "c", "name", "secret-project")
	e.seen()
	if a := create("c"); a.code != 201 {
		t.Errorf("a repeated request: %d %s", a.code, a.body)
	}
	if a := e.do("DELETE", "/api/v1/jobs/"+id, nil); a.code != 200 {
		t.Fatal(a.body)
	}
	e.seen()
	remove("c")
	e.refused(create("c"), 409, ares.Conflict, "choose another ID")
	if a := e.do("POST", "/api/v1/tenants", map[string]any{"name": "c"}); a.code != 201 || a.json["id"] == "c" {
		t.Errorf("a tenant by its name: %d %s", a.code, a.body)
	}
	e.services.Cfg.ReuseTenants = true
	if a := create("c"); a.code != 201 {
		t.Errorf("where reuse is permitted: %d %s", a.code, a.body)
	}
	e.services.Cfg.ReuseTenants = false

	if a := create("d"); a.code != 201 {
		t.Fatal(a.body)
	}
	if a := e.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "d", "name": "secret-queue"}); a.code != 201 {
		t.Fatal(a.body)
	}
	remove("d")
	e.services.Cfg.Now = func() time.Time { return time.Now().Add(time.Minute) } // the tenant is created a minute later
	if a := create("d"); a.code != 201 {
		t.Fatal(a.body)
	}
	auditor := with(e.put("auditor", "d", ares.Binding{Role: ares.Auditor, Tenant: "d"}))
	e.cfg.Auth.Changed()
	e.seen()
	if a := e.do("GET", "/api/v1/audit", nil, auditor); a.code != 200 || strings.Contains(a.body, "secret-queue") {
		t.Errorf("the successor's auditor reads %d %s", a.code, a.body)
	}
	if a := e.do("GET", "/api/v1/audit?tenant_id=d", nil); !strings.Contains(a.body, "secret-queue") {
		t.Errorf("an administrator reads %s", a.body)
	}
	must(t, e.past.Close())
	e.refused(create("e"), 503, ares.Unavailable, "history")
}

// TestQueueNamesAreNotReused deletes a queue and creates it again. The roles of the deleted queue must not come back.
func TestQueueNamesAreNotReused(t *testing.T) {
	e := newEstate(t)
	narrow := with(e.put("narrow", "a", ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: "q"}, ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: ares.DefaultQueue}))
	_, err := e.store.CreateBinding(t.Context(), store.Binding{Subject: "oidc:eve", Binding: ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: "q"}})
	must(t, err)
	e.cfg.Auth.Changed()
	e.seen()
	sees := func(queue string) int { return e.do("GET", "/api/v1/tenants/a/queues/"+queue, nil, narrow).code }
	if sees("q") != 200 {
		t.Fatal("the token does not see its queue")
	}
	if a := e.do("DELETE", "/api/v1/tenants/a/queues/q", nil); a.code != 200 {
		t.Fatal(a.body)
	}
	if a := e.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "a", "name": "q"}); a.code != 201 {
		t.Fatal(a.body)
	}
	if a := e.do("PATCH", "/api/v1/tenants/a/queues/default", map[string]any{"weight": 2}); a.code != 200 { // its first settings
		t.Fatal(a.body)
	}
	e.cfg.Auth.Changed()
	e.seen()
	if q, own := sees("q"), sees(ares.DefaultQueue); q != 404 || own != 200 {
		t.Errorf("the token gets %d for the new queue, and %d for the default queue", q, own)
	}
	all, err := e.store.Bindings(t.Context())
	must(t, err)
	for _, b := range all {
		if b.Subject == "oidc:eve" {
			t.Errorf("the binding %+v is valid again", b)
		}
	}
}
