package load

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// This function returns the specification of a typical job.
func spec(round string, n int) ares.Spec {
	return ares.Spec{
		Tenant: ares.DefaultTenant, RequestID: fmt.Sprintf("bench-%s-%d", round, n), Name: "train-resnet", GPUs: 4, CPUs: 16, MemoryMB: 64_000, GPUMemoryMB: 40_000,
		Command: []string{"python", "train.py"}, Args: []string{"--epochs", "100"}, Image: "pytorch:2.0",
	}
}

// This function returns an Admission with an embedded store. The Admission
// also uses a view that follows this store. If the parameter `feed` is not
// nil, the function calls it before the view starts.
func desk(b *testing.B, feed func(*cache.View)) *admission.Admission {
	s, err := store.Open(b.Context(), store.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	view := cache.NewView(time.Now)
	if feed != nil {
		feed(view)
	}
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
	return &admission.Admission{Store: s, View: view, Now: time.Now}
}

// The function `raw` starts an embedded etcd with the same settings as Ares's
// store, but without Ares.
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

// This function submits one job. It returns a string that is as long as the
// stored record of this job. The comparison with raw etcd then writes keys and
// values of the same size.
func stored(b *testing.B, d *admission.Admission) string {
	if got := d.Submit(b.Context(), admission.Request{Submitted: spec("first", 0), Owner: "bench"})[0]; got.Err != nil {
		b.Fatal(got.Err)
	}
	size := 0
	if err := d.Store.Dump(b.Context(), "jobs/", func(r store.Raw) error { size = r.Size; return nil }); err != nil {
		b.Fatal(err)
	}
	return strings.Repeat("x", size)
}

// A `load` is one way to submit jobs. It has a number of concurrent clients, a
// number of calls, and a number of jobs per call.
type load struct {
	name                 string
	clients, calls, size int
}

// The variable `loads` lists the ways to submit jobs that are measured.
var loads = []load{
	{"1 client", 1, rounds.Sized(500, 10), 1},
	{"64 clients", 64, rounds.Sized(6400, 64), 1},
	{"8 clients, batches of 100", 8, rounds.Sized(200, 8), 100},
}

// BenchmarkSubmit compares durable, deduplicated submissions with raw etcd
// transactions. Both write keys and values of the same size.
func BenchmarkSubmit(b *testing.B) {
	server.TuneMemory()
	d, etcd := desk(b, nil), raw(b)
	rest := newREST(b)
	value := stored(b, d)
	rows := [][]string{{"submissions", "raw etcd", "in process", "ratio", "accepted", "REST", "accepted"}}
	for _, l := range loads {
		var base, inside, outside series
		var in, out atomic.Int64
		for round := range rounds.Count {
			tag := fmt.Sprintf("%s-%d", l.name, round)
			keys := make([]string, l.calls*l.size)
			for i := range keys {
				keys[i] = "/ares/jobs/" + string(ares.NewJobID("raw", spec(tag, i).RequestID))
			}
			base = append(base, measure(l.clients, l.calls, l.size, func(i int) { put(b, etcd, keys[i*l.size:(i+1)*l.size], value) }))
			inside = append(inside, measure(l.clients, l.calls, l.size, func(i int) { in.Add(submit(b, d, tag, i, l.size)) }))
			outside = append(outside, measure(l.clients, l.calls, l.size, func(i int) { out.Add(rest.submit(b, tag, i, l.size)) }))
		}
		want := int64(rounds.Count * l.calls * l.size)
		if in.Load() != want || out.Load() != want {
			b.Errorf("%s: %d and %d accepted, want %d each", l.name, in.Load(), out.Load(), want)
		}
		rows = append(rows, []string{
			l.name, base.String(), inside.String(), fmt.Sprintf("%.2f", ratio(inside, base)), fmt.Sprint(in.Load()),
			outside.String(), fmt.Sprint(out.Load()),
		})
	}
	table(b, fmt.Sprintf("Durable submissions, %d bytes each, median of %d rounds (range)", len(value), rounds.Count), rows)
}

func put(b *testing.B, etcd *clientv3.Client, keys []string, value string) {
	ops := make([]clientv3.Op, len(keys))
	for i, k := range keys {
		ops[i] = clientv3.OpPut(k, value)
	}
	if _, err := etcd.Txn(b.Context()).Then(ops...).Commit(); err != nil {
		b.Error(err)
	}
}

// This function makes one call with several jobs, and returns how many of them
// were accepted as new.
func submit(b *testing.B, d *admission.Admission, tag string, call, size int) (accepted int64) {
	requests := make([]admission.Request, size)
	for k := range requests {
		requests[k] = admission.Request{Submitted: spec(tag, call*size+k), Owner: "bench"}
	}
	for _, out := range d.Submit(b.Context(), requests...) {
		if out.Err != nil {
			b.Error(out.Err)
		} else if !out.Duplicate {
			accepted++
		}
	}
	return accepted
}
