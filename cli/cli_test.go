package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The type `fake` is a test server that accepts every job. The fields hold the objects that the
// test server returns.
type fake struct {
	apipb.UnimplementedJobServiceServer
	apipb.UnimplementedTenantServiceServer
	apipb.UnimplementedClusterServiceServer

	mu     sync.Mutex
	refuse error
	specs  []*apipb.JobSpec
	tenant *apipb.Tenant
	job    *apipb.Job
	polls  int          // number of GetJob calls that get an answer; 0 for all
	asked  int          // GetJob calls so far
	jobs   []*apipb.Job // result of ListJobs if job is nil
	log    string
	token  string
	nodes  []*apipb.Node
}

func (f *fake) SubmitJob(ctx context.Context, req *apipb.SubmitJobRequest) (*apipb.SubmitJobResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return nil, apipb.ToStatus(f.refuse)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	f.token = strings.Join(md.Get("authorization"), ",")
	f.specs = append(f.specs, req.GetJob())
	return &apipb.SubmitJobResponse{JobId: "job-1", Status: "submitted", State: "pending"}, nil
}

func (f *fake) SubmitJobs(_ context.Context, req *apipb.SubmitJobsRequest) (*apipb.SubmitJobsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.specs = append(f.specs, req.GetJobs()...)
	out := &apipb.SubmitJobsResponse{}
	for _, job := range req.GetJobs() {
		if job.GetGpuCount() > 100 {
			out.Results = append(out.Results, &apipb.SubmitResult{Status: "refused", Error: "quota exceeded", Code: "quota_exceeded"})
			out.Refused++
			continue
		}
		out.Results = append(out.Results, &apipb.SubmitResult{JobId: "job-" + job.GetName(), Status: "submitted"})
		out.Accepted++
	}
	return out, nil
}

func (f *fake) GetJob(ctx context.Context, req *apipb.GetJobRequest) (*apipb.GetJobResponse, error) {
	f.mu.Lock()
	f.asked++
	slow := f.polls > 0 && f.asked > f.polls
	f.mu.Unlock()
	if slow {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.job == nil {
		return nil, apipb.ToStatus(ares.Errorf(ares.NotFound, "there is no job %s", req.GetJobId()))
	}
	return &apipb.GetJobResponse{Job: f.job}, nil
}

// ListJobs returns the fake's jobs in pages. Only the first page contains the total number of jobs.
func (f *fake) ListJobs(_ context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	if f.job == nil {
		resp := &apipb.ListJobsResponse{}
		at, err := strconv.Atoi(req.GetPageToken())
		if err != nil {
			resp.Total = new(int32(len(f.jobs)))
		}
		end := len(f.jobs)
		if n := int(req.GetPageSize()); n > 0 {
			end = min(at+n, end)
		}
		if resp.Jobs = f.jobs[at:end]; end < len(f.jobs) {
			resp.NextPageToken = strconv.Itoa(end)
		}
		return resp, nil
	}
	return &apipb.ListJobsResponse{Jobs: []*apipb.Job{f.job}, Total: new(int32(1)), Revision: "9"}, nil
}

func (f *fake) StreamLogs(_ *apipb.StreamLogsRequest, stream grpc.ServerStreamingServer[apipb.StreamLogsResponse]) error {
	return stream.Send(&apipb.StreamLogsResponse{Data: []byte(f.log)})
}

func (f *fake) UpdateTenant(_ context.Context, req *apipb.UpdateTenantRequest) (*apipb.UpdateTenantResponse, error) {
	f.tenant = req.GetTenant()
	return &apipb.UpdateTenantResponse{Tenant: req.GetTenant()}, nil
}

// The function `serve` starts the test server f. It also creates a data directory that contains
// the server's address, and makes this directory the default for the test's commands.
func serve(t *testing.T, f *fake) string {
	t.Helper()
	return serveJobs(t, f, f)
}

// serveJobs is like serve, with another implementation of the service for jobs.
func serveJobs(t *testing.T, f *fake, jobs apipb.JobServiceServer) string {
	t.Helper()
	for _, name := range []string{"ARES_SERVER", "ARES_TOKEN", "ARES_TOKEN_FILE", "ARES_TLS", "ARES_TLS_CA"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	t.Setenv("ARES_DATA_DIR", dir)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "admin.token"), "admin-secret\n")
	write(t, filepath.Join(dir, "server.json"), `{"grpc": "`+lis.Addr().String()+`"}`)
	srv := grpc.NewServer()
	apipb.RegisterJobServiceServer(srv, jobs)
	apipb.RegisterTenantServiceServer(srv, f)
	apipb.RegisterClusterServiceServer(srv, f)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return dir
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The function `run` runs an ares command line.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, strings.NewReader("name: from-stdin\ncommand: [x]\n"), &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	serve(t, &fake{})
	for _, c := range []struct{ args, want string }{
		{"jbo list", `ares: ares has no command "jbo": did you mean "job"?`},
		{"job lst", `ares: ares job has no command "lst": did you mean "list"?`},
		{"jobs", `ares: ares has no command "jobs": did you mean "ares ps"?`},
		{"nvtop", `ares: ares has no command "nvtop": did you mean "ares top"?`},
		{"status", `ares: ares has no command "status": did you mean "ares cluster status"?`},
		{"wait x", `ares: ares has no command "wait": did you mean "ares job wait"?`},
		{"squeue", `ares: ares has no command "squeue": did you mean "ares ps"?`},
		{"submti", `ares: ares has no command "submti": did you mean "submit"?`},
		{"job kill x", `ares: ares job has no command "kill": did you mean "ares cancel"?`},
		{"submit --walltime 4h -- x", `ares: unknown flag --walltime: did you mean --time? (see: ares submit --help)`},
		{"submit --memory 4G -- x", `ares: unknown flag --memory: did you mean --mem? (see: ares submit --help)`},
		{"cancel --all --name x", `ares: --all selects every job: leave it out, and the other flags select the jobs`},
		{"cancel", `ares: which jobs? Name them, or select them with --name, --state, --label, --user, --mine, --queue, --tenant-id or --all; list yours with: ares ps --mine`},
		{"cancel a --mine", `ares: name the jobs to cancel, or select them with flags such as --name and --state, but not both`},
		{"cancel --state failed", `ares: --state failed: a job that has ended cannot be changed: use one of pending, scheduled, running, retrying, preempted`},
		{"cancel --label =x", `ares: --label "=x": write KEY=VALUE, or KEY for any value`},
		{"update a", `ares: nothing to change: use --priority, --priority-class, --time, --set-label or --remove-label`},
		{"update a --time 90", `ares: --time: "90" has no unit: write 90m for minutes or 90h for hours`},
		{"update a --set-label b", `ares: --set-label: want KEY=VALUE, got "b" (see: ares update --help)`},
		{"submit --mem 1G --memory-mb 5 -- x", `ares: --mem and --memory-mb set the same field: use one of them`},
		{"submit --time 1h --max-runtime-minutes 5 -- x", `ares: --time and --max-runtime-minutes set the same field: use one of them`},
		{"submit --gpus h100:4 --gpu-model a100 -- x", `ares: --gpus h100:4 and --gpu-model both name a model: leave out one of them`},
		{"job list --me", `ares: unknown flag --me: did you mean --mine? (see: ares job list --help)`},
		{"job list --zzz", `ares: unknown flag --zzz (see: ares job list --help)`},
		{"job frobnicate", `ares: ares job has no command "frobnicate": use one of cancel, events, explain, get, hold, list, logs, plan, predict, release, retry, submit, update, wait`},
		{"job submit --gpu 2 -- x", `ares: unknown flag --gpu: did you mean --gpus? (see: ares job submit --help)`},
		{"job submit --pirority 2 -- x", `ares: unknown flag --pirority: did you mean --priority? (see: ares job submit --help)`},
		{"job submit --gpus many -- x", `ares: --gpus many: "many" is not a number of GPUs: write it as 4, or with a model as h100:4`},
		{"job submit", `ares: the job has no command: use ares job submit --name hello -- echo hello, or -f FILE`},
		{"job submit echo hello", `ares: put the job's command after --, such as: ares job submit --name hello -- echo hello`},
		{"job submit --env A -- x", `ares: --env A: use NAME=VALUE`},
		{"job get", `ares: ares job get: JOB is missing (usage: ares job get JOB [flags])`},
		{"job get a b", `ares: ares job get: unexpected argument "b" (usage: ares job get JOB [flags])`},
		{"job list -o xml", `ares: --output xml: use table, wide, name, csv, json or yaml`},
		{"job list --state odd", `ares: --state: state "odd" is unknown: use one of pending, scheduled, running, retrying, preempted, succeeded, failed, cancelled, lost, returned`},
		{"tenant update t", `ares: nothing to change: add a flag, such as: ares tenant update t --max-gpus 32`},
		{"--server 10.0.0.1:9090 job list", `ares: 10.0.0.1:9090 is not on this machine: use TLS, so that the token is sent encrypted; add --tls or --tls-ca FILE`},
		{"--server http://127.0.0.1:8080 job list", `ares: --server http://127.0.0.1:8080: use the gRPC address as host:port, such as 127.0.0.1:9090`},
	} {
		code, _, stderr := run(t, strings.Fields(c.args)...)
		if code != exit.Usage || strings.TrimSpace(stderr) != c.want {
			t.Errorf("ares %s: exit %d\n got %s\nwant %s", c.args, code, strings.TrimSpace(stderr), c.want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	exits := map[ares.Code]int{
		ares.Invalid: 3, ares.Conflict: 3, ares.Fenced: 3, ares.Forbidden: 3, ares.Unauthentic: 3, ares.TooLarge: 3,
		ares.NotFound: 1, ares.Internal: 1,
	}
	for _, code := range ares.Codes() {
		if code.Rejects() {
			exits[code] = 3
		}
	}
	for code, want := range exits {
		serve(t, &fake{refuse: ares.Errorf(code, "no: \x1b[2Jbad")})
		got, stdout, stderr := run(t, "job", "submit", "--", "x")
		if got != want || stdout != "" || !strings.HasPrefix(stderr, "ares: no: bad\n") {
			t.Errorf("%s: exit %d, want %d; stdout %q, stderr %q", code, got, want, stdout, stderr)
		}
	}
	t.Setenv("ARES_SERVER", "127.0.0.1:1")
	code, _, stderr := run(t, "job", "list")
	if code != 1 || !strings.Contains(stderr, "a server of this machine answers at 127.0.0.1:") {
		t.Errorf("the wrong port: exit %d, %s", code, stderr)
	}
	t.Setenv("ARES_DATA_DIR", t.TempDir())
	code, _, stderr = run(t, "job", "list")
	if code != 1 || !strings.Contains(stderr, `no server answers at 127.0.0.1:1: start one with "ares up"`) {
		t.Errorf("no server: exit %d, %s", code, stderr)
	}
}

func TestSubmitFromFlags(t *testing.T) {
	f := &fake{}
	dir := serve(t, f)
	code, stdout, stderr := run(t, "job", "submit", "--name", "n", "--gpus", "4", "--priority", "0", "--tenant-id", "vision", "--queue", "q", "--members", "2",
		"--cpus", "8", "--memory-mb", "64", "--gpu-memory-mb", "80", "--gpu-model", "H100", "--env", "A=b=c", "--env", "D=", "--label", "k=v", "--workdir", "/w",
		"--image", "i", "--container-root", "--network", "host", "--max-runtime-minutes", "5", "--max-retries", "0", "--request-id", "r", "--grace-seconds", "0", "--lost-after-seconds", "60",
		"--execution-mode", "at_most_once", "--after", "job-a,job-b", "--allow-mixed-models", "--preemptible=false", "--", "python", "train.py", "--epochs", "3")
	if code != 0 || stdout != "job-1\n" || stderr != "follow it with: ares job logs -f job-1\n" {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	var want apipb.JobSpec
	if err := apipb.UnmarshalJSON([]byte(`{"name": "n", "gpu_count": 4, "priority": 0, "tenant_id": "vision", "queue": "q", "members": 2, "cpu_cores": 8,
		"memory_mb": 64, "gpu_memory_mb": 80, "gpu_model": "H100", "environment": {"A": "b=c", "D": ""}, "labels": {"k": "v"}, "working_dir": "/w", "image": "i", "container_root": true, "network": "host",
		"max_runtime_minutes": 5, "retry": {"max_retries": 0}, "request_id": "r", "grace_seconds": 0, "lost_after_seconds": 60, "execution_mode": "at_most_once",
		"after": ["job-a", "job-b"], "allow_mixed_models": true, "preemptible": false, "command": ["python", "train.py", "--epochs", "3"]}`), &want); err != nil {
		t.Fatal(err)
	}
	if f.specs[0].String() != want.String() {
		t.Errorf("sent %v\nwant %v", f.specs[0], &want)
	}
	if f.token != "Bearer admin-secret" {
		t.Errorf("token %q, want that of %s", f.token, dir)
	}
	t.Setenv("ARES_TOKEN", "mine")
	if run(t, "job", "submit", "--", "x"); f.token != "Bearer mine" {
		t.Errorf("token %q, want that of ARES_TOKEN", f.token)
	}
}

func TestSubmitFromFile(t *testing.T) {
	f := &fake{}
	dir := serve(t, f)
	file := write(t, filepath.Join(dir, "job.yaml"), "name: a\ngpu_count: 2\ncommand: [python, train.py]\nenvironment: {PORT: \"80\"}\ndeadline: 2026-01-31T18:00:00Z\n---\n")
	if code, _, stderr := run(t, "job", "submit", "-f", file, "--gpus", "3"); code != 0 {
		t.Fatal(stderr)
	}
	if s := f.specs[0]; s.GetGpuCount() != 3 || s.GetName() != "a" || len(s.GetCommand()) != 2 || s.GetDeadline().GetSeconds() != 1769882400 {
		t.Errorf("sent %v", s)
	}
	if code, _, stderr := run(t, "job", "submit", "-f", "-"); code != 0 || f.specs[1].GetName() != "from-stdin" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	many := write(t, filepath.Join(dir, "many.yaml"), "jobs:\n- {name: a, command: [x]}\n- {name: b, command: [x], gpu_count: 999}\n---\nname: c\ncommand: [x]\n")
	code, stdout, stderr := run(t, "job", "submit", "-f", many)
	if code != exit.Refused || stdout != "job-a\njob-c\n" || !strings.Contains(stderr, "ares: job 2 (b): quota exceeded\n2 submitted, 0 submitted before, 1 refused") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

func TestBadFiles(t *testing.T) {
	dir := serve(t, &fake{})
	for text, want := range map[string]string{
		"command: python train.py":        `line 1: command: want a list of strings such as ["python", "train.py"], got a string`,
		"gpu: 2":                          `line 1: gpu: there is no such field: did you mean gpu_count?`,
		"gpus: many":                      `line 1: gpus: "many" is not a number of GPUs: write it as 4, or with a model as h100:4`,
		"mem: 64Q":                        `line 1: mem: "64Q" is not an amount of memory: write it as 64G, 64Gi, or 65536 in MB`,
		"time: 30":                        `line 1: time: "30" has no unit: write 30m for minutes or 30h for hours`,
		"{gpus: 2, gpu_count: 2}":         `line 1: gpus: the job also has gpu_count: leave one of the two out`,
		"start: {begin: someday}":         `line 1: start.begin: "someday" is not a time: use now+1h, 16:00, tomorrow, 2026-03-01 or 2026-03-01T18:00:00Z`,
		"environment: {PORT: 80}":         `line 1: environment.PORT: want a string, got the number 80`,
		"gpu_count: 1\ngpu_count: 2":      `not YAML: line 2: mapping key "gpu_count" already defined at line 1`,
		"name: [":                         `not YAML: line 1: did not find expected node content`,
		`{"name": "a", "name": "b"}`:      `line 1: name: appears twice: remove one`,
		"name: a\n---\nqueu: b":           `document 2: line 3: queu: there is no such field: did you mean queue?`,
		"jobs: [{name: a}, {command: x}]": `line 1: jobs[1].command: want a list of strings such as ["python", "train.py"], got a string`,
		"- a":                             `expected a JSON object such as {"request_id": …}, but found a list`,
		"gpu_count: 99999999999999999999": `line 1: gpu_count: 100000000000000000000 is out of range: want a whole number from -2147483648 to 2147483647`,
		"":                                `the file has no job`,
		"&a [*a]":                         `not YAML: anchor 'a' value contains itself`,
		"command: [a]\nlabels: {1: x}\nname: 5\n": `line 3: name: want a string, got the number 5`,
	} {
		file := write(t, filepath.Join(dir, "bad.yaml"), text)
		code, _, stderr := run(t, "job", "submit", "-f", file)
		if got := strings.TrimPrefix(strings.TrimSpace(stderr), "ares: "+file+": "); code != exit.Refused || got != want {
			t.Errorf("%q: exit %d\n got %s\nwant %s", text, code, got, want)
		}
	}
	if code, _, stderr := run(t, "job", "submit", "-f", filepath.Join(dir, "none.yaml")); code != 1 || !strings.Contains(stderr, "no such file") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(1_700_000_000+int64(seconds), 0))
}

func TestWaitAndFollow(t *testing.T) {
	f := &fake{log: "out\x1b[31m\n", job: &apipb.Job{
		JobId: "job-1", State: "failed", Result: &apipb.JobResult{Outcome: "failed", ExitCode: 7, Reason: "exit status 7"},
		Attempts: []*apipb.Attempt{{Number: 1, StartedAt: at(0), EndedAt: at(1)}},
	}}
	serve(t, f)
	code, stdout, _ := run(t, "job", "wait", "job-1")
	if code != 1 || stdout != "job-1 failed: exit code 7, exit status 7\n" {
		t.Errorf("wait: exit %d, %q", code, stdout)
	}
	if got, _, stderr := run(t, "job", "submit", "--wait", "--", "x"); got != 1 || !strings.Contains(stderr, "job-1 failed") {
		t.Errorf("submit --wait: exit %d, %q", got, stderr)
	}
	code, stdout, stderr := run(t, "job", "submit", "--follow", "--", "x")
	if code != 7 || stdout != "out\x1b[31m\n" || stderr != "job-1 submitted\nares: job-1 failed: exit code 7, exit status 7\n" {
		t.Errorf("submit --follow: exit %d, %q, %q", code, stdout, stderr)
	}
	f.job.State = "succeeded"
	if code, stdout, _ := run(t, "job", "wait", "job-1"); code != 0 || stdout != "job-1 succeeded\n" {
		t.Errorf("wait: exit %d, %q", code, stdout)
	}
	f.job = nil
	if code, _, stderr := run(t, "job", "wait", "job-1"); code != 1 || stderr != "ares: there is no job job-1\n" {
		t.Errorf("wait for none: exit %d, %q", code, stderr)
	}
}

func TestWaitTellsASlowServerFromNone(t *testing.T) {
	serve(t, &fake{job: &apipb.Job{JobId: "job-1", State: "running"}, polls: 3})
	code, _, stderr := run(t, "job", "wait", "job-1", "--timeout", "2s")
	if code != exit.TimedOut || stderr != "ares: job-1 did not end within 2s and continues: show it with \"ares job get job-1\"\n" {
		t.Errorf("it answered three times: exit %d, %q", code, stderr)
	}
	code, _, stderr = run(t, "job", "wait", "job-1", "--timeout", "100ms")
	if code != 1 || !strings.Contains(stderr, "no server answered within 100ms, so the job's state is unknown") {
		t.Errorf("it does not answer any more: exit %d, %q", code, stderr)
	}
}

func TestUpdateSendsOnlyWhatIsGiven(t *testing.T) {
	f := &fake{}
	serve(t, f)
	if code, _, stderr := run(t, "tenant", "update", "t", "--max-gpus", "0", "--allow-preemption=false"); code != 0 {
		t.Fatal(stderr)
	}
	want := &apipb.Tenant{MaxGpus: new(int32(0)), AllowPreemption: new(false)}
	if f.tenant.String() != want.String() {
		t.Errorf("sent %v, want %v", f.tenant, want)
	}
}
