package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/api/pipeline"
)

// TestStrangersGoFirst fills an address with connections of clients that never authenticate. A client of the same address that
// has authenticated keeps its connection, although it has no call.
func TestStrangersGoFirst(t *testing.T) {
	c := newCrowd(t, 32, 0)
	friend, other := c.connect("127.0.0.1"), c.connect("10.0.0.1")
	friend.Authenticated()
	end, _ := c.begin(other)
	end()
	for i := range 500 {
		c.connect("127.0.0.1")
		c.connect(fmt.Sprintf("10.7.%d.%d", i/250, i%250))
		c.check(32)
	}
	if isClosed(friend) || isClosed(other) {
		t.Error("clients without a token closed a connection of a client with one")
	}
	// Clients with a token compete among themselves.
	for range 100 {
		if n := c.connect("127.0.0.1"); n == nil || n.Authenticated() {
			t.Fatal("a client with a token was refused")
		}
		c.check(32)
	}
	if !isClosed(friend) {
		t.Error("the oldest connection without a call was not closed")
	}
}

// TestNoFileLeft checks that a listener without file descriptors closes a silent connection, so that the next Accept succeeds.
func TestNoFileLeft(t *testing.T) {
	c := newCrowd(t, 32, 0)
	busy, silent := c.connect("10.0.0.1"), c.connect("10.0.0.2")
	end, _ := c.begin(busy)
	defer end()
	c.Listener = failingListener{c.in, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}}
	for range 2 { // the second time there is none
		if _, err := c.Accept(); !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("accept: %v", err)
		}
	}
	if !isClosed(silent) || isClosed(busy) || c.refused != 1 {
		t.Errorf("the silent connection is closed: %v, the one with a call: %v", isClosed(silent), isClosed(busy))
	}
	c.check(32)
}

type failingListener struct {
	net.Listener
	err error
}

func (l failingListener) Accept() (net.Conn, error) { return nil, l.err }

// TestConnectionsFitOpenFiles checks that connections leave file descriptors for the rest of the server.
func TestConnectionsFitOpenFiles(t *testing.T) {
	for files, want := range map[int][2]int{1 << 20: {4096, 16384}, 4096: {704, 2816}, 1024: {89, 358}, 100: {16, 16}} {
		l := defaultLimits()
		l.HTTPConnections, l.GRPCConnections = 4096, 16384
		changed := l.fitFiles(files)
		if got := [2]int{l.HTTPConnections, l.GRPCConnections}; got != want || changed != (got != [2]int{4096, 16384}) {
			t.Errorf("with %d files: %v, changed %v, want %v", files, got, changed, want)
		}
		if sum := l.HTTPConnections + l.GRPCConnections; files > ownFiles+200 && sum > files-ownFiles {
			t.Errorf("with %d files there may be %d connections", files, sum)
		}
	}
}

// TestUnreadAnswersEnd checks that a client which does not read its answers loses its connection, and that a client which
// reads keeps it.
func TestUnreadAnswersEnd(t *testing.T) {
	calls, err := pipeline.New(pipeline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	calls.SlowAfter, calls.WriteWait = 10*time.Millisecond, 300*time.Millisecond
	watch := func(stop func(error)) *pipeline.Transfer {
		return calls.WatchTransfer(pipeline.Account{Name: "admin"}, calls.WriteWait, stop)
	}
	c := newCrowd(t, 32, 0)
	deaf, slow, quiet := c.connect("10.0.0.1"), c.connect("10.0.0.2"), c.connect("10.0.0.3")
	deaf.Sending(1<<20, watch)
	slow.Sending(1<<20, watch)
	quiet.Sending(100, watch) // too few bytes for a limit
	open := func(n *connection) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !n.closed
	}
	for deadline := time.Now().Add(20 * time.Second); open(deaf); { // the slow client reads, and asks for more
		if time.Now().After(deadline) {
			t.Fatal("the client that reads nothing keeps its connection")
		}
		_, _ = slow.Write(make([]byte, 256<<10)) // a fake connection accepts everything
		slow.Sending(256<<10, watch)
		<-time.After(10 * time.Millisecond)
	}
	if !open(slow) || !open(quiet) {
		t.Errorf("a client that reads lost its connection: slow %v, quiet %v", !open(slow), !open(quiet))
	}
	_ = slow.Close()
	for { // the slots are given back
		if n, _ := calls.Limiters.Slow.UnderWay(); n == 0 {
			return
		}
		runtime.Gosched()
	}
}

// slowRequest sends the headers of a request, and nothing of its body.
func slowRequest(t *testing.T, at, token string) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if token != "" {
		token = "Authorization: Bearer " + token + "\r\n"
	}
	_, _ = io.WriteString(c, "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"+token+"\r\n")
}

// TestSlowRequestsCloseNoPort sends many requests whose bodies never come, with and without a token. Health checks and calls of
// others must still be answered, although all clients have the same address.
func TestSlowRequestsCloseNoPort(t *testing.T) {
	s := startLimited(t, func(l *LimitsConfig) { l.HTTPConnections = 64 })
	data, err := os.ReadFile(s.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(data))
	for _, one := range []string{"", "ares_unknown", token} {
		for range 150 {
			slowRequest(t, s.Endpoints.HTTP, one)
		}
		for range 3 { // while the server reads the headers, and after that
			for _, path := range []string{"/health", "/api/v1/jobs"} {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Endpoints.HTTP)
				if err != nil {
					t.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(5 * time.Second))
				_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatalf("with slow requests of token %.8q, %s is not answered: %v", one, path, err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("with slow requests of token %.8q, %s is answered %d", one, path, resp.StatusCode)
				}
				_ = c.Close()
			}
		}
	}
}

// TestHandshakesCloseNoPort opens connections to TLS listeners that never finish the handshake, or speak another protocol.
func TestHandshakesCloseNoPort(t *testing.T) {
	cfg := Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "0.0.0.0:0", "0.0.0.0:0", "0.0.0.0:0"
	cfg.AdvertiseAddr = "localhost:7700"
	cfg.Limits.HTTPConnections, cfg.Limits.GRPCConnections = 64, 64
	s, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	send := func(at, text string) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, text)
		return c
	}
	half := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" // the beginning of a ClientHello
	plain := "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	trusted := &tls.Config{RootCAs: s.trust.Authority.Pool(), ServerName: "localhost"}
	for _, at := range []string{Local(s.Endpoints.HTTP), Local(s.Endpoints.GRPC), Local(s.Endpoints.Metrics)} {
		for range 200 {
			send(at, half)
		}
		c := send(at, plain)
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if answer, _ := io.ReadAll(c); strings.Contains(string(answer), "200 OK") {
			t.Errorf("%s answers without TLS: %s", at, answer)
		}
		foreign := trusted.Clone()
		foreign.NextProtos = []string{"smtp"}
		if c, err := (&tls.Dialer{Config: foreign}).DialContext(t.Context(), "tcp", at); err == nil {
			t.Errorf("%s accepts the protocol %q", at, c.(*tls.Conn).ConnectionState().NegotiatedProtocol)
			_ = c.Close()
		}
		good := trusted.Clone()
		good.NextProtos = []string{"h2"}
		c, err := (&tls.Dialer{Config: good}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Errorf("%s: a client cannot connect: %v", at, err)
			continue
		}
		_ = c.Close()
	}
}

// TestMetricsCheckTheHost asks for the metrics as a web page would whose own name resolves to the loopback address.
func TestMetricsCheckTheHost(t *testing.T) {
	s := startLimited(t, func(*LimitsConfig) {})
	for host, want := range map[string]int{"localhost": 200, s.Endpoints.Metrics: 200, "rebound.example": 421, "127.0.0.1.rebound.example:9090": 421} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Endpoints.Metrics+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with the Host %s, the metrics are answered %d", host, resp.StatusCode)
		}
	}
}
