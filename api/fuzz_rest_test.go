package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
)

// FuzzREST sends whole requests to the REST handler of a test server. No request
// may cause a panic or an internal error. Every rejection must have a code and a
// text, and a caller without a token must learn nothing.
func FuzzREST(f *testing.F) {
	h := newHouse(f)
	id := h.submit("request_id", "seed")
	const as = " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + adminToken + "\r\n"
	for _, m := range method.All() {
		for _, r := range m.Routes {
			f.Add([]byte(r.HTTPMethod + " " + strings.NewReplacer("{job_id}", id, "{id}", "default", "{node_id}", "n").Replace(r.Path) + as + "\r\n"))
		}
	}
	for _, target := range []string{
		"/api/v1/jobs?state=running,pending&page_size=1", "/api/v1/jobs?page_token=MTIvam9i&min_revision=99999", "/api/v1/jobs?page_size=99999999999&%ff=1&x", "/api/v1/jobs/%2e%2e%2f",
		"/api/v1/jobs/" + id + "/logs?rank=-1&attempt=x&follow", "/api/v1/events?revision=-1", "/api/v1/events?job_id=x&tenant_id=%00", "/api/v1/debug/store?prefix=tokens/&watch=1", "//", "*", "http://evil/",
	} {
		f.Add([]byte("GET " + target + as + "Last-Event-ID: 3\r\n\r\n"))
	}
	for _, post := range []string{"/api/v1/jobs", "/api/v1/jobs:batch", "/api/v1/tenants", "/api/v1/jobs/" + id + ":cancel"} {
		for _, body := range []string{"", `{`, `{"command":["x"],"request_id":"a"}`, `{"jobs":[{"command":["x"]},{}]}`, `{"id":"t","name":"t","max_gpus":1}`} {
			f.Add([]byte("POST " + post + as + "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body))
		}
	}
	f.Add([]byte("GET /api/v1/jobs HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer x\r\n\r\n"))
	f.Add([]byte("POST /api/v1/jobs HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nOrigin: null\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil || pipeline.IsWebSocket(r) {
			return
		}
		// A streaming or waiting call ends without an answer when its caller gives
		// up.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		if serve(t, h.HTTP(), w, r.WithContext(ctx)); ctx.Err() != nil {
			return
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Fatalf("no headers of safety: %v", w.Header())
		}
		known := rest.Token(r) == adminToken && h.Known(rest.Hostname(r.Host))
		if w.Code < 400 && !known && !method.IsPublicPath(r.URL.Path) {
			t.Fatalf("%s was let in", raw)
		}
		if w.Code < 400 || r.Method == http.MethodHead {
			return
		}
		var said struct {
			Error   string
			Code    ares.Code
			Details []any
		}
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Error == "" || said.Code == "" || said.Details == nil || !utf8.ValidString(said.Error) {
			t.Fatalf("refused with %d %q: %v", w.Code, w.Body, err)
		}
		if w.Code == http.StatusInternalServerError || said.Code == ares.Internal {
			t.Fatalf("a fault of our own: %s\n%s", w.Body, h.log)
		}
	})
}

// The function `serve` calls the handler and ignores the panic http.ErrAbortHandler. With this panic, a
// handler tells a real server to abort the connection.
func serve(t *testing.T, door http.Handler, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
		}
	}()
	door.ServeHTTP(w, r)
}

// FuzzQuery fuzzes the parsers of queries, tokens and headers separately.
func FuzzQuery(f *testing.F) {
	id := ares.NewJobID("a", "b")
	place := service.PageToken(&cache.Entry{Job: &ares.Job{ID: id, Revision: 12}})
	for _, s := range []string{
		"", "state=running&state=a,b", "page_size=-1&page_token=" + place, "page_size=1&page_size=2", "watch&prefix=%ff", "a=%zz", "&&=;", "rank=+1", "follow=TRUE", "name=%00",
		place, "bearer x", "Bearer  a b ", "BEARER\tx", "ares.v1, ares.bearer.abc", "Localhost.:80", "[::1]:1", "[[]]", "http://localhost:80", "null", "0012", "+5", "9223372036854775808", "…",
	} {
		f.Add(s, s)
	}
	many := url.Values{}
	for i := range 2000 {
		many.Add("p"+strconv.Itoa(i), "")
	}
	f.Add(many.Encode(), "")
	d := &rest.Handler{Hosts: map[string]bool{"ares.example": true}}
	f.Fuzz(func(t *testing.T, s, other string) {
		for _, m := range []proto.Message{
			&apipb.ListJobsRequest{}, &apipb.StreamLogsRequest{}, &apipb.WatchEventsRequest{}, &apipb.DumpStoreRequest{}, &apipb.JobSpec{}, &apipb.Tenant{},
		} {
			err := rest.ReadQuery(m, s)
			if err != nil && (ares.CodeOf(err) != ares.Invalid || strings.TrimSpace(err.Error()) == "") {
				t.Fatalf("%q is refused with %v", s, err)
			}
			if _, bad := proto.Marshal(m); bad != nil {
				t.Fatalf("%q is read as what cannot be sent: %v", s, bad)
			}
			if _, body, _ := pipeline.ErrorAnswer(err); err != nil && (!json.Valid(body) || len(body) > 32<<10) {
				t.Fatalf("%q is refused with %d bytes: %s", s, len(body), body)
			}
		}
		list := &apipb.ListJobsRequest{State: []string{s}, PageToken: other}
		if filter, err := service.FilterOf(list); err == nil {
			if other != "" && (filter.Before < 1 || !ares.ValidJobID(string(filter.After))) {
				t.Fatalf("%q is read as the place after %d %q", other, filter.Before, filter.After)
			}
		} else if ares.CodeOf(err) != ares.Invalid {
			t.Fatalf("%v is refused with %v", list, err)
		}
		if rev, name, ok := service.ReadPageToken(s); ok {
			again := service.PageToken(&cache.Entry{Job: &ares.Job{ID: name, Revision: rev}})
			if r, n, ok := service.ReadPageToken(again); !ok || r != rev || n != name {
				t.Fatalf("%q, written again, is read as %d %q", s, r, n)
			}
		}
		if rev, err := service.RevisionOf("revision", s); rev < 0 || err != nil && ares.CodeOf(err) != ares.Invalid {
			t.Fatalf("%q is revision %d, %v", s, rev, err)
		}
		headers(t, d, s, other)
	})
}

// The function `headers` checks the invariants of the values parsed from a request's headers.
func headers(t *testing.T, d *rest.Handler, s, other string) {
	t.Helper()
	if got := pipeline.BearerOf([]string{s}); got != strings.TrimSpace(got) || !strings.Contains(s, got) || pipeline.BearerOf([]string{s, other}) != "" {
		t.Fatalf("%q is token %q", s, got)
	}
	if other != "" && strings.TrimSpace(other) == other {
		if got := pipeline.BearerOf([]string{"Bearer " + other}); got != other {
			t.Fatalf("token %q is read as %q", other, got)
		}
	}
	if host := rest.Hostname(s); d.Known(host) && host != "ares.example" && host != "localhost" && !strings.HasPrefix(host, "127.") && !strings.Contains(host, "1") {
		t.Fatalf("%q is taken for this machine", s)
	}
	r := &http.Request{
		Method: http.MethodPost, ProtoMajor: 1, Host: "ares.example", URL: &url.URL{Path: "/"},
		Header: http.Header{"Origin": {s}, "Sec-Websocket-Protocol": {other}, "Upgrade": {"websocket"}},
	}
	if s != "" && d.CheckOrigin(r) == nil {
		if u, err := url.Parse(s); err != nil || !strings.EqualFold(u.Hostname(), "ares.example") && rest.Hostname(u.Host) != "ares.example" {
			t.Fatalf("a page of %q may post", s)
		}
	}
	if got := rest.Token(r); got != "" && !strings.Contains(other, rest.BearerProtocol+got) {
		t.Fatalf("%q holds no token %q", other, got)
	}
	if why := rest.CloseReason(s); len(why) > 123 || !utf8.ValidString(why) {
		t.Fatalf("%q does not fit into a close frame", why)
	}
}
