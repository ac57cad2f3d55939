package api

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/history"
)

// The type `change` is an API call that changes an object, with the audit entry that the test expects.
type change struct {
	method, path string
	body         any
	action       string
	object       string // TOKEN stands for the join token that the test created
	tenant       string
	was, is      bool // whether the object exists before and after the call
}

var (
	firstJob  = string(ares.NewJobID("default", "r-1"))
	secondJob = string(ares.NewJobID("default", "r-2"))
)

// changesInTurn lists the changes in the order in which the test makes them.
// Most requests that create an object are sent twice. The second request
// changes nothing, because the object already exists.
func changesInTurn() []change {
	binding := map[string]any{"subject": "group:ml", "role": "viewer", "tenant_id": "default"}
	rule := func(text string) map[string]any {
		return map[string]any{"name": "small", "on": "submission", "rule": text, "message": "too large"}
	}
	price := map[string]any{"gpu_model": "H100", "price_per_gpu_hour": 2.5, "from": "2026-01-01"}
	until := time.Now().Add(time.Hour).Format(time.RFC3339)
	return []change{
		{"POST", "/api/v1/tenants", map[string]any{"id": "red", "max_gpus": 4, "max_gpu_memory_mb": 4, "max_cpu_cores": 4, "max_memory_mb": 4, "max_concurrent_jobs": 4}, "CREATE_TENANT", "tenant/red", "red", false, true},
		{"POST", "/api/v1/tenants", map[string]any{"id": "red", "max_gpus": 4, "max_gpu_memory_mb": 4, "max_cpu_cores": 4, "max_memory_mb": 4, "max_concurrent_jobs": 4}, "CREATE_TENANT", "tenant/red", "red", false, false},
		{"POST", "/api/v1/queues", map[string]any{"name": "night", "tenant_id": "default"}, "CREATE_QUEUE", "queue/default/night", "default", false, true},
		{"POST", "/api/v1/queues", map[string]any{"name": "night", "tenant_id": "default"}, "CREATE_QUEUE", "queue/default/night", "default", false, false},
		{"PATCH", "/api/v1/tenants/default/queues/night", map[string]any{"weight": 2}, "UPDATE_QUEUE", "queue/default/night", "default", true, true},
		{"DELETE", "/api/v1/tenants/default/queues/night", nil, "DELETE_QUEUE", "queue/default/night", "default", true, false},
		{"PATCH", "/api/v1/tenants/red", map[string]any{"max_gpus": 8}, "UPDATE_TENANT", "tenant/red", "red", true, true},
		{"DELETE", "/api/v1/tenants/red", nil, "DELETE_TENANT", "tenant/red", "red", true, false},
		{"POST", "/api/v1/jobs", job("request_id", "r-1"), "SUBMIT_JOB", firstJob, "default", false, true},
		{"POST", "/api/v1/jobs", job("request_id", "r-1"), "SUBMIT_JOB", firstJob, "default", false, false},
		{"POST", "/api/v1/jobs/" + firstJob + ":hold", map[string]any{}, "HOLD_JOB", firstJob, "default", true, true},
		{"POST", "/api/v1/jobs/" + firstJob + ":release", map[string]any{}, "RELEASE_JOB", firstJob, "default", true, true},
		{"PATCH", "/api/v1/jobs/" + firstJob, map[string]any{"priority": 700}, "UPDATE_JOB", firstJob, "default", true, true},
		{"PATCH", "/api/v1/jobs/" + firstJob, map[string]any{"priority": 700}, "UPDATE_JOB", firstJob, "default", false, false},
		{"DELETE", "/api/v1/jobs/" + firstJob, nil, "CANCEL_JOB", firstJob, "default", true, true},
		{"POST", "/api/v1/jobs/" + firstJob + "/retry", map[string]any{"request_id": "r-2"}, "RETRY_JOB", secondJob, "default", false, true},
		{"POST", "/api/v1/jobs/" + firstJob + "/retry", map[string]any{"request_id": "r-2"}, "RETRY_JOB", secondJob, "default", false, false},
		{"POST", "/api/v1/reservations", map[string]any{"name": "disks", "nodes": []string{"n1"}, "until": until}, "CREATE_RESERVATION", "reservation/disks", "", false, true},
		{"POST", "/api/v1/reservations", map[string]any{"name": "disks", "nodes": []string{"n1"}, "until": until}, "CREATE_RESERVATION", "reservation/disks", "", false, false},
		{"DELETE", "/api/v1/reservations/disks", nil, "DELETE_RESERVATION", "reservation/disks", "", true, false},
		{"POST", "/api/v1/tokens", map[string]any{"name": "ci", "tenant_id": "default", "bindings": []any{map[string]any{"role": "viewer", "tenant_id": "default"}}}, "CREATE_TOKEN", "token/default/ci", "default", false, true},
		{"DELETE", "/api/v1/tenants/default/tokens/ci", nil, "REVOKE_TOKEN", "token/default/ci", "default", true, false},
		{"POST", "/api/v1/bindings", binding, "CREATE_BINDING", "binding/group:ml/viewer/default", "default", false, true},
		{"POST", "/api/v1/bindings", binding, "CREATE_BINDING", "binding/group:ml/viewer/default", "default", false, false},
		{"POST", "/api/v1/bindings:accept", binding, "ACCEPT_BINDING", "binding/group:ml/viewer/default", "default", false, false},
		{"DELETE", "/api/v1/bindings?subject=group:ml&role=viewer&tenant_id=default", nil, "DELETE_BINDING", "binding/group:ml/viewer/default", "default", true, false},
		{"PUT", "/api/v1/secrets/hub", map[string]any{"tenant_id": "default", "data": map[string]any{"value": "eA=="}}, "PUT_SECRET", "secret/default/hub", "default", false, true},
		{"PUT", "/api/v1/secrets/hub", map[string]any{"tenant_id": "default", "data": map[string]any{"value": "eQ=="}}, "PUT_SECRET", "secret/default/hub", "default", true, true},
		{"DELETE", "/api/v1/secrets/hub?tenant_id=default", nil, "DELETE_SECRET", "secret/default/hub", "default", true, false},
		{"POST", "/api/v1/secrets:rotate-key", map[string]any{}, "ROTATE_SECRET_KEY", "secret-key/KEY", "", false, true},
		{"PUT", "/api/v1/policies?check_only=true", rule("true"), "APPLY_POLICY", "policy/small", "", false, false},
		{"PUT", "/api/v1/policies", rule("true"), "APPLY_POLICY", "policy/small", "", false, true},
		{"PUT", "/api/v1/policies", rule("job.gpus < 9"), "APPLY_POLICY", "policy/small", "", true, true},
		{"DELETE", "/api/v1/policies/small", nil, "DELETE_POLICY", "policy/small", "", true, false},
		{"PUT", "/api/v1/prices", price, "SET_PRICE", "price/H100/2026-01-01", "", false, true},
		{"PUT", "/api/v1/prices", price, "SET_PRICE", "price/H100/2026-01-01", "", true, true},
		{"DELETE", "/api/v1/prices?gpu_model=H100&from=2026-01-01", nil, "DELETE_PRICE", "price/H100/2026-01-01", "", true, false},
		{"POST", "/api/v1/join-tokens", map[string]any{"node_id": "n9"}, "CREATE_JOIN_TOKEN", "join-token/TOKEN", "", false, true},
		{"DELETE", "/api/v1/join-tokens/TOKEN", nil, "REVOKE_JOIN_TOKEN", "join-token/TOKEN", "", true, false},
		{"POST", "/api/v1/nodes/n9:revoke", map[string]any{}, "REVOKE_NODE", "node/n9", "", false, true},
		{"POST", "/api/v1/nodes/n1:label", map[string]any{"labels": map[string]any{"ares.io/pool": "prod"}}, "LABEL_NODE", "node-grant/n1", "", false, true},
		{"POST", "/api/v1/nodes/n1:label", map[string]any{"remove": []string{"ares.io/pool"}}, "LABEL_NODE", "node-grant/n1", "", true, false},
		{"POST", "/api/v1/nodes/n1/cordon", map[string]any{}, "CORDON_NODE", "node/n1", "", false, true},
		{"POST", "/api/v1/nodes/n1/uncordon", map[string]any{}, "UNCORDON_NODE", "node/n1", "", true, false},
		{"POST", "/api/v1/nodes/n1/drain", map[string]any{}, "DRAIN_NODE", "node/n1", "", false, true},
		{"PUT", "/api/v1/topology", map[string]any{}, "APPLY_TOPOLOGY", "topology", "", true, true},
	}
}

// The variable `digestless` lists the changes that changesInTurn leaves out. Most changes in digestless need
// a real node. A test alert changes no object. The code of a job is recorded by its digest, with the job.
// A session changes no object; TestSession checks its two entries.
var digestless = []string{"JOIN_NODE", "RUN_SESSION", "REMOVE_NODE", "TEST_ALERT_CHANNEL", "PUT_CHUNKS", "COMMIT_SNAPSHOT"}

// The variable `ofClusters` lists the changes that TestAuditOfClusters and TestAuditOfMembership make.
var ofClusters = []string{
	"REGISTER_CLUSTER", "JOIN_CLUSTER", "CORDON_CLUSTER", "UNCORDON_CLUSTER", "DRAIN_CLUSTER", "END_MEMBERSHIP", "DECLARE_CLUSTER_DEAD", "LEAVE_CLUSTER",
	"JOIN_HUB", "LEAVE_HUB",
}

// TestAuditOfChanges checks that each change has one audit entry, which names its object. In each entry, the
// digest before the change must equal the digest after the previous change of the same object. The test fails
// if a method that changes something is in none of changesInTurn, digestless and ofClusters.
func TestAuditOfChanges(t *testing.T) {
	past, err := history.Open(history.Config{File: filepath.Join(t.TempDir(), "history.db")})
	must(t, err)
	t.Cleanup(func() { must(t, past.Close()) })
	h, l := audited(t, func(c *Config) {
		c.Accounting = &accounting.Accounting{View: c.View, History: past, Now: time.Now}
		c.Secrets = newSecrets(t, c.Store)
	})
	_, err = h.store.OpenSession(t.Context(), ares.Node{ID: "n1"}, "0123456789abcdef", "here:1", 5*time.Minute, 0)
	must(t, err)
	tried, token, after := slices.Concat(digestless, ofClusters), "", map[string]string{}
	for _, c := range changesInTurn() {
		tried = append(tried, c.action)
		h.seen()
		named := strings.NewReplacer("TOKEN", token)
		a := h.do(c.method, named.Replace(c.path), c.body, func(r *http.Request) { r.Header.Set("X-Request-Id", "my-call") })
		if a.code >= 300 {
			t.Fatalf("%s %s answered %d %s", c.method, c.path, a.code, a.body)
		}
		if made, ok := a.json["join_token"].(map[string]any); ok {
			token, _ = made["id"].(string)
			named = strings.NewReplacer("TOKEN", token)
		}
		if key, ok := a.json["key_id"].(string); ok {
			named = strings.NewReplacer("KEY", key)
		}
		e := l.one(t, c.action)
		c.object = named.Replace(c.object)
		if e.Action != c.action || e.Object != c.object || e.Tenant != c.tenant || e.Status != audit.Done || e.Code != "" ||
			e.User == "" || e.Door != "rest" || !strings.HasPrefix(e.Source, "127.0.0.1:") || len(e.Request) != 64 {
			t.Errorf("%s %s is recorded as %+v", c.method, c.path, e)
		}
		if want := map[string]string{"SUBMIT_JOB": "r-1", "RETRY_JOB": "r-2"}[c.action]; e.RequestID != want && (want != "" || e.RequestID != "my-call") {
			t.Errorf("%s: the request is called %q", c.action, e.RequestID)
		}
		if (e.Before != "") != c.was || (e.After != "") != c.is {
			t.Errorf("%s: digests before %q, after %q", c.action, e.Before, e.After)
		}
		kind, _, _ := strings.Cut(c.object, "/")
		if was := after[c.object]; was != "" && c.was && slices.Contains(chained, kind) && e.Before != was {
			t.Errorf("%s: before is %s, but after the last change it was %s", c.action, e.Before, was)
		}
		if c.was || c.is {
			after[c.object] = e.After
		} else if !slices.Contains([]string{"unchanged", "duplicate", "duplicate, retry of " + firstJob, "checked"}, e.Detail) {
			t.Errorf("%s: nothing changed, and that is told as %q", c.action, e.Detail)
		}
	}
	for _, m := range method.All() {
		if m.Audit.Level == method.Changes && !slices.Contains(tried, m.Audit.Action) {
			t.Errorf("%s changes something, and no row says what is recorded of it", m.Name)
		}
	}
}

// TestAuditOfARetry checks the digest in the audit entry for a retried job. It must be the digest of the spec
// that users see, so that users can compute it too.
func TestAuditOfARetry(t *testing.T) {
	h, l := audited(t)
	first := h.submit()
	h.do("DELETE", "/api/v1/jobs/"+first, nil)
	l.take()
	again, _ := h.do("POST", "/api/v1/jobs/"+first+"/retry", nil).json["job_id"].(string)
	e := l.one(t, "RETRY_JOB")
	made, err := h.store.Job(t.Context(), ares.JobID(again))
	must(t, err)
	if want := pipeline.MessageDigest(apipb.NewJobSpec(&made.Job.Spec)); e.After != want {
		t.Errorf("a retry is recorded as %+v, and its specification has the digest %s", e, want)
	}
}

// TestAuditOfARevocation checks the digest in the audit entry for a revocation. It must be the digest of the
// stored revocation, even if the server's clock is wrong.
func TestAuditOfARevocation(t *testing.T) {
	h, l := audited(t, func(c *Config) {
		c.Trust.Now = func() time.Time {
			return time.Now().Truncate(time.Second).Add(123_456_789).In(time.FixedZone("east", 3600))
		}
	})
	h.do("POST", "/api/v1/nodes/n9:revoke", map[string]any{"reason": "stolen"})
	e := l.one(t, "REVOKE_NODE")
	kept, err := h.store.Revocations(t.Context())
	must(t, err)
	if len(kept) != 1 || e.After != pipeline.DigestOf(kept[0]) {
		t.Errorf("the revocations %+v are recorded as %+v", kept, e)
	}
}

// The variable `chained` lists the kinds of objects that only API calls can change.
var chained = []string{"queue", "tenant", "reservation", "token", "binding", "policy", "price", "join-token", "node", "secret"}

// TestAuditOfCertificates checks that the audit log has the digest of each
// certificate issued to a node, so that a certificate can be traced.
func TestAuditOfCertificates(t *testing.T) {
	l := newLedger()
	f := newFortress(t, func(c *Config) { c.Audit = l })
	n, conn := f.join("n1")
	entries := l.take() // the first entry is for the token
	first := leafOf(t, n).Raw
	if joined := entries[len(entries)-1]; joined.Action != "JOIN_NODE" || joined.Object != "node/n1" || joined.Before != "" || joined.After != audit.Digest(first) {
		t.Errorf("joining is recorded as %+v", joined)
	}
	request, err := n.Request()
	must(t, err)
	next, err := apipb.NewTrustServiceClient(conn).RenewCertificate(t.Context(), &apipb.RenewCertificateRequest{Request: request})
	must(t, err)
	must(t, n.Store(next.GetCertificate(), next.GetAuthority()))
	if renewed := l.one(t, "RENEW_CERTIFICATE"); renewed.Object != "node/n1" || renewed.Before != audit.Digest(first) || renewed.After != audit.Digest(leafOf(t, n).Raw) {
		t.Errorf("a renewal is recorded as %+v", renewed)
	}
}

// TestAuditNamesPolicies checks that the audit log says which policies rejected
// a call.
func TestAuditNamesPolicies(t *testing.T) {
	h, l := audited(t)
	for name, body := range map[string]map[string]any{
		"tiny":   small("rule", "job.gpus < 1"),
		"small":  small("rule", "job.gpus < 2"),
		"large":  small("rule", "job.gpus < 9"),
		"frozen": small("on", "access", "rule", `request.action != "CreateQueue"`),
	} {
		if a := h.apply(name, body); a.code != 200 {
			t.Fatalf("%s: %s", name, a.body)
		}
	}
	h.seen()
	l.take()
	h.refused(h.do("POST", "/api/v1/jobs", job("gpu_count", 4)), 403, ares.PolicyDenied)
	if e := l.one(t, "SUBMIT_JOB"); e.Status != audit.Refused || e.Detail != "policy small, tiny" {
		t.Errorf("a submission is recorded as %+v", e)
	}
	h.refused(h.do("POST", "/api/v1/queues", map[string]any{"name": "night", "tenant_id": "default"}), 403, ares.Forbidden)
	if e := l.one(t, "CREATE_QUEUE"); e.Status != audit.Refused || e.Detail != "policy frozen" {
		t.Errorf("an access is recorded as %+v", e)
	}
}
