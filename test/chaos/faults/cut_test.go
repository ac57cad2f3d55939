package faults_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// A `wire` is a proxy between an agent and its server, or between a server and
// the store. The proxy can silently drop its current connections, as a network
// switch or a gateway does. Neither end of a dropped connection is notified. The
// proxy can also refuse new connections.
type wire struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	conns   []*connection
	refuses bool
}

type connection struct {
	near, far net.Conn
	mu        sync.Mutex
	cut       bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil || w.refused() {
				_ = near.Close()
				if far != nil {
					_ = far.Close()
				}
				continue
			}
			c := &connection{near: near, far: far}
			w.mu.Lock()
			w.conns = append(w.conns, c)
			w.mu.Unlock()
			wg.Go(func() { c.carry(near, far) })
			wg.Go(func() { c.carry(far, near) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.conns {
			_, _ = c.near.Close(), c.far.Close()
		}
		w.mu.Unlock()
		wg.Wait()
	})
	return w
}

// This method forwards bytes, or drops them once the connection is cut.
func (c *connection) carry(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		cut := c.cut
		c.mu.Unlock()
		if !cut && err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			if !cut {
				_ = to.Close()
			}
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

func (w *wire) refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refuses
}

// The method `refuse` says whether the proxy closes every new connection
// immediately.
func (w *wire) refuse(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = yes
}

// The method `hangUp` closes the current connections. Both ends notice it.
func (w *wire) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_, _ = c.near.Close(), c.far.Close()
	}
}

// This method makes the proxy silently drop all traffic of every current
// connection. New connections still work.
func (w *wire) cut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.mu.Lock()
		c.cut = true
		c.mu.Unlock()
	}
	return len(w.conns)
}

func TestAgentLeavesAConnectionThatFellSilent(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	link := newWire(t, s.At.GRPC)
	through := *s
	through.At.GRPC = link.listener.Addr().String()
	a := w.StartAgent("node-a", &through)
	online(t, c, "node-a")
	spec := w.job("steady", untilReleased)
	spec.LostAfterSeconds = 40
	id := w.submit(c, spec)
	first := w.started(id, 1, 1)[0]
	w.state(c, id, ares.Running)
	if n := link.cut(); n < 2 {
		t.Fatalf("the agent has %d connections, want one for control and one for bulk", n)
	}
	poll(t, patience, "a new session over new connections", func() (bool, string) {
		return strings.Count(a.Log(), "session open") > 1, a.Log()
	})
	w.release("steady")
	w.ends(c, id, ares.Succeeded)
	if end := of(w.lines(id), "end", 1); len(end) != 1 || end[0].pid != first.pid {
		t.Errorf("the job did not go on as it was: %v", w.lines(id))
	}
}
