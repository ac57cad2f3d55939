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

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
)

// link is the agent's way to a server: one connection for renewals, seats and
// reports and one for bulk, so that a log never delays a renewal. When a
// server is silent the next one is taken, with both connections.
type link struct {
	servers []string
	creds   func() credentials.TransportCredentials
	token   string // "" where a certificate speaks

	mu      sync.Mutex
	at      int
	control *grpc.ClientConn
	bulk    *grpc.ClientConn
}

// reconnect is how soon a server that was away is tried again. gRPC's own
// default waits up to two minutes: longer than a job lives without renewals.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

// bearer sends the node token with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity is false because plaintext is used on loopback;
// Config refuses it elsewhere.
func (bearer) RequireTransportSecurity() bool { return false }

func newLink(cfg *Config, identity *pki.Node) *link {
	return &link{servers: cfg.Servers, token: cfg.Token, creds: func() credentials.TransportCredentials {
		switch {
		case identity != nil:
			return credentials.NewTLS(identity.Client(cfg.TLS))
		case cfg.TLS != nil:
			return credentials.NewTLS(cfg.TLS)
		}
		return insecure.NewCredentials()
	}}
}

// connections returns those to the present server, made when needed.
func (l *link) connections() (control, bulk apipb.AgentServiceClient, server string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server = l.servers[l.at]
	if l.control == nil {
		opts := []grpc.DialOption{
			grpc.WithTransportCredentials(l.creds()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		}
		if l.token != "" {
			opts = append(opts, grpc.WithPerRPCCredentials(bearer(l.token)))
		}
		if l.control, err = grpc.NewClient(server, opts...); err != nil {
			return nil, nil, server, fmt.Errorf("connect to %s: %w", server, err)
		}
		if l.bulk, err = grpc.NewClient(server, opts...); err != nil {
			return nil, nil, server, fmt.Errorf("connect to %s: %w", server, err)
		}
	}
	return apipb.NewAgentServiceClient(l.control), apipb.NewAgentServiceClient(l.bulk), server, nil
}

// trust is where certificates are renewed, at the present server.
func (l *link) trust() (apipb.TrustServiceClient, error) {
	if _, _, _, err := l.connections(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return apipb.NewTrustServiceClient(l.control), nil
}

// next gives a silent server up for the next one. Its connections are dropped
// even where there is no other server: they may be what is dead. Calls under
// way on them fail and are repeated by their callers.
func (l *link) next(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers[l.at] != server {
		return // somebody moved on already
	}
	l.at = (l.at + 1) % len(l.servers)
	l.close()
}

func (l *link) close() {
	if l.control != nil {
		_ = l.control.Close()
		_ = l.bulk.Close()
		l.control, l.bulk = nil, nil
	}
}

func (l *link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}
