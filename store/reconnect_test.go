package store_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// A `gateway` forwards connections to etcd. It can drop its connections without telling either end, and refuse new ones.
type gateway struct {
	listener net.Listener
	cuts     atomic.Int64 // connections opened before the last cut transport nothing
	refuses  atomic.Bool
	wg       sync.WaitGroup
}

func newGateway(t *testing.T, to string) *gateway {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{listener: l}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	g.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(ctx, "tcp", to)
			if err != nil || g.refuses.Load() {
				_ = near.Close()
				if far != nil {
					_ = far.Close()
				}
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
			age := g.cuts.Load()
			g.wg.Go(func() { g.forward(age, near, far) })
			g.wg.Go(func() { g.forward(age, far, near) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		g.wg.Wait()
	})
	return g
}

func (g *gateway) forward(age int64, from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		cut := g.cuts.Load() > age
		if err == nil && !cut {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			if !cut {
				_ = to.Close()
			}
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

// TestTheStoreReplacesSilentConnections drops the connections to etcd without a word. The store must notice it long before gRPC's
// keepalive does, which takes 13 s. Otherwise nodes cannot renew their sessions in time.
func TestTheStoreReplacesSilentConnections(t *testing.T) {
	e := storetest.External(t)
	g := newGateway(t, strings.TrimPrefix(e.Endpoints[0], "http://"))
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{"http://" + g.listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	n := storetest.NewNode(t, s)
	renew := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return s.RenewSession(ctx, n.ID, n.Session)
	}
	if err := renew(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	for range 3 { // this opens more connections to the same address
		if got := s.Status(t.Context()); len(got) != 1 || got[0].Err != nil {
			t.Fatalf("%+v", got)
		}
	}
	g.refuses.Store(true)
	g.cuts.Add(1)
	start := time.Now()
	time.AfterFunc(4500*time.Millisecond, func() { g.refuses.Store(false) })
	for renew(2500*time.Millisecond) != nil || s.Ready(t.Context()) != nil {
		if time.Since(start) > time.Minute {
			t.Fatal("no renewal gets through")
		}
	}
	// The first renewal fails after 2.5 s. From then on the store tries new connections, and closes the silent ones when a new
	// one is answered. Ready shows that the other client has also replaced its own. A busy machine needs a moment more.
	if took := time.Since(start); took > 9*time.Second {
		t.Errorf("the next renewal was answered after %s", took)
	}
}

// TestAShortStallOfTheStoreFailsNoCall stops etcd for 3 s, for longer than a renewal may take. A call that has more time must
// still succeed. If the store closed the connections, the outcome of the call would be unknown.
func TestAShortStallOfTheStoreFailsNoCall(t *testing.T) {
	e := storetest.External(t)
	s, err := store.Open(t.Context(), store.Config{Endpoints: e.Endpoints, Timeout: 10 * time.Second}) // a busy machine may need longer than 5 s
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	n := storetest.NewNode(t, s)
	if err := s.RenewSession(t.Context(), n.ID, n.Session); err != nil {
		t.Fatal(err)
	}
	renewed := make(chan error, 1)
	thaw := e.Freeze(t)
	time.AfterFunc(3*time.Second, thaw)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		renewed <- s.RenewSession(ctx, n.ID, n.Session)
	}()
	start := time.Now()
	if err := s.CloseSession(t.Context(), n.ID, n.Session); err != nil {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	if err := <-renewed; err == nil {
		t.Error("the renewal has not timed out, so this test shows nothing")
	}
}

// slowEtcd is an etcd whose disk stalls: it accepts connections and calls, and completes none for a while.
type slowEtcd struct {
	etcdserverpb.UnimplementedKVServer
	stalls atomic.Bool
}

// Range is part of etcdserverpb.KVServer.
func (e *slowEtcd) Range(ctx context.Context, _ *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	if e.stalls.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}}, nil
}

// Txn is part of etcdserverpb.KVServer.
func (e *slowEtcd) Txn(ctx context.Context, _ *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(4 * time.Second):
	}
	return &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: 2}, Succeeded: true}, nil
}

// TestAStalledDiskOfTheStoreFailsNoCall has an etcd that still answers questions about itself, also on new connections. The store
// must not mistake its slow connections for dead ones.
func TestAStalledDiskOfTheStoreFailsNoCall(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e, server := &slowEtcd{}, grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, e)
	healthpb.RegisterHealthServer(server, health.NewServer())
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) }) // it ends with Stop
	defer wg.Wait()
	defer server.Stop()
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{"http://" + l.Addr().String()}, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	e.stalls.Store(true)
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		if s.Ready(ctx) == nil {
			t.Error("the read has not timed out, so this test shows nothing")
		}
	})
	if err := s.CloseSession(t.Context(), "node", 1); err != nil {
		t.Error(err)
	}
}
