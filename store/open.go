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

// Config says which etcd holds the state.
type Config struct {
	// Dir is where the embedded etcd keeps its data. Used when Endpoints is empty.
	Dir string
	// Endpoints of an external etcd. Any number of servers may share it.
	Endpoints []string
	// TLS for an external etcd, nil for none.
	TLS                *tls.Config
	Username, Password string
	// Timeout bounds one operation. Default 5 s.
	Timeout time.Duration
	Log     *slog.Logger
	// Observe is told each operation's name, duration and error. May be nil.
	Observe func(op string, took time.Duration, err error)
}

// Store is the truth about live state. It is safe for concurrent use.
type Store struct {
	client   *clientv3.Client
	renewals *clientv3.Client // a connection of its own: see connectAll
	cfg      Config
	inside   *embedded // nil when external
	timeout  time.Duration
	observe  func(string, time.Duration, error)
	log      *slog.Logger
	creates  batcher
	space    space
	leases   sync.Map // sessionNow by node, as its last renewal read it
	written  atomic.Int64
}

// Open connects to the external etcd, or starts the embedded one.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := newStore(cfg)
	var err error
	if len(cfg.Endpoints) == 0 {
		s.inside, s.client, err = startEmbedded(ctx, cfg.Dir)
		s.renewals = s.client // it has no connection
	} else {
		s.creates.eager = maxFlights
		err = s.connectAll()
	}
	if err != nil && len(cfg.Endpoints) > 0 {
		return nil, s.unreachable(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.reach(ctx); err != nil {
		_ = s.Close()
		if len(cfg.Endpoints) > 0 {
			return nil, s.unreachable(ctx, err)
		}
		return nil, storeError("reach the store", err)
	}
	return s, nil
}

// newStore is a store that is not connected yet.
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

// connectAll makes two connections: on a shared one, the renewals of sessions
// and of leadership would wait behind the bytes of submissions, plans and
// watches.
func (s *Store) connectAll() (err error) {
	if s.client, err = s.connect(s.cfg.Endpoints); err != nil {
		return err
	}
	if s.renewals, err = s.connect(s.cfg.Endpoints); err != nil {
		_ = s.client.Close() // the error is told
	}
	return err
}

// connect makes a client of some of the external etcd's members.
func (s *Store) connect(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: s.cfg.TLS, Username: s.cfg.Username, Password: s.cfg.Password,
		DialTimeout: s.timeout, DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		MaxCallSendMsgSize: 8 << 20, MaxCallRecvMsgSize: 256 << 20, Logger: zap.NewNop(),
	})
}

// Close disconnects, and stops the embedded etcd.
func (s *Store) Close() error {
	err := s.client.Close()
	s.creates.running.Wait() // what flies fails now
	if s.inside != nil {
		return s.inside.close() // the in-process client has no connection to close
	}
	return errors.Join(closed(err), closed(s.renewals.Close()))
}

// closed leaves out that a client reports its own closing.
func closed(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Err tells when the embedded etcd fails. It is nil for an external one.
func (s *Store) Err() <-chan error {
	if s.inside == nil {
		return nil
	}
	return s.inside.etcd.Err()
}

// Ready says whether the store answers a linearizable read now.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.get(ctx, planKey)
	return err
}

// Revision is the store's present one; the answer is linearizable.
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

// txn runs one transaction. An error means that its outcome is unknown.
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

// storeError gives an etcd error its code and says what to do.
func storeError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ares.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return ares.Errorf(ares.Unavailable, "%s: the store is out of space; compact and defragment etcd or raise its quota, then disarm the alarm", doing)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%s: %w", doing, rpctypes.ErrCompacted)
	case isLeaseGone(err):
		return fmt.Errorf("%s: %w", doing, rpctypes.ErrLeaseNotFound)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return ares.Errorf(ares.TooLarge, "%s: the request is larger than the store takes", doing)
	case errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	default:
		return ares.Errorf(ares.Unavailable, "%s: the store did not answer (%v); the outcome is unknown, so repeat it", doing, err)
	}
}
