package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/server"
)

func sampleJob() *apipb.Job {
	return &apipb.Job{
		JobId: "job-1", Name: "train \x1b]0;owned\x07\x1b[31mme\nnow", TenantId: "vision", Queue: "default", State: "pending",
		Reason: "waiting for another place", Priority: 500, PriorityClass: "normal", Members: 2, GpuCount: 4, CpuCores: 8,
		Command: []string{"python", "train.py", "it's"}, CreatedAt: at(-3700), Retries: 1,
		WaitingFor: []string{"8 GPUs: 2 free", "tenant limit"},
		Stop:       &apipb.StopIntent{Why: "cancel", By: "ann", At: at(-5)},
		Progress:   &apipb.JobProgress{Percent: 42.5, Message: "epoch 3", At: at(-2)},
		Result:     &apipb.JobResult{Outcome: "failed", ExitCode: 7, Reason: "exit status 7"},
		Attempts: []*apipb.Attempt{{
			Number: 1, Fence: "41", StartedAt: at(-100), EndedAt: at(-40), Outcome: "failed", Reason: "exit status 7",
			Seats: []*apipb.JobSeat{
				{Rank: 0, Node: "a", Gpus: []int32{0, 1, 2, 6}, State: "released", Outcome: "failed", ExitCode: 7},
				{Rank: 1, Node: "b", State: "voided"},
			},
		}},
	}
}

func testApp() (*app, *bytes.Buffer) {
	var out bytes.Buffer
	return &app{out: &out, err: &out, now: func() time.Time { return at(0).AsTime() }}, &out
}

func TestJobSheet(t *testing.T) {
	t.Setenv("TZ", "UTC")
	a, out := testApp()
	a.writeJob(out, sampleJob())
	got := strings.ReplaceAll(out.String(), at(-3700).AsTime().Local().Format(time.RFC3339), "THEN")
	want := `Job          job-1
Name         train me now
State        pending
Reason       waiting for another place
Waits for    - 8 GPUs: 2 free
             - tenant limit
Stopping     cancel by ann, asked 5.0s ago
Progress     42.5 % epoch 3 (2.0s ago)
Result       failed: exit code 7, exit status 7
Retries      1
Tenant       vision
Queue        default
Priority     500 (normal)
Asks         2 members, each: 4 GPUs, 8 CPU cores
Command      python train.py 'it'\''s'
Created      THEN (1h01m ago)

ATTEMPT  RANK  NODE  GPUS   SEAT      OUTCOME  EXIT  RAN  FENCE  REASON
1        0     a     0-2,6  released  failed   7     60s  41     exit status 7
1        1     b     -      voided                   60s  41     exit status 7
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestJobTable(t *testing.T) {
	a, out := testApp()
	a.writeJobs(out, &apipb.ListJobsResponse{Jobs: []*apipb.Job{sampleJob(), {JobId: "job-22", Name: "überlang", State: "running"}}, Total: new(int32(5))})
	want := `ID      NAME          TENANT  STATE    PRIORITY  GPUS  AGE    REASON
job-1   train me now  vision  pending  500       2x4   1h01m  8 GPUs: 2 free; tenant limit
job-22  überlang              running  0         0     -
2 of 5 jobs; see more with --limit
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	out.Reset()
	a.color = true
	a.writeJobs(out, &apipb.ListJobsResponse{Jobs: []*apipb.Job{sampleJob()}})
	if !strings.Contains(out.String(), "\x1b[33mpending\x1b[0m") || strings.Contains(out.String(), "owned") {
		t.Errorf("colors: %q", out)
	}
}

func TestFormats(t *testing.T) {
	f := &fake{job: &apipb.Job{JobId: "job-1", Name: "a\x1b[2J\u009b2J\u202e", State: "running", GpuCount: 0}}
	serve(t, f)
	_, stdout, _ := run(t, "job", "get", "job-1", "-o", "json")
	for _, want := range []string{"\n  \"job_id\": \"job-1\",\n", `"gpu_count": 0`, `"name": "a\u001b[2J\u009b2J\u202e"`, `"attempts": []`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %s in\n%s", want, stdout)
		}
	}
	_, stdout, _ = run(t, "job", "list", "-o", "yaml")
	if !strings.Contains(stdout, "- archived: false\n") || !strings.Contains(stdout, "  job_id: job-1\n") || strings.ContainsAny(stdout, "\x1b\u009b") {
		t.Errorf("yaml:\n%s", stdout)
	}
	if _, stdout, _ = run(t, "version", "-o", "json"); !strings.Contains(stdout, `"version": "dev"`) {
		t.Errorf("version: %s", stdout)
	}
}

// TestListsOfManyPages: how many there are comes with the first page.
func TestListsOfManyPages(t *testing.T) {
	f := &fake{}
	for range 2500 {
		f.jobs = append(f.jobs, &apipb.Job{JobId: "job-1", State: "succeeded"})
	}
	serve(t, f)
	if _, stdout, stderr := run(t, "job", "list", "--all", "--limit", "1500"); !strings.HasSuffix(stdout, "\n1500 of 2500 jobs; see more with --limit\n") {
		t.Errorf("%.100s … %s", stdout, stderr)
	}
	if _, stdout, stderr := run(t, "job", "list", "--all", "--limit", "0", "-o", "json"); !strings.Contains(stdout, `"total": 2500`) {
		t.Errorf("%.100s … %s", stdout, stderr)
	}
}

func TestWatchOnAPipe(t *testing.T) {
	serve(t, &fake{job: &apipb.Job{JobId: "job-1", State: "running"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var errs bytes.Buffer
	out := &untilLine{then: cancel}
	code := Main(ctx, []string{"job", "list", "--watch", "-o", "json"}, nil, out, &errs)
	if code != 0 || strings.Count(out.String(), "\n") != 1 || !strings.HasPrefix(out.String(), `{"jobs":[{"job_id":"job-1"`) {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// untilLine keeps what is written, and ends something with the first whole line.
type untilLine struct {
	bytes.Buffer

	then func()
}

func (u *untilLine) Write(data []byte) (int, error) {
	n, err := u.Buffer.Write(data)
	if bytes.IndexByte(u.Bytes(), '\n') >= 0 {
		u.then()
	}
	return n, err
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünï 火":                    "plain ünï 火",
		"\x1b[1;31mred\x1b[0m":           "red",
		"\x1b]0;title\x07x":              "x",
		"\x1b]8;;http://e\x1b\\link":     "link",
		"\x1bP1$r\x1b\\x\x1b(Bx\x1bcx":   "xxx",
		"a\u009b31mb\u0085c":             "abc",
		"a\x00b\x08c\x7fd":               "abcd",
		"\x1b]0;never ended\nnext line":  "next line",
		"one\r\ntwo\rthree":              "one two three",
		"right\u202eleft":                "rightleft",
		"bad \xff\xc3":                   "bad ��",
		"\x1b[31\x1b[32mx":               "x",
		"\x1b\x1b[31mx\x1b]0;a\x1bb\x07": "x",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// What a cleaner writes does not depend on how its input is cut.
func FuzzCleaner(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;t\x07ü\r\nc", 3)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		whole, parts := &bytes.Buffer{}, &bytes.Buffer{}
		one, two := &cleaner{w: whole}, &cleaner{w: parts}
		cut = min(max(cut, 0), len(text))
		for _, w := range []struct {
			c    *cleaner
			text string
		}{{one, text}, {two, text[:cut]}, {two, text[cut:]}} {
			if _, err := w.c.Write([]byte(w.text)); err != nil {
				t.Fatal(err)
			}
		}
		if one.Close() != nil || two.Close() != nil || whole.String() != parts.String() {
			t.Fatalf("%q cut at %d: %q and %q", text, cut, whole, parts)
		}
		for _, r := range whole.String() {
			if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q let %q through", text, r)
			}
		}
	})
}

func TestConvert(t *testing.T) {
	old := `scheduler:
  scheduling_interval_ms: 1000
  max_queue_size: 10000
  enable_preemption: true
  enable_gang_scheduling: true
  enable_thermal_aware: true
  thermal_threshold: 75.0
  magic: 3
database:
  host: localhost
  port: 5433
  user: postgres
  password: "gpu123"
  database: gpu_scheduler
  sslmode: disable
api:
  http_port: 8080
  grpc_port: 9090
`
	out, notes, err := convertConfig([]byte(old), []string{"GPU_SCHEDULER_DATABASE_PASSWORD=p@ss", "GPU_SCHEDULER_API_HTTP_PORT=8081", "GPU_SCHEDULER_ODD=1", "HOME=/"})
	if err != nil {
		t.Fatal(err)
	}
	want := `# Converted by ares config convert.
scheduler:
  scheduling_interval_ms: 1000
  max_queue_size: 10000
  enable_preemption: true
  enable_gang_scheduling: true
  enable_thermal_aware: true
  thermal_threshold: 75
http_addr: 127.0.0.1:8081
grpc_addr: 127.0.0.1:9090
`
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	file := write(t, filepath.Join(t.TempDir(), "ares.yaml"), string(out))
	cfg, err := server.Load(file, nil)
	if err != nil || cfg.Check() != nil || cfg.HTTPAddr != "127.0.0.1:8081" {
		t.Errorf("Ares does not take its own conversion: %v", err)
	}
	told := strings.Join(notes, "\n")
	for _, want := range []string{
		"GPU_SCHEDULER_ODD: it means nothing", "scheduler.magic: it means nothing",
		"database.host, database.port, database.user, database.password, database.database, database.sslmode: Ares needs no database",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("nothing is told of %s in\n%s", want, told)
		}
	}
	if strings.Contains(told, "p@ss") || strings.Contains(told, "gpu123") {
		t.Errorf("a password is told:\n%s", told)
	}
	if _, _, err := convertConfig([]byte("scheduler: {thermal_threshold: nan}"), nil); err == nil || !strings.Contains(err.Error(), "want a temperature") {
		t.Errorf("got %v", err)
	}
	if _, _, err := convertConfig([]byte("api: {http_port: many}"), nil); err == nil || err.Error() != `api.http_port: want a port from 1 to 65535, got "many"` {
		t.Errorf("got %v", err)
	}
}
