// Package client is the Go SDK of Ares. The package submits jobs, follows them, and manages tenants
// and nodes over gRPC.
//
// If a call fails with a temporary error, the client tries the call again, at
// the next address if there is one. A submission has the same request ID in all tries, so the job
// is accepted only once, however often it is sent. The package returns the errors of package ares,
// and ares.CodeOf returns the code of an error.
//
// A Client is safe for concurrent use and starts no goroutine that outlives
// Close.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	"github.com/ares-scheduler/ares/loopback"
)

// Options hold the servers, the credentials and the retry settings of a client.
type Options struct {
	// Addresses are the servers' gRPC addresses, host:port. The client uses the first address that answers. The
	// default is 127.0.0.1:9090.
	Addresses []string
	// Token is the bearer token. Set either Token or TokenFile.
	Token string
	// TokenFile is the path of a file with the bearer token. The file is read for
	// each call, so that the token can be replaced.
	TokenFile string
	// TLS is required for every address that is not on this machine.
	TLS *tls.Config
	// Attempts is the number of tries for one call. The default is 5. Every address is tried at
	// least once, even if Attempts is smaller.
	Attempts int
	// CallTimeout limits each try. The default is 10s. Streams are limited only by their context.
	CallTimeout time.Duration
	// Backoff is the delay after the first failed try. After each further failed try, the delay
	// doubles, up to 5s, and is randomized. The default is 100ms.
	Backoff time.Duration
	// DialOptions are appended to the client's own gRPC dial options.
	DialOptions []grpc.DialOption
}

// DefaultAddress is the default gRPC address of a server.
const DefaultAddress = "127.0.0.1:9090"

const maxBackoff = 5 * time.Second

// Client is a client of Ares. New returns a Client.
type Client struct {
	opts    Options
	conns   []*grpc.ClientConn
	current atomic.Int64 // index of the current address
}

// New returns a client. The client does not connect until the first call.
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

// Close closes every connection of the client. Calls in flight fail.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Conn returns the current connection. Use it for services for which this package has no methods. Calls over
// this connection are not retried.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conns[c.current.Load()] }

func dial(addr string, o Options, b bearer) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	} else if !loopback.Addr(addr) {
		return nil, ares.Errorf(ares.Invalid, "%s is not on this machine: use TLS, so that the token is sent encrypted", addr)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(b),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDisableRetry(), // the client retries itself, by the codes of ares
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32 << 20)),
	}
	conn, err := grpc.NewClient(addr, append(opts, o.DialOptions...)...)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "address %q: %s", addr, err)
	}
	return conn, nil
}

// The type `bearer` sends the token with each call.
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

// RequireTransportSecurity returns false, because New has already rejected
// plaintext connections to other machines.
func (bearer) RequireTransportSecurity() bool { return false }

// String returns a text without the token, so that logs do not contain the token.
func (b bearer) String() string { return fmt.Sprintf("bearer token (%d bytes)", len(b.token)) }
