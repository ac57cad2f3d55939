package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/notify"
)

const policiesPath = "/api/v1/policies"

func small(edit ...any) map[string]any {
	m := map[string]any{"on": "submission", "rule": "job.cpu_cores < 4", "message": "too many cores", "why": "a reason"}
	for i := 0; i < len(edit); i += 2 {
		m[edit[i].(string)] = edit[i+1]
	}
	return m
}

// The method `apply` creates or replaces a policy.
func (h *house) apply(name string, body map[string]any) answer {
	h.t.Helper()
	body["name"] = name
	return h.do("PUT", policiesPath, body)
}

// TestPolicies checks that policies can be created, read, replaced and deleted,
// and that the error for each mistake names its field.
func TestPolicies(t *testing.T) {
	h := newHouse(t)
	if a := h.do("POST", "/api/v1/tenants", tenant("id", "vision")); a.code != 201 {
		t.Fatal(a.body)
	}
	put := h.apply
	for _, want := range []string{"created", "unchanged"} {
		if a := put("small", small()); a.code != 200 || a.json["status"] != want {
			t.Fatalf("apply answered %d %s, want %s", a.code, a.body, want)
		}
	}
	if a := put("small", small("mode", "warn", "alert", []string{"ops"})); a.json["status"] != "updated" || !strings.Contains(a.body, "no alert channel ops") {
		t.Errorf("apply answered %s", a.body)
	}
	if a := h.do("PUT", policiesPath+"?check_only=true", small("name", "other")); a.code != 200 || a.json["status"] != "checked" || h.stored("policies/") != 1 {
		t.Errorf("a check answered %d %s", a.code, a.body)
	}
	if a := put("own", small("tenant_id", "vision", "priority", 9)); a.code != 200 {
		t.Errorf("a tenant's own: %s", a.body)
	}
	for _, c := range []struct {
		field, word string
		body        map[string]any
	}{
		{"rule", "line 1, column 4: there is no field cores", small("rule", "job.cores < 4")},
		{"rule", "must be bool", small("rule", "job.gpus")},
		{"mode", "use enforce, warn, dry-run", small("mode", "on")},
		{"require", "only for placement policies", small("require", `{"a": "b"}`)},
		{"updated_by", "not part of a request", small("updated_by", "me")},
		{"broken", "not part of a request", small("broken", "me")},
	} {
		a := put("bad", c.body)
		h.refused(a, 400, ares.Invalid, c.word)
		if !strings.Contains(a.body, fmt.Sprintf(`"field":%q`, c.field)) {
			t.Errorf("%s is not named: %s", c.field, a.body)
		}
	}
	h.refused(put("a b", small()), 400, ares.Invalid, "is not a name")
	h.refused(put("theirs", small("tenant_id", "nobody")), 404, ares.NotFound, "there is no tenant nobody")
	a := h.do("GET", policiesPath, nil)
	if a.json["total"] != 2.0 || strings.Index(a.body, `"own"`) > strings.Index(a.body, `"small"`) {
		t.Errorf("list answered %s", a.body) // the policy with the higher priority comes first
	}
	first := h.do("GET", policiesPath+"?page_size=1", nil)
	next, _ := first.json["next_page_token"].(string)
	if rest := h.do("GET", policiesPath+"?page_size=1&page_token="+next, nil); next == "" || !strings.Contains(rest.body, `"small"`) || rest.json["next_page_token"] != "" {
		t.Errorf("the second page is %s", rest.body)
	}
	h.refused(h.do("GET", policiesPath+"?page_token=x", nil), 400, ares.Invalid, "page_token")
	if a = h.do("GET", policiesPath+"?tenant_id=default", nil); a.json["total"] != 1.0 {
		t.Errorf("list of another tenant answered %s", a.body)
	}
	if a = h.do("GET", policiesPath+"/own?tenant_id=vision", nil); a.code != 200 || a.json["rule"] != "job.cpu_cores < 4" || a.json["action"] != "REJECT_JOB" || a.json["updated_by"] == "" {
		t.Errorf("get answered %s", a.body)
	}
	for _, path := range []string{"/own", "/none", "/own?tenant_id=default", "/a%20b"} {
		h.refused(h.do("GET", policiesPath+path, nil), 404, ares.NotFound, "policy")
		h.refused(h.do("DELETE", policiesPath+path, nil), 404, ares.NotFound, "policy")
	}
	if a = h.do("DELETE", policiesPath+"/own?tenant_id=vision", nil); a.code != 200 {
		t.Errorf("delete answered %s", a.body)
	}
}

// TestPoliciesOnSubmission checks that the error names the policy that rejected a submission. The
// test also checks that a policy's warning is in the answer and is stored with the job.
func TestPoliciesOnSubmission(t *testing.T) {
	h := newHouse(t)
	h.apply("small", small())
	h.apply("team", map[string]any{"on": "submission", "rule": `"team" in job.labels`, "action": "WARN", "message": "say which team"})
	h.apply("pool", map[string]any{"on": "placement", "match": "job.members > 1", "require": `{"pool": "a100"}`})
	h.refused(h.do("POST", "/api/v1/jobs", job("cpu_cores", 5)), 403, ares.PolicyDenied, "policy small: too many cores")
	a := h.do("POST", "/api/v1/jobs", job("cpu_cores", 1, "members", 2))
	const team, pool = "policy team: say which team", "policy pool requires node label pool=a100"
	if a.code != 201 || fmt.Sprint(a.json["warnings"]) != "["+team+" "+pool+"]" {
		t.Fatalf("submit answered %s", a.body)
	}
	id := a.json["job_id"].(string)
	if got := h.do("GET", "/api/v1/jobs/"+id, nil); fmt.Sprint(got.json["policy_notes"]) != "["+team+" "+pool+"]" || !strings.Contains(got.body, `"node_selector":{"pool":"a100"}`) {
		t.Errorf("get answered %s", got.body)
	}
	if got := h.do("GET", "/api/v1/jobs/"+id+"/events", nil); !strings.Contains(got.body, "accepted; "+team+"; "+pool) {
		t.Errorf("events answered %s", got.body)
	}
	h.seen()
	if got := h.do("GET", "/api/v1/jobs/"+id+"/explain", nil); !strings.Contains(got.body, pool) {
		t.Errorf("explain answered %s", got.body)
	}
	batch := h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{job("cpu_cores", 5), job("cpu_cores", 1)}})
	if !strings.Contains(batch.body, "policy small: too many cores") || !strings.Contains(batch.body, team) || batch.json["refused"] != 1.0 {
		t.Errorf("a batch answered %s", batch.body)
	}
}

// TestPoliciesOnAccess checks that policies can deny calls over every protocol.
// Policies must never deny the calls of agents, health checks, or an
// administrator who changes policies.
func TestPoliciesOnAccess(t *testing.T) {
	h := newHouse(t)
	id := h.submit()
	h.seen()
	if a := h.apply("no-cancel", map[string]any{"on": "access", "match": `request.action == "CancelJob"`, "rule": `!(request.write && object.kind == "job" && object.tenant == "default")`, "message": "not today"}); a.code != 200 {
		t.Fatal(a.body)
	}
	h.refused(h.do("DELETE", "/api/v1/jobs/"+id, nil), 403, ares.Forbidden, "policy no-cancel: not today")
	if a := h.do("GET", "/api/v1/jobs/"+id, nil); a.code != 200 || a.json["state"] != "pending" {
		t.Errorf("get answered %s", a.body)
	}
	if a := h.apply("nothing", map[string]any{"on": "access", "rule": "false", "message": "closed"}); a.code != 200 {
		t.Fatal(a.body)
	}
	for _, path := range []string{"/api/v1/jobs", "/api/v1/nodes", "/api/v1/tenants", "/api/v1/events", "/api/v1/jobs/" + id + "/logs", "/api/v1/debug/store", "/api/v1/status"} {
		if a := h.do("GET", path, nil); a.code != http.StatusForbidden && a.code != http.StatusNotFound || a.code == http.StatusForbidden && !strings.Contains(a.body, "policy nothing: closed") {
			t.Errorf("GET %s answered %d %s", path, a.code, a.body)
		}
	}
	if _, resp, err := h.trySocket("", http.Header{"Authorization": {"Bearer " + adminToken}}); err == nil {
		t.Errorf("a socket was opened: %v", resp.Status)
	}
	conn := h.dial()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+adminToken)
	_, err := apipb.NewJobServiceClient(conn).ListJobs(ctx, &apipb.ListJobsRequest{})
	if ares.CodeOf(apipb.FromStatus(err)) != ares.Forbidden {
		t.Errorf("a gRPC call: %v", err)
	}
	stream, err := apipb.NewClusterServiceClient(conn).WatchEvents(ctx, &apipb.WatchEventsRequest{})
	must(t, err)
	if _, err = stream.Recv(); ares.CodeOf(apipb.FromStatus(err)) != ares.Forbidden {
		t.Errorf("a gRPC stream: %v", err)
	}
	if a := h.do("GET", "/health", nil); a.code != 200 {
		t.Errorf("health answered %d", a.code)
	}
	for _, name := range []string{"nothing", "no-cancel"} {
		if a := h.do("DELETE", policiesPath+"/"+name, nil); a.code != 200 {
			t.Fatalf("an administrator is locked out: %s", a.body)
		}
	}
	if a := h.do("DELETE", "/api/v1/jobs/"+id, nil); a.code != 200 {
		t.Errorf("cancel answered %s", a.body)
	}
}

// TestBeyondPolicies checks which callers are exempt from policies.
func TestBeyondPolicies(t *testing.T) {
	bound := func(role ares.Role, tenant string) *ares.Identity {
		return &ares.Identity{Bindings: []ares.Binding{{Role: role, Tenant: tenant}}}
	}
	for _, c := range []struct {
		method string
		who    *ares.Identity
		want   bool
	}{
		{apipb.AgentService_RenewSession_FullMethodName, bound(ares.AgentRole, ""), true},
		{apipb.TrustService_RenewCertificate_FullMethodName, bound(ares.AgentRole, ""), true},
		{apipb.PolicyService_DeletePolicy_FullMethodName, bound(ares.PlatformAdmin, ""), true},
		{apipb.PolicyService_ApplyPolicy_FullMethodName, bound(ares.PlatformAdmin, ""), true},
		{apipb.PolicyService_DeletePolicy_FullMethodName, bound(ares.PlatformAdmin, "vision"), false},
		{apipb.PolicyService_DeletePolicy_FullMethodName, bound(ares.TenantAdmin, "vision"), false},
		{apipb.JobService_CancelJob_FullMethodName, bound(ares.PlatformAdmin, ""), false},
		{apipb.JobService_ListJobs_FullMethodName, bound(ares.Auditor, ""), false},
	} {
		if got := pipeline.IsExempt(method.Of(c.method), c.who); got != c.want {
			t.Errorf("%s by %v: %v", c.method, c.who.Bindings, got)
		}
	}
}

// TestObjects checks how the object that a call acts on is described to access
// policies.
func TestObjects(t *testing.T) {
	h := newHouse(t)
	id := h.submit()
	h.seen()
	who, err := h.cfg.Auth.Check(t.Context(), adminToken)
	must(t, err)
	ctx := pipeline.WithCaller(t.Context(), who)
	for _, c := range []struct {
		method string
		req    any
		want   string
	}{
		{apipb.JobService_CancelJob_FullMethodName, &apipb.CancelJobRequest{JobId: id}, "write job " + id + " default"},
		{apipb.JobService_GetJob_FullMethodName, &apipb.GetJobRequest{JobId: "job-none"}, "read job job-none "},
		{apipb.JobService_SubmitJob_FullMethodName, &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Name: "x", TenantId: "vision"}}, "write job x vision"},
		{apipb.JobService_SubmitJob_FullMethodName, &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Name: "x"}}, "write job x default"},
		{apipb.JobService_ListJobs_FullMethodName, &apipb.ListJobsRequest{TenantId: "vision"}, "read job  vision"},
		{apipb.QueueService_DeleteQueue_FullMethodName, &apipb.DeleteQueueRequest{TenantId: "vision", Name: "night"}, "write queue night vision"},
		{apipb.QueueService_CreateQueue_FullMethodName, &apipb.CreateQueueRequest{Queue: &apipb.Queue{TenantId: "vision", Name: "night"}}, "write queue night vision"},
		{apipb.TenantService_GetTenant_FullMethodName, &apipb.GetTenantRequest{TenantId: "vision"}, "read tenant vision vision"},
		{apipb.ClusterService_DrainNode_FullMethodName, &apipb.DrainNodeRequest{NodeId: "n1"}, "write node n1 "},
		{apipb.PolicyService_ApplyPolicy_FullMethodName, &apipb.ApplyPolicyRequest{Policy: &apipb.Policy{TenantId: "vision", Name: "p"}}, "write policy p vision"},
		{apipb.PolicyService_GetPolicy_FullMethodName, &apipb.GetPolicyRequest{Name: "p"}, "read policy p "},
		{apipb.ClusterService_DumpStore_FullMethodName, &apipb.DumpStoreRequest{}, "read store  "},
	} {
		call := callAs(ctx, c.method, nil)
		_ = h.Authorize(ctx, call, c.req) // job-none does not exist
		r, o := pipeline.PolicyRequest(call.Method), h.PolicyObject(call, c.req)
		word := "read"
		if r.Write {
			word = "write"
		}
		if got := fmt.Sprintf("%s %s %s %s", word, o.Kind, o.ID, o.Tenant); got != c.want || "/"+r.Method != c.method {
			t.Errorf("%s: got %q, want %q", c.method, got, c.want)
		}
	}
}

// The type `channels` is a fake notifier with one alert channel, which can be made to fail.
type channels struct{ fails error }

func (c *channels) Has(name string) bool { return name == "ops" }

func (c *channels) Allows(_, tenant string) bool { return tenant == "" || tenant == "allowed" }
func (c *channels) Status() []notify.Status {
	return []notify.Status{{Name: "ops", Kind: "slack", Sent: 3, Repeated: 2, LastError: "the webhook answered with status 500"}}
}
func (c *channels) Test(context.Context, string, string) error { return c.fails }

// TestAlertChannels checks that alert channels can be listed and tested, and
// that their addresses are never shown.
func TestAlertChannels(t *testing.T) {
	c := &channels{}
	h := newHouse(t, func(cfg *Config) { cfg.Notifier = c })
	if a := h.do("GET", "/api/v1/alerts/channels", nil); a.code != 200 || !strings.Contains(a.body, `"name":"ops","kind":"slack","sent":"3"`) {
		t.Errorf("list answered %s", a.body)
	}
	if a := h.do("POST", "/api/v1/alerts/channels/ops:test", map[string]any{}); a.code != 200 || a.json["message"] != "Delivered through ops" {
		t.Errorf("test answered %s", a.body)
	}
	h.refused(h.do("POST", "/api/v1/alerts/channels/pager:test", map[string]any{}), 404, ares.NotFound, "no alert channel")
	c.fails = ares.Errorf(ares.Unavailable, "the alert was not delivered: the webhook answered with status 500")
	h.refused(h.do("POST", "/api/v1/alerts/channels/ops:test", map[string]any{}), 503, ares.Unavailable, "answered with status 500")
}

// BenchmarkAccessPolicy measures how much access policies add to the cost of
// authorization.
func BenchmarkAccessPolicy(b *testing.B) {
	h := newHouse(b)
	id := h.submit()
	h.seen()
	who, err := h.cfg.Auth.Check(b.Context(), adminToken)
	must(b, err)
	c := callAs(pipeline.WithCaller(b.Context(), who), apipb.JobService_GetJob_FullMethodName, nil)
	req := &apipb.GetJobRequest{JobId: id}
	for _, n := range []int{0, 1, 10} {
		for i := range n {
			if a := h.apply(fmt.Sprintf("p%d", i), map[string]any{"on": "access", "match": `request.action == "DrainNode"`, "rule": `"ops" in user.groups`}); a.code != 200 {
				b.Fatal(a.body)
			}
		}
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Authorize(b.Context(), c, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
