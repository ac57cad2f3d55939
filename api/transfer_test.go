package api

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// rawGRPC is a gRPC client that sends frames which no gRPC library would send.
type rawGRPC struct {
	t      *testing.T
	conn   net.Conn
	frames *http2.Framer
	next   uint32
	head   bytes.Buffer
	enc    *hpack.Encoder
	quiet  bool // the server may close the connection at any time
}

// The function `serveRaw` starts a gRPC server and returns its address.
func serveRaw(h *house, opts ...grpc.ServerOption) string {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(h.t, err)
	s := h.GRPC(opts...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // returns after Stop
	}()
	h.t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

func dialRaw(t *testing.T, at string, settings ...http2.Setting) *rawGRPC {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	must(t, err)
	c := &rawGRPC{t: t, conn: conn, frames: http2.NewFramer(conn, bufio.NewReader(conn)), next: 1}
	c.enc = hpack.NewEncoder(&c.head)
	c.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	must(t, c.frames.WriteSettings(settings...))
	return c
}

// The method `open` begins a call. It sends the headers, and no message.
func (c *rawGRPC) open(method, token string, more ...string) uint32 {
	c.t.Helper()
	c.head.Reset()
	fields := []string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost", "content-type", "application/grpc", "te", "trailers"}
	if token != "" {
		fields = append(fields, "authorization", "Bearer "+token)
	}
	for pair := range slices.Chunk(append(fields, more...), 2) {
		must(c.t, c.enc.WriteField(hpack.HeaderField{Name: pair[0], Value: pair[1]}))
	}
	id := c.next
	c.next += 2
	if err := c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.head.Bytes(), EndHeaders: true}); err != nil && !c.quiet {
		c.t.Fatal(err)
	}
	return id
}

// The method `announce` sends the header of a message, and none of its bytes.
func (c *rawGRPC) announce(id uint32, size int, end bool) {
	c.t.Helper()
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	must(c.t, c.frames.WriteData(id, end, head))
}

// The method `status` waits for the status of a call. It returns "" if none comes in time.
func (c *rawGRPC) status(id uint32, within time.Duration) (code, text string) {
	c.t.Helper()
	must(c.t, c.conn.SetReadDeadline(time.Now().Add(within)))
	for {
		f, err := c.frames.ReadFrame()
		if err != nil {
			return "", err.Error()
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID != id {
				continue
			}
			for _, h := range f.Fields {
				switch h.Name {
				case "grpc-status":
					code = h.Value
				case "grpc-message":
					text = h.Value
				}
			}
			if code != "" {
				return code, text
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				must(c.t, c.frames.WritePing(true, f.Data))
			}
		}
	}
}

// TestAStrangerIsRejectedBeforeItsMessage opens gRPC calls without a valid token and sends no message. The server must reject
// the calls at once, because it must not hold messages of unknown clients.
func TestAStrangerIsRejectedBeforeItsMessage(t *testing.T) {
	entries := newLedger()
	h := newHouse(t, func(c *Config) { c.Audit = entries })
	at := serveRaw(h)
	for name, token := range map[string]string{"no token": "", "an unknown token": "ares_unknown"} {
		c := dialRaw(t, at)
		id := c.open(apipb.JobService_SubmitJob_FullMethodName, token)
		if code, text := c.status(id, 10*time.Second); code != "16" || !strings.Contains(text, "token") {
			t.Fatalf("%s: the answer is %q %q", name, code, text)
		}
		id = c.open(apipb.JobService_SubmitJob_FullMethodName, token)
		c.announce(id, 4<<20, false)
		if code, _ := c.status(id, 20*time.Second); code != "16" {
			t.Errorf("%s with the header of a message: the answer is %q", name, code)
		}
	}
	refused := entries.take()
	if len(refused) != 4 || refused[0].Action == "" || refused[0].Code != string(ares.Unauthentic) {
		t.Errorf("the audit log has %v", refused)
	}
}

// TestAnUnfinishedMessageEnds announces a message of 4 MB and sends nothing. The call must end in time, and the connection must
// serve further calls.
func TestAnUnfinishedMessageEnds(t *testing.T) {
	h := newHouse(t)
	h.pipeline.SlowAfter, h.pipeline.ReceiveWait = 10*time.Millisecond, 50*time.Millisecond
	at := serveRaw(h)
	for _, method := range []string{apipb.JobService_SubmitJob_FullMethodName, apipb.ClusterService_WatchEvents_FullMethodName, apipb.ClusterService_GetHealth_FullMethodName} {
		c := dialRaw(t, at)
		id := c.open(method, adminToken)
		c.announce(id, 4<<20, false)
		if code, text := c.status(id, 20*time.Second); code != "8" || !strings.Contains(text, "transferred within") {
			t.Fatalf("%s: the answer is %q %q", method, code, text)
		}
		id = c.open(apipb.ClusterService_GetHealth_FullMethodName, "")
		c.announce(id, 0, true)
		if code, text := c.status(id, 20*time.Second); code != "0" {
			t.Errorf("a health check after that: %q %q", code, text)
		}
	}
	until(func() bool { return has(h.pipeline.Limiters.Slow, 0, 0) })
}

// TestSlowMessagesAreFew opens more calls with unfinished messages than one caller may have. The rest must be rejected soon, and
// others must not be affected.
func TestSlowMessagesAreFew(t *testing.T) {
	h := newHouse(t)
	h.pipeline.SlowAfter, h.pipeline.ReceiveWait = 10*time.Millisecond, time.Minute
	slow := h.pipeline.Limiters.Slow
	slow.Limit, slow.Share, slow.TenantShare, slow.Kept = 4, 2, 2, 1
	c := dialRaw(t, serveRaw(h))
	for range slow.Share {
		c.announce(c.open(apipb.JobService_SubmitJob_FullMethodName, adminToken), 4<<20, false)
	}
	until(func() bool { return has(slow, 2, 0) })
	id := c.open(apipb.JobService_SubmitJob_FullMethodName, adminToken)
	c.announce(id, 4<<20, false)
	if code, text := c.status(id, 20*time.Second); code != "8" || !strings.Contains(text, "longer than a second") {
		t.Errorf("the third is answered %q %q", code, text)
	}
	if _, err := apipb.NewJobServiceClient(h.dial()).ListJobs(as(t.Context(), adminToken), &apipb.ListJobsRequest{}); err != nil {
		t.Errorf("another call: %v", err)
	}
	_ = c.conn.Close()
	until(func() bool { return has(slow, 0, 0) })
}

// TestAGrowingWindow sends a large message quickly. The server must not enlarge the windows of all streams because of that: a
// client could make it buffer 16 MiB of each.
func TestAGrowingWindow(t *testing.T) {
	h := newHouse(t)
	c := dialRaw(t, serveRaw(h))
	id := c.open(apipb.JobService_SubmitJob_FullMethodName, adminToken)
	c.announce(id, 15<<20, false)
	var acks sync.Mutex // for writing frames
	var sent atomic.Bool
	go func() {
		defer sent.Store(true)
		for range 200 {
			acks.Lock()
			err := c.frames.WriteData(id, false, make([]byte, 16<<10))
			acks.Unlock()
			if err != nil {
				return
			}
		}
	}()
	for !sent.Load() || c.conn.SetReadDeadline(time.Now().Add(200*time.Millisecond)) == nil {
		f, err := c.frames.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.PingFrame:
			acks.Lock()
			must(t, c.frames.WritePing(true, f.Data))
			acks.Unlock()
		case *http2.SettingsFrame:
			if v, has := f.Value(http2.SettingInitialWindowSize); has && v > 64<<10 {
				t.Fatalf("the window of each stream grew to %d", v)
			}
		}
	}
}

// slowPost sends the headers of a POST request and a part of its body.
func slowPost(t *testing.T, at, token string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	head := "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	_, err = io.WriteString(c, head+"\r\n{")
	must(t, err)
	return c
}

func answerOf(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // the connection may close before
	return resp.StatusCode, string(text)
}

// TestASlowBodyEnds sends a body of which the rest never comes.
func TestASlowBodyEnds(t *testing.T) {
	h := newHouse(t)
	h.pipeline.SlowAfter, h.pipeline.ReceiveWait = 10*time.Millisecond, 100*time.Millisecond
	at := h.server.Listener.Addr().String()
	begun := time.Now()
	if code, text := answerOf(t, slowPost(t, at, adminToken)); code != http.StatusTooManyRequests || !strings.Contains(text, "transferred within") {
		t.Fatalf("with a token it is answered %d %s", code, text)
	}
	if code, text := answerOf(t, slowPost(t, at, "")); code != http.StatusUnauthorized {
		t.Errorf("without a token it is answered %d %s", code, text)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the answers took %s", took)
	}
	slow := h.pipeline.Limiters.Slow
	until(func() bool { return has(slow, 0, 0) })
	h.pipeline.ReceiveWait = time.Minute
	slow.Limit, slow.Share, slow.Kept = 4, 1, 1
	slowPost(t, at, adminToken)
	until(func() bool { return has(slow, 1, 0) })
	if code, text := answerOf(t, slowPost(t, at, adminToken)); code != http.StatusTooManyRequests || !strings.Contains(text, "longer than a second") {
		t.Errorf("one too many is answered %d %s", code, text)
	}
	if a := h.do("GET", "/api/v1/jobs", nil); a.code != http.StatusOK {
		t.Errorf("another call is answered %d", a.code)
	}
}

// TestStreamsOfOneNode checks that one node cannot use up the streams of agents, and that agents which share the node token are
// not limited by that.
func TestStreamsOfOneNode(t *testing.T) {
	g := pipeline.NewLimiter("agent", "open streams of agents", 8, 0, 0)
	g.Share, g.TenantShare, g.Kept, g.NodeShare = 8, 8, 0, 2
	for i := range 8 {
		_, err := g.Enter(t.Context(), pipeline.Account{Name: "node:n1"})
		if (err == nil) != (i < 2) {
			t.Errorf("one node has stream %d: %v", i, err)
		}
	}
	for range 6 {
		if _, err := g.Enter(t.Context(), pipeline.Account{Name: "node-token"}); err != nil {
			t.Errorf("another agent: %v", err)
		}
	}
}
