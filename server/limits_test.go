package server

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSessionsOfALargeFleetLastLonger checks that sessions last longer in a large cluster, unless their TTL is
// configured.
func TestSessionsOfALargeFleetLastLonger(t *testing.T) {
	for _, c := range []struct {
		set, nodes int
		want       time.Duration
	}{
		{0, 0, 20 * time.Second}, {0, 1000, 20 * time.Second}, {0, 1001, time.Minute}, {30, 1001, 30 * time.Second}, {30, 1, 30 * time.Second},
	} {
		cfg := Default()
		cfg.Sessions.TTLSeconds = c.set
		if got := cfg.SessionTTL(c.nodes); got != c.want || cfg.Check() != nil {
			t.Errorf("ttl_seconds %d with %d nodes: %s, %v", c.set, c.nodes, got, cfg.Check())
		}
	}
}

// TestEveryLimitIsChecked checks that a limit of zero, which would reject every call, is an error.
func TestEveryLimitIsChecked(t *testing.T) {
	cfg := Default()
	cfg.Limits = LimitsConfig{}
	problems := cfg.Check()
	for _, r := range cfg.Limits.ranges() {
		if problems == nil || !strings.Contains(problems.Error(), r.key) {
			t.Errorf("%s of 0 is not refused: %v", r.key, problems)
		}
	}
}

// TestConnectionsAreBounded checks that a connection beyond the limit is closed immediately. After another connection
// has ended, a new one must be accepted.
func TestConnectionsAreBounded(t *testing.T) {
	cfg := Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Limits.HTTPConnections = 16
	s, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	served := func() (net.Conn, bool) {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Endpoints.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") // a closed connection is noticed below
		_, err = c.Read(make([]byte, 1))
		return c, err == nil
	}
	var open []net.Conn
	for range cfg.Limits.HTTPConnections {
		c, ok := served()
		if !ok {
			t.Fatalf("connection %d was not served", len(open))
		}
		open = append(open, c)
	}
	if _, ok := served(); ok {
		t.Error("one connection too many was served")
	}
	_ = open[0].Close()
	for deadline := time.Now().Add(time.Minute); ; { // the server must notice first
		if _, ok := served(); ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a place that was given back was not given out")
		}
	}
}
