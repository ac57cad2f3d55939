package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
)

// Config says which etcd stores the live state, and how to connect to that etcd.
type Config struct {
	// Dir is the directory in which the embedded etcd stores its data. Dir is used
	// when Endpoints is empty.
	Dir string
	// Endpoints lists the addresses of an external etcd. Any number of servers
	// may share one external etcd.
	Endpoints []string
	// TLS is the TLS configuration for an external etcd, or nil for no TLS.
	TLS                *tls.Config
	Username, Password string
	// Timeout is the time limit of one operation. The default is 5 s.
	Timeout time.Duration
	Log     *slog.Logger
	// ReservedLabels are keys of labels that a node has only if an administrator granted them, in
	// addition to those with the prefix ares.ReservedLabelPrefix.
	ReservedLabels []string
	// Observe is called with each operation's name, duration and error. Observe
	// may be nil.
	Observe func(op string, took time.Duration, err error)
}

// Store holds the live state in etcd. A Store is safe for concurrent use.
type Store struct {
	client   *clientv3.Client
	renewals *clientv3.Client // separate connection; see connectAll
	cfg      Config
	inside   *embedded // nil when external
	timeout  time.Duration
	observe  func(string, time.Duration, error)
	log      *slog.Logger
	creates  batcher
	space    space
	leases   sync.Map // storedSession by node, as its last renewal read it
	grants   sync.Map // storedGrant by node, as it was last read
	written  atomic.Int64
	conns    etcdConns
}

// Open connects to the external etcd, or starts the embedded etcd.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := newStore(cfg)
	var err error
	if len(cfg.Endpoints) == 0 {
		s.inside, s.client, err = startEmbedded(ctx, cfg.Dir)
		s.renewals = s.client // the embedded etcd needs no connection
	} else {
		s.creates.eager = maxFlushes
		err = s.connectAll()
	}
	if err != nil && len(cfg.Endpoints) > 0 {
		return nil, s.explainUnreachable(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkReachable(ctx); err != nil {
		_ = s.Close()
		if len(cfg.Endpoints) > 0 {
			return nil, s.explainUnreachable(ctx, err)
		}
		return nil, storeError("reach the store", err)
	}
	return s, nil
}

// newStore returns a store that is not connected yet.
func newStore(cfg Config) *Store {
	s := &Store{cfg: cfg, timeout: cfg.Timeout, observe: cfg.Observe, log: cfg.Log}
	if s.timeout <= 0 {
		s.timeout = 5 * time.Second
	}
	if s.observe == nil {
		s.observe = func(string, time.Duration, error) {}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.creates.flush = s.flushCreates
	return s
}

// connectAll opens two connections. If there were only one connection, renewals of sessions and leadership would wait behind
// submissions, plans and watches.
func (s *Store) connectAll() (err error) {
	if s.client, err = s.connect(s.cfg.Endpoints); err != nil {
		return err
	}
	if s.renewals, err = s.connect(s.cfg.Endpoints); err != nil {
		_ = s.client.Close() // the first error is returned
		return err
	}
	s.conns.follow(s.client, s.renewals)
	return nil
}

// This method returns a client for some members of the external etcd.
func (s *Store) connect(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: s.cfg.TLS, Username: s.cfg.Username, Password: s.cfg.Password,
		DialTimeout: s.timeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: keepAliveTimeout,
		MaxCallSendMsgSize: 8 << 20, MaxCallRecvMsgSize: 256 << 20, Logger: zap.NewNop(),
		DialOptions: (&etcdLink{conns: &s.conns, endpoints: s.cfg.Endpoints, secure: s.cfg.TLS}).options(s.timeout),
	})
}

// Close closes the connections and stops the embedded etcd.
func (s *Store) Close() error {
	s.conns.end()
	err := s.client.Close()
	s.creates.running.Wait() // running transactions fail now
	if s.inside != nil {
		return s.inside.close() // the in-process client has no connection to close
	}
	return errors.Join(closed(err), closed(s.renewals.Close()))
}

// If an etcd client returns an error only because the client was closed, this
// function ignores the error.
func closed(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Err returns a channel that reports when the embedded etcd fails. The channel
// is nil for an external etcd.
func (s *Store) Err() <-chan error {
	if s.inside == nil {
		return nil
	}
	return s.inside.etcd.Err()
}

// Ready returns an error unless the store can answer a linearizable read.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.get(ctx, planKey)
	return err
}

// Revision returns the store's current revision, from a linearizable read.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	got, err := s.get(ctx, planKey)
	if err != nil {
		return 0, err
	}
	return got.Header.Revision, nil
}

func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	resp, err := s.client.Get(ctx, key, opts...)
	s.observe("get", time.Since(start), err)
	return resp, storeError("read "+key, err)
}

// The method `txn` runs one transaction. An error means that the transaction's outcome is unknown.
func (s *Store) txn(ctx context.Context, op string, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	// gofail: var storeBefore_op string
	// return nil, storeError(op, errors.New(storeBefore_op))
	resp, err := s.client.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
	s.observe(op, time.Since(start), err)
	if err == nil {
		s.wrote(resp)
	}
	// gofail: var storeAfter_op string
	// return nil, storeError(op, errors.New(storeAfter_op))
	return resp, storeError(op, err)
}

// storeError converts an etcd error into an ares.Error with a code and advice.
func storeError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ares.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return ares.Errorf(ares.Unavailable, "%s: the store is out of space: compact and defragment etcd, or raise its quota; then disarm etcd's alarm", doing)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%s: %w", doing, rpctypes.ErrCompacted)
	case isLeaseGone(err):
		return fmt.Errorf("%s: %w", doing, rpctypes.ErrLeaseNotFound)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return ares.Errorf(ares.TooLarge, "%s: the request exceeds the store's size limit", doing)
	case errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	default:
		return ares.Errorf(ares.Unavailable, "%s: the store did not answer (%v): the outcome is unknown, so repeat the request", doing, err)
	}
}
