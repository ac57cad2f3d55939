package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares/pause"
)

// The variable `reconnect` defines how soon an unreachable etcd member is tried again. gRPC's default waits longer after
// each failure: after an outage of 8 s it would try again only 1 to 5 s later. By then nodes could have ended their jobs,
// because they do so when half of lost_after has passed without a renewal.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}

const (
	// connectTimeout is how long one attempt to connect may take. A lost SYN packet is repeated after 1, 3 and 7 s.
	// Several short attempts therefore notice the end of an outage sooner than a long one.
	connectTimeout = 2 * time.Second
	// silentTimeout is how long a call must have waited in vain before the connections are examined. gRPC's own
	// keepalive needs 13 s to notice a connection that a gateway or a firewall dropped without a word, because it sends
	// pings at most every 10 s.
	silentTimeout = 2 * time.Second
	// probeTimeout is how long one attempt to reach etcd over a new connection may take. It must be shorter than
	// silentTimeout, because otherwise an examination would cause the next one.
	probeTimeout = time.Second
	// probePause is the time between two such attempts.
	probePause = 200 * time.Millisecond
	// probeGrace is how much longer than a new connection an old one may take to answer. An etcd that was stopped answers
	// on all its connections when it continues, but not on all at once.
	probeGrace = 500 * time.Millisecond
	// keepAliveTimeout is how long etcd may take to answer a ping, and how long sent data may stay unacknowledged.
	keepAliveTimeout = 3 * time.Second
	// streamPause is the delay of a stream that could not be opened. The etcd client renews a lease over a stream, and
	// opens it again without a pause until the call's time is over. Without the delay, each node's renewal would use a
	// whole CPU core while the store is unreachable.
	streamPause = 20 * time.Millisecond
)

// linkEpoch is the time from which etcdConn counts. It has a monotonic clock.
var linkEpoch = time.Now()

// etcdConn is a connection to an etcd member that remembers when it last transported something.
type etcdConn struct {
	net.Conn
	addr           string
	sent, received atomic.Int64 // nanoseconds since linkEpoch
}

// Read is part of net.Conn.
func (c *etcdConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.received.Store(int64(time.Since(linkEpoch)))
	}
	return n, err
}

// Write is part of net.Conn.
func (c *etcdConn) Write(b []byte) (int, error) {
	c.sent.Store(int64(time.Since(linkEpoch)))
	return c.Conn.Write(b)
}

// isClosed reports whether this side has closed a connection.
func isClosed(conn *etcdConn) bool {
	raw, err := conn.Conn.(syscall.Conn).SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// etcdConns are the connections of a store's etcd clients.
type etcdConns struct {
	mu        sync.Mutex
	open      []*etcdConn        // those that gRPC has closed are removed at the next `add`
	clients   []*clientv3.Client // those whose connections are examined
	examining bool
	stopped   bool
	stop      context.CancelFunc // ends the examination; nil before the first one
	wg        sync.WaitGroup
}

func (c *etcdConns) add(conn *etcdConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(slices.DeleteFunc(c.open, isClosed), conn)
}

// The method `follow` says for which clients connections are examined.
func (c *etcdConns) follow(clients ...*clientv3.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = clients
}

// The method `closeSilent` closes the connections to an address on which something was sent since a time and nothing has
// been received since then.
func (c *etcdConns) closeSilent(addr string, since time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		if conn.addr == addr && conn.sent.Load() >= int64(since) && conn.received.Load() < int64(since) {
			_ = conn.Close() // gRPC may have closed it
		}
	}
}

// The method `heard` reports whether anything has been received since a time.
func (c *etcdConns) heard(since time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.open, func(conn *etcdConn) bool { return conn.received.Load() >= int64(since) })
}

// The method `examine` looks in the background for connections that no longer transport anything, and closes them. gRPC
// then opens new ones, and the clients repeat their reads. A connection on which etcd itself is slow must stay, because
// the outcome of its writes would be unknown. So one is closed only if etcd answers on a new connection to the same
// address, but not on the old one. While etcd cannot be reached at all, the examination continues.
func (c *etcdConns) examine(endpoints []string, secure *tls.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.examining || c.stopped || len(c.clients) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.examining, c.stop = true, cancel
	clients := c.clients
	c.wg.Go(func() {
		defer cancel()
		for ctx.Err() == nil && !c.examineOnce(ctx, clients, endpoints, secure) {
			pause.For(ctx, probePause)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.examining = false
	})
}

// examineOnce reports whether the examination is over.
func (c *etcdConns) examineOnce(ctx context.Context, clients []*clientv3.Client, endpoints []string, secure *tls.Config) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout+probeGrace)
	began := time.Since(linkEpoch)
	var old, fresh sync.WaitGroup
	for _, client := range clients {
		for range endpoints { // gRPC sends each to another member
			old.Go(func() { _ = answers(ctx, client) })
		}
	}
	var reached atomic.Bool
	for _, endpoint := range endpoints {
		fresh.Go(func() {
			if addr, ok := probe(ctx, endpoint, secure); ok {
				reached.Store(true)
				pause.For(ctx, probeGrace)
				c.closeSilent(addr, began)
			}
		})
	}
	fresh.Wait()
	cancel()
	old.Wait()
	return reached.Load() || c.heard(began)
}

// end ends the examination and waits for it.
func (c *etcdConns) end() {
	c.mu.Lock()
	c.stopped = true
	if c.stop != nil {
		c.stop()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// The function `probe` reports whether an etcd member answers on a new connection, and the address that was dialed.
func probe(ctx context.Context, endpoint string, secure *tls.Config) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var dialed atomic.Value
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: secure, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			dialed.Store(addr)
			return dial(ctx, addr)
		})},
	})
	if err != nil {
		return "", false
	}
	defer func() { _ = client.Close() }()
	ok := answers(ctx, client)
	addr, _ := dialed.Load().(string)
	return addr, ok
}

// The function `answers` reports whether etcd answers a question for which it needs neither its disk nor other members. Any
// answer is good, also that the caller lacks permission.
func answers(ctx context.Context, client *clientv3.Client) bool {
	_, err := healthpb.NewHealthClient(client.ActiveConnection()).Check(ctx, &healthpb.HealthCheckRequest{})
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}

// etcdLink follows the calls of one etcd client. If one waits in vain, the connections are examined.
type etcdLink struct {
	conns     *etcdConns
	endpoints []string
	secure    *tls.Config
}

// The method `options` returns the options with which the etcd client must connect.
func (l *etcdLink) options(timeout time.Duration) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: min(timeout, connectTimeout)}),
		grpc.WithContextDialer(l.dial), grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream),
	}
}

func (l *etcdLink) dial(ctx context.Context, addr string) (net.Conn, error) {
	raw, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := &etcdConn{Conn: raw, addr: addr}
	l.conns.add(conn)
	return conn, nil
}

// The function `dial` opens a connection. If the other end acknowledges nothing for keepAliveTimeout, the kernel closes it.
// gRPC would do the same to a *net.TCPConn, but not to an etcdConn.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	network, at := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, at = "unix", strings.TrimPrefix(path, "//")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, at)
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		var raw syscall.RawConn
		if raw, err = tcp.SyscallConn(); err == nil {
			failed := raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(keepAliveTimeout/time.Millisecond))
			})
			err = errors.Join(err, failed)
		}
		if err != nil {
			_ = conn.Close() // the first error is returned
			return nil, err
		}
	}
	return conn, err
}

func (l *etcdLink) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	start := time.Now()
	err := invoke(ctx, method, req, reply, cc, opts...)
	l.note(ctx, start, err)
	return err
}

func (l *etcdLink) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		if status.Code(err) == codes.Unavailable {
			pause.For(ctx, streamPause)
		}
		return stream, err
	}
	return &etcdStream{ClientStream: stream, link: l}, nil
}

// etcdStream notes the answers of a stream.
type etcdStream struct {
	grpc.ClientStream
	link *etcdLink
}

// RecvMsg is part of grpc.ClientStream.
func (s *etcdStream) RecvMsg(m any) error {
	start := time.Now()
	err := s.ClientStream.RecvMsg(m)
	s.link.note(s.Context(), start, err)
	return err
}

// The method `note` notes how a call that began at the given time has ended. If the call waited in vain for the whole
// silentTimeout, the connections are examined.
func (l *etcdLink) note(ctx context.Context, start time.Time, err error) {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
	case codes.Canceled:
		// An agent ends its call at the same time as its deadline passes here. A call that was ended for another
		// reason says nothing about the connection.
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > 100*time.Millisecond {
			return
		}
	default: // Unavailable: the connection is closed already; otherwise etcd has answered
		return
	}
	if time.Since(start) >= silentTimeout {
		l.conns.examine(l.endpoints, l.secure)
	}
}
