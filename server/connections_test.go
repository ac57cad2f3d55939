package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// fakeConn is a connection from an address. It only notes whether it was closed.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return addr(c.from) }

func (c *fakeConn) Write(data []byte) (int, error) { return len(data), nil }

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// fakeListener accepts the connections in a list.
type fakeListener struct {
	net.Listener
	next []*fakeConn
}

var errNoMore = errors.New("no more connections")

func (l *fakeListener) Accept() (net.Conn, error) {
	if len(l.next) == 0 {
		return nil, errNoMore
	}
	c := l.next[0]
	l.next = l.next[1:]
	return c, nil
}

// crowd is a listener with fake clients.
type crowd struct {
	*connections
	t       *testing.T
	in      *fakeListener
	ports   int
	refused int
}

func newCrowd(t *testing.T, limit, perAddress int) *crowd {
	c := &crowd{t: t, in: &fakeListener{}}
	c.connections = newConnections(c.in, limit, perAddress, func() { c.refused++ })
	return c
}

// The method `connect` opens a connection from a host. It returns nil if the connection was refused.
func (c *crowd) connect(host string) *connection {
	c.t.Helper()
	c.ports++
	f := &fakeConn{from: net.JoinHostPort(host, fmt.Sprint(c.ports))}
	c.in.next = append(c.in.next, f)
	got, err := c.Accept()
	if err != nil {
		if !errors.Is(err, errNoMore) || !f.closed {
			c.t.Fatalf("accept: %v, closed %v", err, f.closed)
		}
		return nil
	}
	return got.(*connection)
}

func (c *crowd) check(limit int) {
	c.t.Helper()
	open, waiting, reserved := 0, 0, 0
	for _, a := range c.addresses {
		open, waiting = open+a.open, waiting+a.waiting.strangers.Len()+a.waiting.known.Len()
	}
	for _, n := range c.open {
		if n.reserved {
			reserved++
		}
		if (n.waits == nil) != (n.calls > 0) {
			c.t.Errorf("connection %s has %d calls and waits %v", n.name, n.calls, n.waits != nil)
		}
	}
	if open+reserved != len(c.open) || len(c.open) > limit || waiting > open || reserved != c.reserved || reserved > c.kept || c.count() != len(c.open) {
		c.t.Errorf("%d open, %d counted for addresses, %d wait, %d of %d reserved", len(c.open), open, waiting, reserved, c.reserved)
	}
}

func isClosed(c *connection) bool { return c.Conn.(*fakeConn).closed }

// TestSilenceGivesWay opens many connections from one address without a call. They must not keep other addresses out, nor close the
// connections of others.
func TestSilenceGivesWay(t *testing.T) {
	c := newCrowd(t, 32, 0)
	friend := c.connect("10.0.0.1")
	for range 1000 {
		if c.connect("10.6.6.6") == nil {
			t.Fatal("a silent connection was refused although an older one could be closed")
		}
		c.check(32)
	}
	if isClosed(friend) {
		t.Error("the flood of another address closed a connection")
	}
	if c.addresses[friend.from].open != 1 || len(c.open) != 17 { // one address has at most half
		t.Errorf("%d are open", len(c.open))
	}
	// Many addresses together fill the listener. Then the address with the most silent connections loses one.
	for i := range 200 {
		if c.connect(fmt.Sprintf("10.7.%d.%d", i/250, i%250)) == nil {
			t.Fatalf("address %d was refused", i)
		}
		c.check(32)
	}
	if late := c.connect("10.8.8.8"); late == nil || isClosed(late) {
		t.Error("a new client was refused")
	}
}

// TestBusyConnectionsStay checks that a connection with a call is never closed for another one, and that the last connections serve only
// health checks and agents.
func TestBusyConnectionsStay(t *testing.T) {
	c := newCrowd(t, 32, 0) // 30 and 2 kept
	var busy []*connection
	for i := range 30 {
		n := c.connect(fmt.Sprintf("10.0.0.%d", i))
		end, reserved := c.begin(n)
		if reserved {
			t.Fatalf("connection %d may not be used", i)
		}
		defer end()
		busy = append(busy, n)
	}
	for range 100 {
		n := c.connect("10.6.6.6")
		if n == nil {
			t.Fatal("none is kept for health checks")
		}
		c.check(32)
	}
	for _, n := range busy {
		if isClosed(n) {
			t.Fatal("a connection with a call was closed")
		}
	}
	last := c.connect("10.0.0.200")
	end, reserved := c.begin(last)
	if !reserved {
		t.Error("it may be used for everything")
	}
	_, err := c.call(context.Background(), apipb.JobService_ListJobs_FullMethodName)
	if err != nil {
		t.Errorf("a call inside the process: %v", err)
	}
	other := c.connect("10.0.0.201")
	endOther, _ := c.begin(other)
	if c.connect("10.0.0.202") != nil {
		t.Error("more connections than the limit are open")
	}
	end()
	if again := c.connect("10.0.0.203"); again == nil || !isClosed(last) || !again.reserved {
		t.Error("the slot of a connection whose call has ended was not given out")
	}
	endOther()
	_ = busy[0].Close()
	if n := c.connect("10.0.0.204"); n == nil || n.reserved {
		t.Error("a slot that was given back was not given out")
	}
	_ = busy[0].Close() // again
	c.check(32)
	// A connection of the kept part serves every call when another slot is free.
	_ = busy[1].Close()
	for _, n := range c.open {
		if n.reserved {
			if end, reserved := c.begin(n); reserved {
				t.Error("a kept connection stays one for ever")
			} else {
				end()
			}
			break
		}
	}
	c.check(32)
}

// TestAddressesAreCounted checks what counts as one address.
func TestAddressesAreCounted(t *testing.T) {
	c := newCrowd(t, 100, 2)
	for _, one := range [][]string{
		{"10.0.0.1", "10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"},
		{"2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:ffff::3"},
	} {
		for _, host := range one {
			c.connect(host)
		}
	}
	if len(c.open) != 4 || len(c.addresses) != 2 || c.refused != 3 {
		t.Errorf("%d are open from %d addresses, %d were closed", len(c.open), len(c.addresses), c.refused)
	}
	if c.connect("2001:db8:1:3::1") == nil || len(c.open) != 5 {
		t.Error("another network counts as the same")
	}
	c.check(100)
}

func startLimited(t *testing.T, change func(*LimitsConfig)) *Server {
	t.Helper()
	cfg := Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	change(&cfg.Limits)
	s, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// The function `silent` opens connections that send nothing.
func silent(t *testing.T, at string, n int) {
	t.Helper()
	for range n {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// TestSilentConnectionsCloseNoPort opens far more silent connections than the limit allows. Health checks and agents must still be
// answered, over new and over open connections.
func TestSilentConnectionsCloseNoPort(t *testing.T) {
	s := startLimited(t, func(l *LimitsConfig) { l.HTTPConnections, l.GRPCConnections = 64, 64 })
	silent(t, s.Endpoints.HTTP, 300)
	health := func() {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
		defer client.CloseIdleConnections()
		for _, path := range []string{"/health", "/api/v1/ready"} {
			resp, err := client.Get("http://" + s.Endpoints.HTTP + path)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s is answered %d", path, resp.StatusCode)
			}
		}
	}
	health()
	silent(t, s.Endpoints.GRPC, 200)
	conn, err := grpc.NewClient(s.Endpoints.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+s.NodeToken)
	agent := apipb.NewAgentServiceClient(conn)
	opened, err := agent.OpenSession(ctx, &apipb.OpenSessionRequest{Node: &apipb.NodeInfo{NodeId: "node"}, Instance: "0123456789abcdef"})
	if err != nil {
		t.Fatalf("an agent: %v", err)
	}
	ref := &apipb.SessionRef{NodeId: "node", Session: opened.GetSession()}
	seats, err := agent.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: ref})
	if err == nil {
		_, err = seats.Recv()
	}
	if err != nil {
		t.Fatalf("an agent: %v", err)
	}
	silent(t, s.Endpoints.GRPC, 200)
	silent(t, s.Endpoints.HTTP, 200)
	health()
	if _, err = agent.RenewSession(ctx, &apipb.RenewSessionRequest{Ref: ref}, grpc.WaitForReady(false)); err != nil {
		t.Errorf("the agent's connection: %v", err)
	}
}

// TestConnectionsAreBounded opens event streams on as many connections as one address may have. Then only a health check gets another
// connection, until a stream ends.
func TestConnectionsAreBounded(t *testing.T) {
	s := startLimited(t, func(l *LimitsConfig) { l.HTTPConnections, l.ConnectionsPerAddress = 64, 4 })
	token, err := os.ReadFile(s.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) (net.Conn, int) {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Endpoints.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+strings.TrimSpace(string(token))+"\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil) // a closed connection is noticed here
		if err != nil {
			return c, 0
		}
		return c, resp.StatusCode
	}
	var streams []net.Conn
	for i := range 4 {
		c, code := ask("/api/v1/events")
		if code != http.StatusOK {
			t.Fatalf("stream %d is answered %d", i, code)
		}
		streams = append(streams, c)
	}
	// If a connection is closed without an answer, the server has not noticed yet that the call before has ended.
	answered := func(path string) int {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			c, code := ask(path)
			_ = c.Close()
			if code != 0 {
				return code
			}
		}
		return 0
	}
	for range 6 { // more often than there are kept connections
		if code := answered("/api/v1/jobs"); code != http.StatusTooManyRequests {
			t.Errorf("a call on a kept connection is answered %d", code)
		}
		if code := answered("/health"); code != http.StatusOK {
			t.Errorf("a health check is answered %d", code)
		}
	}
	_ = streams[0].Close()
	for deadline := time.Now().Add(time.Minute); ; { // the server must notice first
		if _, code := ask("/api/v1/jobs"); code == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a slot that was given back was not given out")
		}
	}
}

// TestKeptConnectionsServeAgents checks which gRPC calls are answered on a connection of the kept part.
func TestKeptConnectionsServeAgents(t *testing.T) {
	s := startLimited(t, func(l *LimitsConfig) { l.GRPCConnections, l.ConnectionsPerAddress = 16, 1 })
	dial := func() *grpc.ClientConn {
		t.Helper()
		conn, err := grpc.NewClient(s.Endpoints.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	token, err := os.ReadFile(s.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	admin := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strings.TrimSpace(string(token)))
	node := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+s.NodeToken)
	agents := apipb.NewAgentServiceClient(dial())
	opened, err := agents.OpenSession(node, &apipb.OpenSessionRequest{Node: &apipb.NodeInfo{NodeId: "node"}, Instance: "0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	ref := &apipb.SessionRef{NodeId: "node", Session: opened.GetSession()}
	seats, err := agents.WatchSeats(node, &apipb.WatchSeatsRequest{Ref: ref}) // uses the only connection
	if err == nil {
		_, err = seats.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	kept := dial()
	if _, err = apipb.NewClusterServiceClient(kept).GetHealth(t.Context(), &apipb.GetHealthRequest{}); err != nil {
		t.Errorf("a health check: %v", err)
	}
	if _, err = apipb.NewAgentServiceClient(kept).RenewSession(node, &apipb.RenewSessionRequest{Ref: ref}); err != nil {
		t.Errorf("an agent: %v", err)
	}
	_, err = apipb.NewJobServiceClient(kept).ListJobs(admin, &apipb.ListJobsRequest{})
	if err = apipb.FromStatus(err); ares.CodeOf(err) != ares.Exhausted || !strings.Contains(err.Error(), "too many connections") {
		t.Errorf("a user: %v", err)
	}
}
