package store

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
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
	// silentTimeout is how long a call must have waited in vain before the connections are replaced. gRPC's own
	// keepalive needs 13 s to notice a connection that a gateway or a firewall dropped without a word, because it sends
	// pings at most every 10 s.
	silentTimeout = 2 * time.Second
	// streamPause is the delay of a stream that could not be opened. The etcd client renews a lease over a stream, and
	// opens it again without a pause until the call's time is over. Without the delay, each node's renewal would use a
	// whole CPU core while the store is unreachable.
	streamPause = 20 * time.Millisecond
)

// etcdConns are the connections of a store's etcd clients.
type etcdConns struct {
	mu   sync.Mutex
	open []net.Conn // those that gRPC has closed are removed at the next `add`
}

func (c *etcdConns) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(slices.DeleteFunc(c.open, isClosed), conn)
}

func (c *etcdConns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close() // gRPC may have closed it
	}
	c.open = nil
}

// isClosed reports whether this side has closed a connection.
func isClosed(conn net.Conn) bool {
	raw, err := conn.(syscall.Conn).SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// etcdLink follows the calls of one etcd client. If etcd answers nothing, etcdLink closes the connections of all clients.
// gRPC then opens new ones, and the clients repeat their reads. The other clients have calls whose time is too short to
// notice it by themselves.
type etcdLink struct {
	conns    *etcdConns
	answered atomic.Int64 // time of the last answer, as nanoseconds since linkEpoch
}

// linkEpoch is the time from which etcdLink counts. It has a monotonic clock.
var linkEpoch = time.Now()

// The method `options` returns the options with which the etcd client must connect.
func (l *etcdLink) options(timeout time.Duration) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: min(timeout, connectTimeout)}),
		grpc.WithContextDialer(l.dial), grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream),
	}
}

func (l *etcdLink) dial(ctx context.Context, addr string) (net.Conn, error) {
	network, at := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, at = "unix", strings.TrimPrefix(path, "//")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, at)
	if err == nil {
		l.conns.add(conn)
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
// silentTimeout, and no other call was answered in that time, the connections are closed.
func (l *etcdLink) note(ctx context.Context, start time.Time, err error) {
	switch status.Code(err) {
	case codes.OK:
		l.answered.Store(int64(time.Since(linkEpoch)))
		return
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
	if time.Since(start) < silentTimeout || l.answered.Load() > int64(start.Sub(linkEpoch)) {
		return
	}
	l.conns.closeAll()
}
