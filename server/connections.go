package server

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// The type `connections` is a listener that limits its open connections. Opening a connection needs no token, so nobody may
// be able to use up the connections:
//
//   - A connection without a call costs its client nothing. It is therefore closed as soon as another client needs its slot.
//     Among such connections, the oldest one of the address with the most of them is closed first, so that an address with
//     few connections is not affected by an address with many.
//   - Only an authenticated client whose request has arrived has a call. A request that arrives slowly, and a request without
//     a valid token, keep no slot.
//   - A connection of a client that has never authenticated is closed before one of a client that has.
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
	reserved  int     // number of open connections of the kept part
	waiting   waiting // those of the kept part without a call
	turn      uint64  // number of times that a connection began to wait
}

// The type `waiting` contains connections without a call. In each list of *connection, the one that has waited longest comes
// first.
type waiting struct {
	strangers list.List // those of clients that have not authenticated
	known     list.List // those of clients that have
}

func (w *waiting) of(known bool) *list.List {
	if known {
		return &w.known
	}
	return &w.strangers
}

// The method `oldest` returns the connection that is closed first, or nil if none waits.
func (w *waiting) oldest() *connection {
	if c := oldest(&w.strangers); c != nil {
		return c
	}
	return oldest(&w.known)
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
	waiting waiting
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
	known    bool          // its client has authenticated
	reserved bool          // it belongs to the kept part
	closed   bool
	out      outgoing
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.freeFile()
			}
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

// The method `freeFile` closes a connection without a call because the process has no file descriptor left. The server that
// called Accept tries again after a pause.
func (l *connections) freeFile() {
	l.mu.Lock()
	dropped := l.mostSilent()
	if dropped == nil {
		dropped = l.waiting.oldest()
	}
	if dropped != nil {
		l.remove(dropped)
	}
	l.mu.Unlock()
	if dropped != nil {
		_ = dropped.Conn.Close() // its client may have left
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
		dropped = a.waiting.oldest()
	} else {
		dropped = l.mostSilent()
	}
	if dropped == nil { // all of them serve calls
		n.reserved = true
		if l.reserved >= l.kept {
			if dropped = l.waiting.oldest(); dropped == nil {
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

// mostSilent returns the connection that has waited longest at the address with the most waiting connections. Connections of
// clients that have authenticated are chosen last.
func (l *connections) mostSilent() (out *connection) {
	for _, known := range []bool{false, true} {
		most := 0
		for _, a := range l.addresses { // order-free: the turns differ
			those := a.waiting.of(known)
			if n := those.Len(); n > most || n > 0 && n == most && oldest(those).turn < out.turn {
				most, out = n, oldest(those)
			}
		}
		if out != nil {
			break
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
		return l.waiting.of(c.known)
	}
	return l.addresses[c.from].waiting.of(c.known)
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
	err := c.Conn.Close()
	go c.out.end() // not here, because the watch itself may have called Close
	return err
}

// The method `count` returns the number of open connections.
func (l *connections) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// The method `begin` marks a connection as one with a call of an authenticated client. The caller calls `end` after the call.
// The result `reserved` reports whether the connection may serve only health checks and agents.
func (l *connections) begin(c *connection) (end func(), reserved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.identify(c)
	if c.calls++; c.waits != nil {
		l.waitingOf(c).Remove(c.waits)
		c.waits = nil
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.calls--; c.calls == 0 && !c.closed {
			l.await(c)
		}
	}), c.reserved
}

// The method `identify` notes that the client of a connection has authenticated. A connection of the kept part becomes an
// ordinary one as soon as there is a slot. Otherwise a client that keeps its connection for days would be refused for days.
func (l *connections) identify(c *connection) {
	move := c.reserved && !c.closed && l.hasSlot(c.from)
	if c.closed || c.known && !move {
		return
	}
	waits := c.waits != nil
	if waits {
		l.waitingOf(c).Remove(c.waits)
	}
	c.known = true
	if move {
		c.reserved = false
		l.reserved--
		l.countAddress(c.from)
	}
	if waits {
		l.await(c)
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

// Authenticated implements pipeline.Connection.
func (c *connection) Authenticated() (reserved bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.identify(c)
	return c.reserved
}

// Begin implements pipeline.Connection.
func (c *connection) Begin() (end func()) {
	end, _ = c.of.begin(c)
	return end
}
