package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
)

// The method `dial` starts a gRPC server and connects to it.
func (h *house) dial() *grpc.ClientConn {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(h.t, err)
	s := h.GRPC()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // returns after Stop
	}()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(h.t, err)
	h.t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		<-done
	})
	return conn
}

func as(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

type noAgents struct {
	apipb.UnimplementedAgentServiceServer
}

func TestRESTAuth(t *testing.T) {
	h := newHouse(t)
	header := func(v string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Authorization")
			if v != "" {
				r.Header.Set("Authorization", v)
			}
		}
	}
	paths := []struct{ method, path string }{
		{"GET", "/api/v1/jobs"},
		{"POST", "/api/v1/jobs"},
		{"GET", "/api/v1/jobs/job-aaaaaaaaaaaaaaaaaaaaaaaa/logs"},
		{"GET", "/api/v1/events"},
		{"GET", "/api/v1/cluster/status"},
		{"GET", "/api/v1/tenants"},
		{"GET", "/nothing"},
		{"POST", "/api/v1/jobs:batch"},
	}
	for _, p := range paths {
		for _, v := range []string{"", "Bearer", "Bearer ", "Basic " + adminToken, "Bearer wrong", adminToken, "Bearer " + strings.Repeat("x", 4000)} {
			a := h.do(p.method, p.path, nil, header(v))
			h.refused(a, 401, ares.Unauthentic)
			if a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s has no WWW-Authenticate", p.path)
			}
		}
		if p.path != "/nothing" {
			var body any
			if p.method == "POST" {
				body = job()
			}
			if strings.HasSuffix(p.path, "batch") {
				body = map[string]any{"jobs": []any{job()}}
			}
			h.refused(h.do(p.method, p.path, body, header("Bearer "+nodeToken)), 403, ares.Forbidden, "admin token")
		}
	}
	// The caller's identity is checked before the size of the body.
	h.refused(h.do("POST", "/api/v1/jobs", job("args", []string{strings.Repeat("x", 2<<20)}), header("")), 401, ares.Unauthentic)
	for _, p := range []string{"/health", "/api/v1/health", "/api/v1/ready"} {
		a := h.do("GET", p, nil, header(""))
		if a.code != 200 || len(a.json) != 1 || a.json["status"] == "" {
			t.Errorf("%s answered anybody %d %s", p, a.code, a.body)
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s has headers %v", p, a.header)
		}
	}
	if a := h.do("GET", "/health", nil); a.body != `{"status":"healthy"}` {
		t.Errorf("health is %s", a.body)
	}
	if a := h.do("GET", "/api/v1/tenants", nil, header("bearer  "+adminToken)); a.code != 200 {
		t.Errorf("a scheme in lower case answered %d %s", a.code, a.body)
	}
	if strings.Contains(h.log.String(), adminToken) || strings.Contains(h.log.String(), nodeToken) {
		t.Error("the log shows a token")
	}
}

func TestReady(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Ready = func(context.Context) error { return errors.New(canary) }
	})
	a := h.do("GET", "/api/v1/ready", nil)
	h.refused(a, 503, ares.Unavailable, "not ready")
	if strings.Contains(a.body, canary) || a.header.Get("Retry-After") != "1" {
		t.Errorf("ready answered %s with Retry-After %s", a.body, a.header.Get("Retry-After"))
	}
}

func TestHostAndOrigin(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Hosts = []string{"ares.example.com", "127.0.0.1", "localhost"} })
	own := strings.TrimPrefix(h.server.URL, "http://")
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "127.0.0.1:1": 200, "127.9.9.9": 200, "[::1]:80": 200, "LOCALHOST.": 200,
		"ares.example.com": 200, "Ares.Example.Com:443": 200, "evil.example": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "127.0.0.1.evil.example": 421,
	} {
		a := h.do("GET", "/api/v1/tenants", nil, func(r *http.Request) { r.Host = host })
		if a.code != want {
			t.Errorf("host %s answered %d, want %d", host, a.code, want)
		}
		if want == 421 {
			h.refused(a, 421, ares.Forbidden, "allowed hosts")
		}
	}
	for origin, want := range map[string]int{
		"": 201, "http://" + own: 201, "https://ares.example.com": 201, "null": 403, "http://evil.example": 403, "http://localhost:1": 403, "http://127.0.0.1:1": 403, "::": 403,
	} {
		a := h.do("POST", "/api/v1/jobs", job(), func(r *http.Request) {
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
		})
		if a.code != want {
			t.Errorf("origin %s answered %d %s, want %d", origin, a.code, a.body, want)
		}
	}
	a := h.do("POST", "/api/v1/jobs", job(), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	h.refused(a, 403, ares.Forbidden)
	a = h.do("GET", "/api/v1/jobs", nil, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") })
	h.refused(a, 403, ares.Forbidden, "evil.example")
	if a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("another page may read an answer")
	}
	if a = h.do("GET", "/api/v1/jobs", nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); a.code != 200 {
		t.Errorf("who came by a link is answered %d", a.code)
	}
}

// TestGRPC checks that gRPC rejects the same calls as REST, and enforces the
// message limits.
func TestGRPC(t *testing.T) {
	h := newHouse(t)
	conn := h.dial()
	jobs := apipb.NewJobServiceClient(conn)
	ctx := as(t.Context(), adminToken)
	got, err := jobs.SubmitJob(ctx, &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Command: []string{"true"}, RequestId: "r"}})
	must(t, err)
	read, err := jobs.GetJob(ctx, &apipb.GetJobRequest{JobId: got.GetJobId()})
	must(t, err)
	if read.GetJob().GetState() != "pending" || read.GetJob().GetSpec().GetRequestId() != "r" {
		t.Errorf("read %v", read)
	}
	for code, req := range map[ares.Code]*apipb.SubmitJobRequest{
		ares.Invalid:  {},
		ares.TooLarge: {Job: &apipb.JobSpec{Command: []string{strings.Repeat("x", 2<<20)}}},
		ares.Conflict: {Job: &apipb.JobSpec{Command: []string{"false"}, RequestId: "r"}},
	} {
		_, err = jobs.SubmitJob(ctx, req)
		if ares.CodeOf(apipb.FromStatus(err)) != code {
			t.Errorf("answered %v, want %s", err, code)
		}
	}
	stream, err := jobs.StreamLogs(ctx, &apipb.StreamLogsRequest{JobId: got.GetJobId(), Rank: -1})
	must(t, err)
	if _, err = stream.Recv(); ares.CodeOf(apipb.FromStatus(err)) != ares.Invalid {
		t.Errorf("a bad request of a stream answered %v", err)
	}
	h.seen()
	events, err := apipb.NewClusterServiceClient(conn).WatchEvents(ctx, &apipb.WatchEventsRequest{Revision: "3", JobId: got.GetJobId()})
	must(t, err)
	e, err := events.Recv()
	if err != nil || e.GetJobId() != got.GetJobId() || e.GetState() != "pending" || e.GetRevision() == "" {
		t.Errorf("the first event is %v, %v", e, err)
	}
	h.Close(t.Context())
	if _, err = events.Recv(); ares.CodeOf(apipb.FromStatus(err)) != ares.Unavailable || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("a closed stream ended with %v", err)
	}
}

// TestPanic checks that a panic is logged and answered without internal details.
func TestPanic(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Engine = &fakeEngine{before: func() { panic(canary) }}
	})
	a := h.do("GET", "/api/v1/jobs/"+h.submit(), nil)
	h.refused(a, 500, ares.Internal)
	if strings.Contains(a.body, canary) || !strings.Contains(h.log.String(), canary) {
		t.Errorf("answered %s and logged %s", a.body, h.log)
	}
	if h.observed["ares.v1.JobService/GetJob"] != ares.Internal {
		t.Errorf("observed %v", h.observed)
	}
}

// TestEveryRouteIsGuarded checks that only the public REST routes answer without
// a token.
func TestEveryRouteIsGuarded(t *testing.T) {
	h := newHouse(t)
	all := allRoutes()
	if len(all) < 33 {
		t.Fatalf("only %d routes were found: %v", len(all), all)
	}
	for _, r := range all {
		path := strings.NewReplacer("{job_id}", "job-aaaaaaaaaaaaaaaaaaaaaaaa", "{tenant_id}", "default", "{node_id}", "n1", "{name}", "default", "{id}", "abc", "{policy.name}", "abc").Replace(r.Path)
		if strings.Contains(path, "{") || r.HTTPMethod == "" {
			t.Fatalf("cannot ask for %+v", r)
		}
		a := h.do(r.HTTPMethod, path, nil, func(r *http.Request) { r.Header.Del("Authorization") })
		if open := method.IsPublicPath(path); open != (a.code == 200) || !open && a.code != 401 {
			t.Errorf("%s %s answered anybody %d %s", r.HTTPMethod, r.Path, a.code, a.body)
		}
	}
}
