package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/loopback"
	"github.com/ares-scheduler/ares/pki"
)

// serverLink is the agent's link to a server. The link has one gRPC connection for renewals, seats and reports. It has another connection
// for bulk data, so that a log never delays a renewal. When a server does not answer, both connections move to the next one.
type serverLink struct {
	servers []string
	creds   func() credentials.TransportCredentials
	token   string // "" when a certificate is used
	isPlain bool   // the connection is not encrypted

	mu      sync.Mutex
	at      int
	control *grpc.ClientConn
	bulk    *grpc.ClientConn
	ranks   map[string]*rankLink // by server
}

// rankLink is a connection for the commands of jobs in their ranks. They have connections of their own, because a server allows only so
// many streams on one (256), and jobs must not use up those for logs and for sessions of users.
type rankLink struct {
	conn  *grpc.ClientConn
	users int
}

// The variable `reconnect` defines how soon gRPC tries an unreachable server again. gRPC's own default waits up to two minutes,
// which is longer than a job may run without renewals.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

// The type `bearer` sends the node token with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity returns false because plaintext is used on loopback; Config rejects plaintext elsewhere.
func (bearer) RequireTransportSecurity() bool { return false }

func newLink(cfg *Config, identity *pki.Node) *serverLink {
	return &serverLink{servers: cfg.Servers, token: cfg.Token, isPlain: identity == nil && cfg.TLS == nil, ranks: map[string]*rankLink{}, creds: func() credentials.TransportCredentials {
		switch {
		case identity != nil:
			return credentials.NewTLS(identity.Client(cfg.TLS))
		case cfg.TLS != nil:
			return credentials.NewTLS(cfg.TLS)
		}
		return insecure.NewCredentials()
	}}
}

// The method `connections` returns the connections to the current server, and opens them when needed.
func (l *serverLink) connections() (control, bulk apipb.AgentServiceClient, server string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server = l.servers[l.at]
	if l.control == nil {
		if l.control, err = l.open(server); err != nil {
			return nil, nil, server, err
		}
		if l.bulk, err = l.open(server); err != nil {
			return nil, nil, server, err
		}
	}
	return apipb.NewAgentServiceClient(l.control), apipb.NewAgentServiceClient(l.bulk), server, nil
}

// The method `open` opens a connection to a server, with the agent's own certificate or token.
func (l *serverLink) open(server string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	opts = append(opts,
		grpc.WithTransportCredentials(l.creds()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
	)
	if l.token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(bearer(l.token)))
	}
	conn, err := grpc.NewClient(server, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", server, err)
	}
	return conn, nil
}

// ranksAt returns the connection for the commands of jobs in their ranks, to the current server or to another one, whose address the
// current one has given. The caller must release it. All of these connections end when the agent changes to another server.
func (l *serverLink) ranksAt(server string) (c apipb.AgentServiceClient, release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if server == "" {
		server = l.servers[l.at]
	} else if l.isPlain && !loopback.Addr(server) {
		return nil, nil, ares.Errorf(ares.Unavailable, "the other node is connected to server %s, to which the agent's token must not travel in the clear: give the agent --tls or --tls-ca", server)
	}
	r := l.ranks[server]
	if r == nil {
		conn, err := l.open(server, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))
		if err != nil {
			return nil, nil, err
		}
		r = &rankLink{conn: conn}
		l.ranks[server] = r
	}
	r.users++
	return apipb.NewAgentServiceClient(r.conn), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.users--; r.users > 0 {
			return
		}
		if l.ranks[server] == r {
			delete(l.ranks, server)
		}
		_ = r.conn.Close() // it may be closed already
	}, nil
}

// The method `trust` returns a client of the service that renews certificates, at the current server.
func (l *serverLink) trust() (apipb.TrustServiceClient, error) {
	if _, _, _, err := l.connections(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return apipb.NewTrustServiceClient(l.control), nil
}

// If a server does not answer, the method `next` switches to the next server. The connections are dropped even if only one server is
// configured, because the connections themselves may be broken. Calls in flight on the dropped connections fail, and their callers repeat
// them.
func (l *serverLink) next(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers[l.at] != server {
		return // another goroutine has already switched
	}
	l.at = (l.at + 1) % len(l.servers)
	l.close()
}

func (l *serverLink) close() {
	if l.control != nil {
		_ = l.control.Close()
		_ = l.bulk.Close()
		l.control, l.bulk = nil, nil
	}
	for _, r := range l.ranks {
		_ = r.conn.Close()
	}
	clear(l.ranks)
}

func (l *serverLink) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}
