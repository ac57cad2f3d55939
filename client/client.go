// Package client is the Go SDK of Ares: it submits jobs, follows them and
// manages tenants and nodes over gRPC.
//
// Every call that fails in a way that may pass is tried again, at the next
// address if there is one. A submission keeps its request ID over all tries,
// so it is accepted once however often it is sent. Errors are those of package
// ares: ask ares.CodeOf what kind they are.
//
// A Client is safe for use by many goroutines and starts none that outlive
// Close.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/ares-scheduler/ares"
)

// Options say which servers to talk to, as whom, and how patiently.
type Options struct {
	// Addresses of the servers' gRPC doors, host:port. The first that answers
	// is used. Default 127.0.0.1:9090.
	Addresses []string
	// Token is the bearer token. Give it or TokenFile.
	Token string
	// TokenFile holds the bearer token. It is read for each call, so that a
	// token can be replaced.
	TokenFile string
	// TLS is required for every address that is not on this machine.
	TLS *tls.Config
	// Attempts is how often one call is tried in all. Default 5, and at least
	// once for each address.
	Attempts int
	// CallTimeout limits each try. Default 10s. Streams have no limit but
	// their context.
	CallTimeout time.Duration
	// Backoff is the delay after the first failed try; it doubles up to 5s,
	// with jitter. Default 100ms.
	Backoff time.Duration
	// DialOptions are appended to the client's own.
	DialOptions []grpc.DialOption
}

// DefaultAddress is where a server listens unless it was told otherwise.
const DefaultAddress = "127.0.0.1:9090"

const maxBackoff = 5 * time.Second

// Client talks to Ares. Make one with New.
type Client struct {
	opts    Options
	conns   []*grpc.ClientConn
	current atomic.Int64 // index of the address in use
}

// New makes a client. It does not connect: the first call does.
func New(o Options) (*Client, error) {
	if len(o.Addresses) == 0 {
		o.Addresses = []string{DefaultAddress}
	}
	if o.Token != "" && o.TokenFile != "" {
		return nil, ares.Errorf(ares.Invalid, "give either a token or a token file, not both")
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.Backoff <= 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.Attempts <= 0 {
		o.Attempts = 5
	}
	o.Attempts = max(o.Attempts, len(o.Addresses))
	bearer := bearer{token: o.Token, file: o.TokenFile}
	if _, err := bearer.read(); err != nil {
		return nil, err
	}
	c := &Client{opts: o}
	for _, addr := range o.Addresses {
		conn, err := dial(addr, o, bearer)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Close ends every connection. Calls under way fail.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Conn is the connection in use, for services this package has no methods for.
// Calls over it are not repeated.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conns[c.current.Load()] }

func dial(addr string, o Options, b bearer) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	} else if !local(addr) {
		return nil, ares.Errorf(ares.Invalid, "%s is not on this machine: TLS is required, or the token would be sent in the clear", addr)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(b),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDisableRetry(), // the client has its own, which knows the codes
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32 << 20)),
	}
	conn, err := grpc.NewClient(addr, append(opts, o.DialOptions...)...)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "address %q: %s", addr, err)
	}
	return conn, nil
}

// local says whether addr cannot leave this machine.
func local(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bearer sends the token with each call.
type bearer struct{ token, file string }

func (b bearer) read() (string, error) {
	if b.file == "" {
		return b.token, nil
	}
	data, err := os.ReadFile(b.file)
	if err != nil {
		return "", ares.Errorf(ares.Unauthentic, "read the token file: %s", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", ares.Errorf(ares.Unauthentic, "token file %s is empty", b.file)
	}
	return token, nil
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := b.read()
	if err != nil || token == "" {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is false because New has already refused every
// plain connection that leaves the machine.
func (bearer) RequireTransportSecurity() bool { return false }

// String keeps the token out of logs.
func (b bearer) String() string { return fmt.Sprintf("bearer token (%d bytes)", len(b.token)) }
