package perf

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/store"
)

const (
	rounds   = 5
	jobBytes = 256 // about what a stored job takes; the raw side writes the same
)

// spec is a job as people submit them.
func spec(round, n int) ares.Spec {
	return ares.Spec{
		RequestID: fmt.Sprintf("bench-%d-%d", round, n), Name: "train-resnet", GPUs: 4, CPUs: 16, MemoryMB: 64_000, GPUMemoryMB: 40_000,
		Command: []string{"python", "train.py"}, Args: []string{"--epochs", "100"}, Image: "pytorch:2.0",
	}
}

// desk is a Desk on an embedded store, with the view following it.
func desk(b *testing.B) *control.Desk {
	s, err := store.Open(b.Context(), store.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	view := control.NewView(time.Now)
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = view.Run(ctx, s, func(err error) { b.Error(err) }) })
	b.Cleanup(func() {
		stop()
		wg.Wait()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := s.RegisterTenant(b.Context(), ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}); err != nil {
		b.Fatal(err)
	}
	if err := view.WaitFor(b.Context(), 2); err != nil {
		b.Fatal(err)
	}
	return &control.Desk{Store: s, View: view, Now: time.Now}
}

// raw is an embedded etcd of the same settings, without Ares.
func raw(b *testing.B) *clientv3.Client {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = "raw", b.TempDir()
	nowhere := []url.URL{{Scheme: "http", Host: "raw.invalid:2380"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = nil, nil
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = nowhere, nowhere
	cfg.InitialCluster = "raw=" + nowhere[0].String()
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.SnapshotCount = 50_000
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return v3client.New(e.Server)
}

// together runs n calls of do over c goroutines and returns calls a second.
func together(c, n int, do func(i int)) float64 {
	start := time.Now()
	var wg sync.WaitGroup
	for w := range c {
		wg.Go(func() {
			for i := w; i < n; i += c {
				do(i)
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(start).Seconds()
}

func BenchmarkInProcess(b *testing.B) {
	d := desk(b)
	etcd := raw(b)
	value := string(make([]byte, jobBytes))
	for round := range rounds {
		const batches, size = 200, 100
		r := together(8, batches, func(i int) {
			ops := make([]clientv3.Op, size)
			for k := range ops {
				ops[k] = clientv3.OpPut(fmt.Sprintf("/raw/jobs/%d-%d-%d-padding", round, i, k), value)
			}
			if _, err := etcd.Txn(b.Context()).Then(ops...).Commit(); err != nil {
				b.Error(err)
			}
		})
		a := together(8, batches, func(i int) {
			specs := make([]ares.Spec, size)
			for k := range specs {
				specs[k] = spec(round, i*size+k)
			}
			for _, out := range d.SubmitAll(b.Context(), specs, "bench") {
				if out.Err != nil {
					b.Error(out.Err)
				}
			}
		})
		b.Logf("raw %.0f keys/s, ares %.0f jobs/s, ratio %.2f", r*size, a*size, a/r)
	}
}
