package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/policy/roles"
)

// The type `connections` is a listener that limits its open connections. Opening a connection needs no token, so nobody may
// be able to use up the connections:
//
//   - A connection without a call costs its client nothing. It is therefore closed as soon as another client needs its slot.
//     Among such connections, the oldest one of the address with the most of them is closed first, so that an address with
//     few connections is not affected by an address with many.
//   - One address has at most perAddress connections.
//   - The last `kept` connections serve only health checks and agents, of any address. They are used when all others serve
//     calls.
//
// A connection that cannot be served is accepted and closed immediately. Otherwise it would fill the kernel's queue, and
// later connections would wait without an answer.
type connections struct {
	net.Listener
	limit      int
	kept       int
	perAddress int
	refused    func() // called for each connection that is closed because of a limit

	mu        sync.Mutex
	open      map[string]*connection // by the client's address with its port
	addresses map[netip.Addr]*address
	reserved  int       // number of open connections of the kept part
	waiting   list.List // of *connection: those of the kept part without a call; the one that has waited longest comes first
	turn      uint64    // number of times that a connection began to wait
}

// newConnections limits a listener. If perAddress is 0, one address may have half of the connections.
func newConnections(l net.Listener, limit, perAddress int, refused func()) *connections {
	if perAddress == 0 {
		perAddress = max(limit/2, 1)
	}
	return &connections{
		Listener: l, limit: limit, kept: max(limit/16, 1), perAddress: perAddress, refused: refused,
		open: map[string]*connection{}, addresses: map[netip.Addr]*address{},
	}
}

// The type `address` contains the connections of one client address, except those of the kept part.
type address struct {
	open    int
	waiting list.List // of *connection: those without a call; the one that has waited longest comes first
}

// A `connection` is one open connection.
type connection struct {
	net.Conn
	of       *connections
	name     string
	from     netip.Addr
	calls    int           // calls being served
	waits    *list.Element // in a list of waiting connections. Invariant: nil if and only if calls > 0 or the connection is closed.
	turn     uint64        // when it began to wait
	reserved bool          // it belongs to the kept part
	closed   bool
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		admitted, dropped := l.admit(c)
		if dropped != nil {
			_ = dropped.Conn.Close() // its client may have left
			l.refused()
		}
		if admitted != nil {
			return admitted, nil
		}
		_ = c.Close() // no byte was exchanged
		l.refused()
	}
}

// The method `admit` finds a slot for a new connection. If another connection must be closed for it, the method returns that
// connection too. It returns nil if there is no slot.
func (l *connections) admit(c net.Conn) (admitted, dropped *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &connection{Conn: c, of: l, name: c.RemoteAddr().String(), from: clientAddress(c.RemoteAddr())}
	if l.hasSlot(n.from) {
		l.add(n)
		return n, nil
	}
	if a := l.addresses[n.from]; a != nil && a.open >= l.perAddress {
		dropped = oldest(&a.waiting)
	} else {
		dropped = l.mostSilent()
	}
	if dropped == nil { // all of them serve calls
		n.reserved = true
		if l.reserved >= l.kept {
			if dropped = oldest(&l.waiting); dropped == nil {
				return nil, nil
			}
		}
	}
	if dropped != nil {
		l.remove(dropped)
	}
	l.add(n)
	return n, dropped
}

// clientAddress returns the address that a client is counted under. A client with IPv6 usually has a whole /64 network.
func clientAddress(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return ip
}

// The function `oldest` returns the connection that has waited longest, or nil if none waits.
func oldest(waiting *list.List) *connection {
	if e := waiting.Front(); e != nil {
		return e.Value.(*connection)
	}
	return nil
}

// mostSilent returns the connection that has waited longest at the address with the most waiting connections.
func (l *connections) mostSilent() (out *connection) {
	most := 0
	for _, a := range l.addresses {
		if n := a.waiting.Len(); n > most || n > 0 && n == most && oldest(&a.waiting).turn < out.turn {
			most, out = n, oldest(&a.waiting)
		}
	}
	return out
}

func (l *connections) add(c *connection) {
	l.open[c.name] = c
	if c.reserved {
		l.reserved++
	} else {
		l.countAddress(c.from)
	}
	l.await(c)
}

// waitingOf returns the list for a connection without a call.
func (l *connections) waitingOf(c *connection) *list.List {
	if c.reserved {
		return &l.waiting
	}
	return &l.addresses[c.from].waiting
}

// The method `await` marks a connection as one without a call.
func (l *connections) await(c *connection) {
	l.turn++
	c.turn, c.waits = l.turn, l.waitingOf(c).PushBack(c)
}

// The method `remove` stops counting a connection. It may be called again for the same connection.
func (l *connections) remove(c *connection) {
	if c.closed {
		return
	}
	c.closed = true
	if c.waits != nil {
		l.waitingOf(c).Remove(c.waits)
		c.waits = nil
	}
	if l.open[c.name] == c {
		delete(l.open, c.name)
	}
	if c.reserved {
		l.reserved--
		return
	}
	a := l.addresses[c.from]
	if a.open--; a.open == 0 {
		delete(l.addresses, c.from)
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// The method `count` returns the number of open connections.
func (l *connections) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// The method `begin` marks a client's connection as one with a call. The caller calls `end` after the call. The result
// `reserved` reports whether the connection may serve only health checks and agents.
func (l *connections) begin(client string) (end func(), reserved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[client]
	if c == nil {
		return func() {}, false // it was closed in the meantime, so its answer reaches nobody
	}
	l.beginOf(c)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.endOf(c)
	}, c.reserved
}

func (l *connections) beginOf(c *connection) {
	if c.calls++; c.waits != nil {
		l.waitingOf(c).Remove(c.waits)
		c.waits = nil
	}
	// A connection of the kept part becomes an ordinary one as soon as there is a slot. Otherwise a client that keeps its
	// connection for days would be refused for days.
	if c.reserved && !c.closed && l.hasSlot(c.from) {
		c.reserved = false
		l.reserved--
		l.countAddress(c.from)
	}
}

// hasSlot reports whether there is a slot outside the kept part for another connection of an address.
func (l *connections) hasSlot(from netip.Addr) bool {
	a := l.addresses[from]
	return len(l.open)-l.reserved < l.limit-l.kept && (a == nil || a.open < l.perAddress)
}

func (l *connections) countAddress(from netip.Addr) {
	if l.addresses[from] == nil {
		l.addresses[from] = &address{}
	}
	l.addresses[from].open++
}

func (l *connections) endOf(c *connection) {
	if c.calls--; c.calls == 0 && !c.closed {
		l.await(c)
	}
}

// The method `watch` follows the connections of an HTTP server by its hooks, so that no handler takes part. The server reports
// a connection as active when the headers of a request are read, and as idle when the request is answered.
func (l *connections) watch(srv *http.Server) {
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		n := connectionOf(c)
		if n == nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case state == http.StateActive && n.calls == 0:
			l.beginOf(n)
		case state == http.StateIdle && n.calls > 0:
			l.endOf(n)
		}
	}
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		n := connectionOf(c)
		if n == nil {
			return ctx
		}
		return pipeline.WithConnection(ctx, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return n.reserved
		})
	}
}

// connectionOf returns the connection below an encrypted one, or nil if it is not one of `connections`.
func connectionOf(c net.Conn) *connection {
	if secured, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secured.NetConn()
	}
	n, _ := c.(*connection)
	return n
}

// The method `call` is begin for a gRPC call. The pipeline has authenticated its caller already, so a connection of a client
// without a token or a certificate stays one without a call.
func (l *connections) call(ctx context.Context, name string) (end func(), err error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return func() {}, nil
	}
	end, reserved := l.begin(p.Addr.String())
	m := method.Of(name)
	if reserved && (m == nil || m.Permission != roles.AgentAct && !m.IsPublic()) {
		end()
		return nil, pipeline.ErrConnections
	}
	return end, nil
}

// grpcOptions returns the interceptors that count the calls of each connection. They run after the pipeline's own.
func (l *connections) grpcOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			end, err := l.call(ctx, info.FullMethod)
			if err != nil {
				return nil, err
			}
			defer end()
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			end, err := l.call(ss.Context(), info.FullMethod)
			if err != nil {
				return err
			}
			defer end()
			return handler(srv, ss)
		}),
	}
}
