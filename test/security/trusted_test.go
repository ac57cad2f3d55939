package security

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// TestUntrustedJobs tries every way in which a user who is not a platform administrator could run a job on a node without isolation. Such
// a job could read the administrator's token.
func TestUntrustedJobs(t *testing.T) {
	t.Parallel()
	p := startServer(t, "")
	p.StartAgent("node-a", p.server)
	p.AwaitOnline("node-a")
	s := &scene{testServer: p, t: t, made: map[string]bool{}, blue: names{job: "job-aaaaaaaaaaaaaaaaaaaaaaaa"}}
	p.do(t, http.MethodPost, "/api/v1/tenants", `{"id":"red","name":"red","max_gpus":64,"max_gpu_memory_mb":8000000,"max_cpu_cores":640,"max_memory_mb":8000000,"max_concurrent_jobs":64}`)
	loot := filepath.Join(p.Dir, "loot")
	// The administrator's own job runs there, also for another tenant. A user of that tenant must not run it again.
	done := p.do(t, http.MethodPost, "/api/v1/jobs", `{"tenant_id":"red","command":["true"],"request_id":"of-the-admin"}`)["job_id"].(string)
	live.Await(t, cluster.Patience, "the administrator's job to succeed", func() (bool, string) {
		phase := fmt.Sprint(p.do(t, http.MethodGet, "/api/v1/jobs/"+done, "")["state"])
		return strings.EqualFold(phase, "succeeded"), phase
	})
	steal := fmt.Sprintf(`"command":["cp",%q,%q]`, filepath.Join(p.server.Dir, "admin.token"), loot)
	var all []attempt
	for role, token := range map[string]string{
		"a tenant's administrator": p.token(t, "boss", "red", "tenant-admin", 3600), "a submitter": p.token(t, "worker", "red", "submitter", 3600),
	} {
		for name, fields := range map[string]string{
			"plainly": "", "with a GPU": `,"gpu_count":1`, "with a share": `,"gpu_milli":100`, "as a gang": `,"members":2`, "as an array": `,"array":{"count":2}`,
			"with every toleration": `,"placement":{"tolerations":["*"]}`, "as critical": `,"priority_class":"critical"`, "once": `,"execution_mode":"at_most_once"`,
			"declared trusted": `,"trusted":true`, "with the administrator as owner": `,"owner":"token:admin"`, "with labels": `,"labels":{"trusted":"true"}`,
			"after the administrator's job": fmt.Sprintf(`,"after":[%q]`, done), "repeating the administrator's request": `,"request_id":"of-the-admin"`,
		} {
			a := s.rest(role+" submits "+name, token, "POST", "/api/v1/jobs", `{`+steal+fields+`}`, nil)
			a.unheard = strings.Contains(fields, "request_id") // its audit entry has that ID, not the attempt's
			all = append(all, a)
		}
		all = append(all,
			s.rest(role+" retries the administrator's job", token, "POST", "/api/v1/jobs/"+done+"/retry", `{}`, nil),
			s.rest(role+" makes itself an administrator", token, "POST", "/api/v1/tokens", `{"name":"x","bindings":[{"role":"platform-admin"}],"lifetime_seconds":60}`, nil),
			s.rest(role+" makes itself an administrator of its tenant", token, "POST", "/api/v1/tokens", `{"name":"x","tenant_id":"red","bindings":[{"role":"platform-admin","tenant_id":"red"}],"lifetime_seconds":60}`, nil),
			s.rest(role+" binds itself to the role", token, "POST", "/api/v1/bindings", `{"subject":"token:boss","role":"platform-admin"}`, nil),
			s.rest(role+" joins as a node", token, "POST", "/api/v1/join-tokens", `{"node_id":"n2","ttl_seconds":600}`, nil),
			s.rest(role+" plans", token, "POST", "/api/v1/jobs:plan", `{`+steal+`}`, nil),
			s.rest(role+" submits with a header", token, "POST", "/api/v1/jobs", `{`+steal+`}`, http.Header{"X-Ares-Trusted": {"true"}, "X-Forwarded-User": {"token:admin"}}),
			attempt{name: role + " submits over gRPC", try: func(ctx context.Context, _ names, id string) (result, error) {
				ctx = metadata.AppendToOutgoingContext(ctx, "x-request-id", id, "authorization", "Bearer "+token, "x-ares-trusted", "true")
				got, err := apipb.NewJobServiceClient(s.dial(t)).SubmitJob(ctx, &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Command: []string{"cp", "a", loot}}})
				return said(err, got), nil
			}})
		got, err := p.ask(t.Context(), token, "POST", "/api/v1/jobs:batch", `{"jobs":[{`+steal+`},{`+steal+`,"tenant_id":"red"}]}`, nil)
		if err != nil || !strings.Contains(got.body, "platform administrators") || strings.Contains(got.body, `"submitted"`) {
			t.Errorf("%s submits a batch: %v %s", role, err, got.body)
		}
	}
	s.audited(s.make(all))
	list := p.do(t, http.MethodGet, "/api/v1/jobs?tenant_id=red", "")
	if jobs := list["jobs"].([]any); len(jobs) != 1 {
		t.Errorf("jobs of tenant red: %v", jobs)
	}
	if data, err := os.ReadFile(loot); err == nil {
		t.Errorf("the administrator's token was stolen: %q", strings.Repeat("x", len(data)))
	}
	if len(all) < 30 {
		t.Errorf("only %d attempts", len(all))
	}
}
