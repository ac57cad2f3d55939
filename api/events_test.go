package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// The type `sse` is one server-sent event.
type sse struct {
	id, event string
	data      map[string]any
	comment   bool
}

// The method `follow` opens /api/v1/events and returns a function that reads the next event.
func (h *house) follow(query string, change ...func(*http.Request)) (next func() (sse, bool), stop func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	h.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", h.server.URL+"/api/v1/events"+query, nil)
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	for _, c := range change {
		c(req)
	}
	resp, err := h.server.Client().Do(req)
	must(h.t, err)
	h.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		h.t.Fatalf("events answered %d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() (sse, bool) {
		var e sse
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case lines.Text() == "":
				return e, true
			case key == "":
				e.comment = true
			case key == "id":
				e.id = value
			case key == "event":
				e.event = value
			case key == "data":
				must(h.t, json.Unmarshal([]byte(value), &e.data))
			}
		}
		return e, false
	}, cancel
}

func TestSSE(t *testing.T) {
	h := newHouse(t)
	next, stop := h.follow("")
	begin, _ := next()
	if begin.id == "" {
		t.Fatalf("the stream begins with %+v", begin)
	}
	id := h.submit("name", "one")
	one, _ := next()
	if one.event != "job" || one.data["job_id"] != id || one.data["state"] != "pending" || one.data["revision"] != one.id || one.data["attempt"] != 0.0 {
		t.Fatalf("the first event is %+v", one)
	}
	stop()
	h.do("DELETE", "/api/v1/jobs/"+id, nil)
	other := h.submit("name", "two")
	// A client that is disconnected after the first event must get all later
	// events, whichever way it resumes the stream.
	resume := func(r *http.Request) { r.Header.Set("Last-Event-ID", one.id) }
	for _, again := range []func() (func() (sse, bool), func()){
		func() (func() (sse, bool), func()) { return h.follow("", resume) },
		func() (func() (sse, bool), func()) { return h.follow("?revision=" + one.id) },
		func() (func() (sse, bool), func()) { return h.follow("?revision=1", resume) },
	} {
		next, _ = again()
		_, _ = next()
		a, _ := next()
		b, _ := next()
		if a.data["job_id"] != id || a.data["state"] != "cancelled" || b.data["job_id"] != other {
			t.Errorf("resumed with %+v and %+v", a, b)
		}
	}
	next, _ = h.follow("?revision=" + begin.id + "&job_id=" + other)
	_, _ = next()
	if e, _ := next(); e.data["job_id"] != other {
		t.Errorf("the filter let %+v through", e)
	}
	h.refused(h.do("GET", "/api/v1/events?revision=x", nil), 400, ares.Invalid, "revision")
	h.refused(h.do("GET", "/api/v1/events?since=1", nil), 400, ares.Invalid, "since")
	h.refused(h.do("GET", "/api/v1/events?job_id=x", nil), 404, ares.NotFound)
	h.refused(h.do("GET", "/api/v1/events?revision=0", nil), 404, ares.NotFound, "no longer available", "list the jobs")
}

// TestSSEWholeRevision checks that a stream can be resumed only after the last event of a
// revision. The client then misses no event.
func TestSSEWholeRevision(t *testing.T) {
	h := newHouse(t)
	next, _ := h.follow("")
	_, _ = next()
	h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{job(), job(), job()}})
	for i := range 3 {
		e, _ := next()
		if (e.id != "") != (i == 2) || e.data["kind"] != "job" {
			t.Errorf("event %d is %+v", i, e)
		}
	}
}

// TestSSEEnds checks that a stream sends heartbeats, and that it ends with an
// error when the caller's token is no longer valid.
func TestSSEEnds(t *testing.T) {
	h := newHouse(t)
	h.Heartbeat, h.Recheck = time.Millisecond, 5*time.Millisecond
	next, _ := h.follow("")
	_, _ = next()
	if e, _ := next(); !e.comment || e.id == "" || e.data != nil {
		t.Errorf("a heartbeat is %+v", e)
	}
	must(t, h.store.PutToken(t.Context(), store.Token{Name: "admin", Hash: auth.HashToken("another"), Role: auth.RoleAdmin}))
	h.cfg.Auth.Changed()
	last := sse{}
	for e, ok := next(); ok; e, ok = next() {
		last = e
	}
	if last.event != "error" || last.data["code"] != "unauthenticated" {
		t.Errorf("a stream whose token ended said at last %+v", last)
	}
}

func TestClose(t *testing.T) {
	h := newHouse(t)
	next, _ := h.follow("")
	_, _ = next()
	conn := h.socket(http.Header{"Authorization": {"Bearer " + adminToken}})
	h.Limiters.Events.Limit = 2
	h.refused(h.do("GET", "/api/v1/events", nil), 429, ares.Exhausted, "event streams")
	h.Close(t.Context())
	e, _ := next()
	if e.event != "error" || e.data["code"] != "unavailable" || !strings.Contains(e.data["error"].(string), "stopping") {
		t.Errorf("a closed stream said at last %+v", e)
	}
	if _, ok := next(); ok {
		t.Error("a closed stream goes on")
	}
	_, data, err := conn.Read(t.Context())
	if err != nil || !strings.Contains(string(data), "stopping") {
		t.Errorf("a closed socket said at last %s, %v", data, err)
	}
	if _, _, err = conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("a closed socket ended with %v", err)
	}
	h.refused(h.do("GET", "/api/v1/events", nil), 503, ares.Unavailable)
}

// The method `socket` opens a WebSocket.
func (h *house) socket(header http.Header, protocols ...string) *websocket.Conn {
	h.t.Helper()
	conn, _, err := h.trySocket("", header, protocols...)
	must(h.t, err)
	return conn
}

func (h *house) trySocket(query string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	conn, resp, err := websocket.Dial(h.t.Context(), "ws"+strings.TrimPrefix(h.server.URL, "http")+"/api/v1/events"+query,
		&websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if err == nil {
		h.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

func TestWebSocket(t *testing.T) {
	h := newHouse(t)
	h.Heartbeat = time.Millisecond // so that pings come between the messages
	token := rest.BearerProtocol + adminToken
	byHeader := h.socket(http.Header{"Authorization": {"Bearer " + adminToken}})
	both := h.socket(nil, rest.SocketProtocol, token)
	alone := h.socket(http.Header{"Origin": {h.server.URL}}, token)
	if both.Subprotocol() != rest.SocketProtocol || alone.Subprotocol() != token {
		t.Errorf("chose the protocols %q and %q", both.Subprotocol(), alone.Subprotocol())
	}
	id := h.submit("name", "one")
	revision := ""
	for _, c := range []*websocket.Conn{byHeader, both, alone} {
		_, data, err := c.Read(t.Context())
		must(t, err)
		var e map[string]any
		must(t, json.Unmarshal(data, &e))
		if e["job_id"] != id || e["kind"] != "job" || e["state"] != "pending" {
			t.Errorf("a socket said %s", data)
		}
		revision = e["revision"].(string)
	}
	h.do("DELETE", "/api/v1/jobs/"+id, nil)
	resumed, _, err := h.trySocket("?revision="+revision, http.Header{"Authorization": {"Bearer " + adminToken}})
	must(t, err)
	if _, data, readErr := resumed.Read(t.Context()); readErr != nil || !strings.Contains(string(data), "cancelled") {
		t.Errorf("a resumed socket said %s, %v", data, readErr)
	}
	for want, c := range map[int]struct {
		query    string
		header   http.Header
		protocol string
	}{
		401: {"", nil, ""},
		403: {"", http.Header{"Origin": {"http://evil.example"}}, token},
		400: {"?revision=x", nil, token},
		404: {"?revision=0", nil, token},
	} {
		protocols := []string{}
		if c.protocol != "" {
			protocols = append(protocols, c.protocol)
		}
		if _, resp, dialErr := h.trySocket(c.query, c.header, protocols...); dialErr == nil || resp == nil || resp.StatusCode != want {
			t.Errorf("a socket that must not be: %v, %v, want %d", resp, dialErr, want)
		}
	}
	must(t, both.Close(websocket.StatusNormalClosure, ""))
	must(t, byHeader.Write(t.Context(), websocket.MessageText, []byte("hello"))) // the server expects no messages from the client
	for err == nil {
		_, _, err = byHeader.Read(t.Context())
	}
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a socket that was spoken to ended with %v", err)
	}
}

// The type `stuck` is an event reader that blocks until the test releases it.
type stuck struct {
	entered, resume chan struct{}
	sent            int
}

func (s *stuck) Begin(int64) error { return nil }
func (s *stuck) Beat(int64) error  { return nil }

func (s *stuck) Send(*apipb.WatchEventsResponse, bool) error {
	if s.sent++; s.sent == 1 {
		close(s.entered)
		<-s.resume
	}
	return nil
}

// TestSlowReader checks that the server buffers nothing for a slow reader. If a
// reader needs events that the server no longer retains, it gets an error that
// says so.
func TestSlowReader(t *testing.T) {
	view := cache.NewView(time.Now)
	view.Apply(ares.Batch{Revision: 10, Reset: true})
	d := service.New(nil, &service.Config{View: view})
	r := &stuck{entered: make(chan struct{}), resume: make(chan struct{})}
	ended := make(chan error)
	who, err := auth.NewCaller(t.Context(), func(context.Context) (ares.Identity, error) {
		return ares.Identity{Bindings: []ares.Binding{{Role: ares.Viewer}}}, nil
	})
	must(t, err)
	go func() {
		ended <- d.Watch(pipeline.WithCaller(t.Context(), who), &apipb.WatchEventsRequest{Revision: "10"}, r)
	}()
	apply := func(rev int64) {
		j := &ares.Job{ID: ares.NewJobID("t", strconv.FormatInt(rev, 10)), Revision: rev}
		view.Apply(ares.Batch{Revision: rev, Events: []ares.Event{{Revision: rev, Job: j}}})
	}
	apply(11)
	<-r.entered
	for rev := range int64(50_000) {
		apply(12 + rev)
	}
	close(r.resume)
	if err := <-ended; ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "were dropped before the client read them") {
		t.Errorf("a slow reader was told %v after %d events", err, r.sent)
	}
}
