package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
)

// ledger is an auditor that remembers, and fails when it is told to.
type ledger struct {
	mu       sync.Mutex
	more     *sync.Cond // with mu: there are more entries
	entries  []audit.Entry
	notReady error
	failing  error
	hold     chan struct{} // Record waits for it, unless it is nil
}

func newLedger() *ledger {
	l := &ledger{}
	l.more = sync.NewCond(&l.mu)
	return l
}

// next waits for entries, and takes them.
func (l *ledger) next() []audit.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.entries) == 0 {
		l.more.Wait()
	}
	out := l.entries
	l.entries = nil
	return out
}

func (l *ledger) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notReady
}

func (l *ledger) Record(_ context.Context, entries ...audit.Entry) error {
	l.Note(entries...)
	l.mu.Lock()
	hold, err := l.hold, l.failing
	l.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return err
}

func (l *ledger) Refuse(_ context.Context, entries ...audit.Entry) { l.Note(entries...) }

func (l *ledger) Note(entries ...audit.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entries...)
	l.more.Broadcast()
}

// take empties the ledger.
func (l *ledger) take() []audit.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.entries
	l.entries = nil
	return out
}

func (l *ledger) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// one wants exactly one entry to be there, and takes it.
func (l *ledger) one(t *testing.T, what string) audit.Entry {
	t.Helper()
	got := l.take()
	if len(got) != 1 {
		t.Fatalf("%s: %d entries, want one: %+v", what, len(got), got)
	}
	return got[0]
}

func audited(t *testing.T, change ...func(*Config)) (*house, *ledger) {
	t.Helper()
	l := newLedger()
	return newHouse(t, append([]func(*Config){func(c *Config) { c.Audit = l }}, change...)...), l
}

// readers begins the names of methods that change nothing.
var readers = regexp.MustCompile(`^(Get|List|Watch|Stream|Explain|Plan|Predict|Verify|Check|Can|Who|Test|Export|Dump|Backup|Record)`)

// TestEveryMethodIsADeed fails for a method that the audit does not know, and for
// one that changes something and is said to read.
func TestEveryMethodIsADeed(t *testing.T) {
	actions := map[string]string{}
	seen := map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage("ares.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for k := range service.Methods().Len() {
				m := service.Methods().Get(k)
				method := fmt.Sprintf("/%s/%s", service.FullName(), m.Name())
				seen[method] = true
				checkDeed(t, method, m)
				if d := deeds[method]; actions[d.action] != "" && d.action != "SUBMIT_JOB" && d.keep != nothing {
					t.Errorf("%s and %s have the same action, %s", method, actions[d.action], d.action)
				} else {
					actions[d.action] = method
				}
			}
		}
		return true
	})
	for method := range deeds {
		if !seen[method] {
			t.Errorf("%s is in the table of deeds and is no method", method)
		}
	}
}

func checkDeed(t *testing.T, method string, m protoreflect.MethodDescriptor) {
	t.Helper()
	d, ok := deeds[method]
	switch {
	case !ok:
		t.Errorf("%s is not in the table of deeds: say in api/deeds.go what of it is in the audit", method)
		return
	case d.keep == nothing:
		return
	case !regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`).MatchString(d.action):
		t.Errorf("%s has the action %q: write it as SUBMIT_JOB", method, d.action)
	}
	if d.keep == reads && !readers.MatchString(string(m.Name())) {
		t.Errorf("%s is said to change nothing, but its name does not say so", method)
	}
	if rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule); ok && rule != nil && d.keep == reads && rule.GetGet() == "" && rule.GetPost() == "" {
		t.Errorf("%s is said to change nothing, but is neither GET nor POST", method)
	}
	for _, name := range d.names {
		if !hasText(m.Input(), name) && !hasText(m.Output(), name) {
			t.Errorf("%s is named by %s, which neither its request nor its answer has", method, name)
		}
	}
}

func hasText(d protoreflect.MessageDescriptor, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	field := d.Fields().ByName(protoreflect.Name(name))
	switch {
	case field == nil:
		return false
	case !more:
		return field.Kind() == protoreflect.StringKind
	default:
		return field.Message() != nil && hasText(field.Message(), rest)
	}
}

// TestAuditOfChanges wants one entry for each change, with what it was about and
// the digests to go with the changes before and after it.
func TestAuditOfChanges(t *testing.T) {
	h, l := audited(t)
	queue := map[string]any{"name": "night", "tenant_id": "default"}
	before := ""
	for _, c := range []struct {
		method, path string
		body         any
		action       string
		object       string
		tenant       string
		was, is      bool // there is something before, after
	}{
		{"POST", "/api/v1/tenants", map[string]any{"id": "red", "max_gpus": 4, "max_gpu_memory_mb": 4, "max_cpu_cores": 4, "max_memory_mb": 4, "max_concurrent_jobs": 4}, "CREATE_TENANT", "tenant/red", "red", false, true},
		{"POST", "/api/v1/queues", queue, "CREATE_QUEUE", "queue/default/night", "default", false, true},
		{"PATCH", "/api/v1/tenants/default/queues/night", map[string]any{"weight": 2}, "UPDATE_QUEUE", "queue/default/night", "default", true, true},
		{"DELETE", "/api/v1/tenants/default/queues/night", nil, "DELETE_QUEUE", "queue/default/night", "default", true, false},
		{"PATCH", "/api/v1/tenants/red", map[string]any{"max_gpus": 8}, "UPDATE_TENANT", "tenant/red", "red", true, true},
		{"DELETE", "/api/v1/tenants/red", nil, "DELETE_TENANT", "tenant/red", "red", true, false},
		{"POST", "/api/v1/jobs", job("request_id", "r-1"), "SUBMIT_JOB", string(ares.NewJobID("default", "r-1")), "default", false, true},
		{"POST", "/api/v1/reservations", map[string]any{"name": "disks", "nodes": []string{"n1"}, "until": time.Now().Add(time.Hour).Format(time.RFC3339)}, "CREATE_RESERVATION", "reservation/disks", "", false, true},
		{"DELETE", "/api/v1/reservations/disks", nil, "DELETE_RESERVATION", "reservation/disks", "", true, false},
	} {
		a := h.do(c.method, c.path, c.body, func(r *http.Request) { r.Header.Set("X-Request-Id", "my-call") })
		if a.code >= 300 {
			t.Fatalf("%s %s answered %d %s", c.method, c.path, a.code, a.body)
		}
		e := l.one(t, c.action)
		if e.Action != c.action || e.Object != c.object || e.Tenant != c.tenant || e.Status != audit.Done || e.Code != "" ||
			e.User == "" || e.Door != "rest" || !strings.HasPrefix(e.Source, "127.0.0.1:") || len(e.Request) != 64 {
			t.Errorf("%s %s is recorded as %+v", c.method, c.path, e)
		}
		if want := "my-call"; c.action != "SUBMIT_JOB" && e.RequestID != want || c.action == "SUBMIT_JOB" && e.RequestID != "r-1" {
			t.Errorf("%s: the request is called %q", c.action, e.RequestID)
		}
		if (e.Before != "") != c.was || (e.After != "") != c.is {
			t.Errorf("%s: digests before %q, after %q", c.action, e.Before, e.After)
		}
		if c.was && strings.HasPrefix(c.object, "queue/") && e.Before != before {
			t.Errorf("%s: before is %s, but after the last change it was %s", c.action, e.Before, before)
		}
		before = e.After
	}
}

func TestAuditOfABatch(t *testing.T) {
	h, l := audited(t)
	a := h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{
		job("request_id", "a"), job("request_id", "b", "tenant_id", "nobody"), job("request_id", "c"),
	}})
	if a.code != 200 {
		t.Fatal(a.body)
	}
	got := l.take()
	slices.SortFunc(got, func(a, b audit.Entry) int { return strings.Compare(a.RequestID, b.RequestID) })
	if len(got) != 3 || got[0].Status != audit.Done || got[0].Object != string(ares.NewJobID("default", "a")) ||
		got[1].Status != audit.Refused || got[1].Tenant != "nobody" || got[1].Code == "" || got[2].Status != audit.Done {
		t.Errorf("a batch is recorded as %+v", got)
	}
}

// TestAuditOfRefusals goes through every door, and wants each refusal to be
// recorded once, with its code.
func TestAuditOfRefusals(t *testing.T) {
	h, l := audited(t, func(c *Config) { c.MaxBody, c.AgentService = 4096, noAgents{} })
	anonymous := func(r *http.Request) { r.Header.Del("Authorization") }
	bearing := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	const nobody = "job-aaaaaaaaaaaaaaaaaaaaaaaa"
	conn := h.dial()
	jobs, cluster := apipb.NewJobServiceClient(conn), apipb.NewClusterServiceClient(conn)
	for _, c := range []struct {
		what   string
		try    func()
		action string
		code   ares.Code
		object string
		door   string
	}{
		{"no token", func() { h.do("GET", "/api/v1/jobs/"+nobody, nil, anonymous) }, "GET_JOB", ares.Unauthentic, nobody, "rest"},
		{"a bad token", func() { h.do("POST", "/api/v1/jobs", job(), bearing("ares-wrong")) }, "SUBMIT_JOB", ares.Unauthentic, "", "rest"},
		{"another role", func() { h.do("POST", "/api/v1/jobs", job(), bearing(nodeToken)) }, "SUBMIT_JOB", ares.Forbidden, "", "rest"},
		{"a foreign job", func() { h.do("GET", "/api/v1/jobs/"+nobody, nil) }, "GET_JOB", ares.NotFound, nobody, "rest"},
		{"a job that is none", func() { h.do("DELETE", "/api/v1/jobs/..%2f..%2fetc", nil) }, "UNKNOWN_ROUTE", ares.NotFound, "", "rest"},
		{"no such path", func() { h.do("GET", "/api/v1/secrets", nil) }, "UNKNOWN_ROUTE", ares.NotFound, "path//api/v1/secrets", "rest"},
		{"a bad body", func() { h.do("POST", "/api/v1/jobs", `{"name":`) }, "SUBMIT_JOB", ares.Invalid, "", "rest"},
		{"an unknown field", func() { h.do("POST", "/api/v1/jobs", `{"colour":"x"}`) }, "SUBMIT_JOB", ares.Invalid, "", "rest"},
		{"a bad value", func() { h.do("POST", "/api/v1/jobs", job("gpu_count", -1)) }, "SUBMIT_JOB", ares.Invalid, "", "rest"},
		{"a large body", func() { h.do("POST", "/api/v1/jobs", job("name", strings.Repeat("x", 8000))) }, "SUBMIT_JOB", ares.TooLarge, "", "rest"},
		{"a foreign host", func() { h.do("GET", "/api/v1/jobs", nil, func(r *http.Request) { r.Host = "evil.example" }) }, "LIST_JOBS", ares.Forbidden, "", "rest"},
		{"a foreign page", func() {
			h.do("POST", "/api/v1/jobs", job(), func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
		}, "SUBMIT_JOB", ares.Forbidden, "", "rest"},
		{"no such tenant", func() { h.do("POST", "/api/v1/jobs", job("tenant_id", "nobody")) }, "SUBMIT_JOB", "", "", "rest"},
		{"events without a token", func() { h.do("GET", "/api/v1/events", nil, anonymous) }, "WATCH_EVENTS", ares.Unauthentic, "", "rest"},
		{"events of no job", func() { h.do("GET", "/api/v1/events?job_id=x", nil) }, "WATCH_EVENTS", ares.NotFound, "", "rest"},
		{"a socket of a foreign page", func() {
			_, resp, err := h.trySocket("", http.Header{"Origin": {"https://evil.example"}, "Authorization": {"Bearer " + adminToken}})
			if err == nil || resp.StatusCode != 403 {
				t.Error("a foreign page has a socket")
			}
		}, "WATCH_EVENTS", ares.Forbidden, "", "websocket"},
		{"logs without a token", func() { h.do("GET", "/api/v1/jobs/"+nobody+"/logs", nil, anonymous) }, "STREAM_LOGS", ares.Unauthentic, nobody, "rest"},
		{"gRPC without a token", func() { _, _ = jobs.GetJob(t.Context(), &apipb.GetJobRequest{JobId: nobody}) }, "GET_JOB", ares.Unauthentic, "", "grpc"},
		{"gRPC for another role", func() { _, _ = jobs.SubmitJob(as(t.Context(), nodeToken), &apipb.SubmitJobRequest{}) }, "SUBMIT_JOB", ares.Forbidden, "", "grpc"},
		{"gRPC of a foreign job", func() { _, _ = jobs.CancelJob(as(t.Context(), adminToken), &apipb.CancelJobRequest{JobId: nobody}) }, "CANCEL_JOB", ares.NotFound, nobody, "grpc"},
		{"a gRPC stream without a token", func() {
			s, err := cluster.BackupStore(t.Context(), &apipb.BackupStoreRequest{})
			must(t, err)
			_, _ = s.Recv()
		}, "BACKUP_STORE", ares.Unauthentic, "", "grpc"},
		{"a gRPC message that is too large", func() {
			big := &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Name: strings.Repeat("x", MaxBatchBody+1)}}
			_, err := jobs.SubmitJob(as(t.Context(), adminToken), big)
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("answered %v", err)
			}
		}, "SUBMIT_JOB", ares.TooLarge, "", "grpc"},
		{"a gRPC message that is none", func() {
			err := conn.Invoke(as(t.Context(), adminToken), apipb.JobService_SubmitJob_FullMethodName, []byte("\xff\xff\xff"), &apipb.SubmitJobResponse{}, grpc.ForceCodecV2(raw{}))
			if err == nil {
				t.Error("it was taken")
			}
		}, "SUBMIT_JOB", ares.Invalid, "", "grpc"},
		{"no such method", func() {
			err := conn.Invoke(as(t.Context(), adminToken), "/ares.v1.JobService/StealJobs", &apipb.GetJobRequest{}, &apipb.GetJobResponse{})
			if status.Code(err) != codes.Unimplemented {
				t.Errorf("answered %v", err)
			}
		}, "UNKNOWN_METHOD", ares.NotFound, "method//ares.v1.JobService/StealJobs", "grpc"},
		{"an agent's call by a user", func() {
			_, _ = apipb.NewAgentServiceClient(conn).RenewSession(as(t.Context(), adminToken), &apipb.RenewSessionRequest{})
		}, "RENEW_SESSION", ares.Forbidden, "", "grpc"},
	} {
		l.take()
		c.try()
		got := l.next() // what gRPC refuses by itself is told beside the answer
		if len(got) != 1 {
			t.Fatalf("%s: %d entries, want one: %+v", c.what, len(got), got)
		}
		e := got[0]
		if e.Action != c.action || c.code != "" && e.Code != string(c.code) || e.Status != audit.Refused || c.object != "" && e.Object != c.object || e.Door != c.door || e.Source == "" {
			t.Errorf("%s is recorded as %+v", c.what, e)
		}
	}
}

// raw sends bytes as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return encoding.GetCodecV2("proto").Marshal(v)
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	return encoding.GetCodecV2("proto").Unmarshal(data, v)
}

// TestReadsAreNotRecorded: only changes and refusals are, and streams that hand
// out the store.
func TestReadsAreNotRecorded(t *testing.T) {
	h, l := audited(t)
	id := h.submit()
	l.take()
	for _, path := range []string{"/health", "/api/v1/health", "/api/v1/ready", "/api/v1/jobs", "/api/v1/jobs/" + id, "/api/v1/nodes", "/api/v1/openapi.json"} {
		if a := h.do("GET", path, nil); a.code != 200 {
			t.Errorf("%s answered %d", path, a.code)
		}
	}
	if got := l.take(); len(got) != 0 {
		t.Errorf("reading is recorded: %+v", got)
	}
	h.do("GET", "/api/v1/debug/store?prefix=jobs/", nil)
	if e := l.one(t, "a dump"); e.Action != "DUMP_STORE" || e.Status != audit.Done {
		t.Errorf("a dump is recorded as %+v", e)
	}
}

// TestNothingHappensUnrecorded wants a server that cannot record to change
// nothing, to say why, and to go on answering questions.
func TestNothingHappensUnrecorded(t *testing.T) {
	h, l := audited(t)
	id := h.submit()
	l.set(func() { l.notReady = ares.Errorf(ares.Unavailable, "the audit log cannot be written") })
	h.refused(h.do("POST", "/api/v1/jobs", job()), 503, ares.Unavailable, "audit")
	h.refused(h.do("DELETE", "/api/v1/jobs/"+id, nil), 503, ares.Unavailable, "audit")
	h.refused(h.do("GET", "/api/v1/debug/store", nil), 503, ares.Unavailable, "audit")
	if n := h.stored("jobs/"); n != 1 {
		t.Errorf("%d jobs are stored, want the one before", n)
	}
	if a := h.do("GET", "/api/v1/jobs/"+id, nil); a.code != 200 {
		t.Errorf("a question is answered %d", a.code)
	}
	// It fails when the deed is done: that is not called a success.
	l.set(func() {
		l.notReady, l.failing = nil, errors.Join(ares.Errorf(ares.Unavailable, "the audit log cannot be written"))
	})
	h.refused(h.do("POST", "/api/v1/jobs", job("request_id", "again")), 503, ares.Unavailable, "audit")
	l.set(func() { l.failing = nil })
	if a := h.do("POST", "/api/v1/jobs", job("request_id", "again")); a.code != 200 || a.json["status"] != duplicate {
		t.Errorf("the same request again is answered %d %s", a.code, a.body)
	}
}

// TestAnswerWaitsForTheAudit holds the entry back: no answer may come.
func TestAnswerWaitsForTheAudit(t *testing.T) {
	h, l := audited(t)
	hold := make(chan struct{})
	l.set(func() { l.hold = hold })
	answered := make(chan answer, 1)
	go func() { answered <- h.do("POST", "/api/v1/jobs", job()) }()
	l.next()
	if n := h.stored("jobs/"); n != 1 {
		t.Errorf("%d jobs are stored", n)
	}
	select {
	case <-answered:
		t.Fatal("it was answered before it was recorded")
	default:
	}
	close(hold)
	if a := <-answered; a.code != 201 {
		t.Errorf("answered %d %s", a.code, a.body)
	}
}

// TestAuditHoldsNoSecret puts a canary wherever a caller can, and looks for it in
// the files of a real log.
func TestAuditHoldsNoSecret(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Config{Dir: dir, Server: "s"})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	h := newHouse(t, func(c *Config) { c.Audit, c.AuditLog = log, log })
	id := h.submit("environment", map[string]string{"PASSWORD": canary, canary: "x"}, "args", []string{canary})
	h.do("POST", "/api/v1/jobs", job("environment", map[string]string{"A": canary}, "gpu_count", -1))
	h.do("POST", "/api/v1/jobs", `{"`+canary+`":1}`)
	h.do("POST", "/api/v1/jobs", `{"name":`+canary)
	h.do("GET", "/api/v1/jobs?"+canary+"=1&state="+canary, nil)
	h.do("GET", "/api/v1/jobs", nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+canary) })
	h.do("GET", "/api/v1/jobs", nil, func(r *http.Request) { r.Header.Set("X-Request-Id", canary+" "+canary) })
	h.do("POST", "/api/v1/jobs/"+id+"/retry", map[string]any{canary: 1})
	list := h.do("GET", "/api/v1/audit?page_size=1000", nil)
	if list.code != 200 || strings.Contains(list.body, canary) || !strings.Contains(list.body, id) {
		t.Errorf("the list is %d %s", list.code, list.body)
	}
	if v := h.do("POST", "/api/v1/audit/verify", map[string]any{}); v.json["ok"] != true {
		t.Errorf("verified as %s", v.body)
	}
	stop()
	must(t, <-done)
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(canary)) || bytes.Contains(data, []byte(adminToken)) {
			t.Errorf("%s holds a secret: %s", path, data)
		}
		return err
	}))
	if files < 3 {
		t.Errorf("%d files were looked at", files)
	}
}
