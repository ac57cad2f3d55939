package api

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
)

// The type `ledger` is an auditor that stores entries in memory and can be made to fail.
type ledger struct {
	mu       sync.Mutex
	more     *sync.Cond // uses mu; signals new entries
	entries  []audit.Entry
	notReady error
	failing  error
	hold     chan struct{} // unless nil, Record waits for it
}

func newLedger() *ledger {
	l := &ledger{}
	l.more = sync.NewCond(&l.mu)
	return l
}

// The method `next` waits until the ledger has entries, and removes them.
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

// The method `take` removes all entries from the ledger and returns them.
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

// The method `one` checks that the ledger has exactly one entry, and removes this entry.
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

// TestAuditOfRefusals makes bad calls over every protocol, and checks that each
// rejection is recorded once, with its code.
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
		{"no such path", func() { h.do("GET", "/api/v1/nosuch", nil) }, "UNKNOWN_ROUTE", ares.NotFound, "path//api/v1/nosuch", "rest"},
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
			big := &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Name: strings.Repeat("x", pipeline.MaxBatchBody+1)}}
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
		got := l.next() // a call that gRPC itself rejects is recorded concurrently with its answer
		if len(got) != 1 {
			t.Fatalf("%s: %d entries, want one: %+v", c.what, len(got), got)
		}
		e := got[0]
		if e.Action != c.action || c.code != "" && e.Code != string(c.code) || e.Status != audit.Refused || c.object != "" && e.Object != c.object || e.Door != c.door || e.Source == "" {
			t.Errorf("%s is recorded as %+v", c.what, e)
		}
	}
}

// The type `raw` is a codec that sends bytes unchanged.
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

// TestReadsAreNotRecorded checks that the audit log records only changes,
// rejections and streams that export the store.
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

// TestNothingHappensUnrecorded checks that a server that cannot write its audit
// log changes nothing, says why, and still answers reads.
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
	// The audit log fails after the change is made, so the answer must not be a
	// success.
	l.set(func() {
		l.notReady, l.failing = nil, errors.Join(ares.Errorf(ares.Unavailable, "the audit log cannot be written"))
	})
	h.refused(h.do("POST", "/api/v1/jobs", job("request_id", "again")), 503, ares.Unavailable, "audit")
	l.set(func() { l.failing = nil })
	if a := h.do("POST", "/api/v1/jobs", job("request_id", "again")); a.code != 200 || a.json["status"] != service.Duplicate {
		t.Errorf("the same request again is answered %d %s", a.code, a.body)
	}
}

// TestAnswerWaitsForTheAudit delays the write of a call's audit entry. The server must not answer before the
// audit entry is written. While the call waits, it must not hold a slot that other calls need.
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
	if !has(h.Limiters.Writes, 0, 0) {
		t.Error("who waits for the disk has a place among those who write")
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

// TestAuditHoldsNoSecret puts a canary into every field that a caller can set,
// and searches for it in the files of a real log.
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
