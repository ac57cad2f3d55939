package load

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The type `steps` collects the latencies of each step of a job's path.
type steps struct {
	mu    sync.Mutex
	names []string
	took  map[string][]time.Duration
}

func (s *steps) add(name string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.took == nil {
		s.took = map[string][]time.Duration{}
	}
	if _, seen := s.took[name]; !seen {
		s.names = append(s.names, name)
	}
	s.took[name] = append(s.took[name], d)
}

func (s *steps) time(b *testing.B, name string, do func() error) {
	start := time.Now()
	if err := do(); err != nil {
		b.Fatal(name, err)
	}
	s.add(name, time.Since(start))
}

// BenchmarkPath measures every step of a job's path, for one job at a time.
// First, the benchmark runs inside one process with a simulated node that
// answers immediately. Then the benchmark runs over REST with a real agent and
// a real job process.
func BenchmarkPath(b *testing.B) {
	server.TuneMemory()
	var s steps
	inProcess(b, &s, rounds.Sized(500, 10))
	overREST(b, &s, rounds.Sized(200, 5))
	budget := map[string]string{
		"submit": "5 ms", "scoring: one decision": "2 ms", "lease: claim": "5–10 ms", "transition: finish": "3 ms",
	}
	rows := [][]string{{"step", "p50", "p99", "budget"}}
	for _, name := range s.names {
		p50, p99 := quantiles(s.took[name])
		rows = append(rows, []string{name, p50.Round(time.Microsecond).String(), p99.Round(time.Microsecond).String(), budget[name]})
	}
	table(b, "Steps of a job's path, beside the source documents' budget", rows)
}

func inProcess(b *testing.B, s *steps, jobs int) {
	var loop *scheduler.Loop
	d := desk(b, func(v *cache.View) {
		loop = scheduler.NewLoop(v, config.Default())
		loop.Now = time.Now // the view feeds the loop starting with its first batch
	})
	loop.Store, loop.Server, loop.TTL = d.Store, "bench", 5*time.Second
	loop.Log, loop.Record = slog.New(slog.DiscardHandler), func(scheduler.Decision) {}
	loop.Observe = func(took time.Duration) { s.add("scoring: one decision", took) }
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = loop.Run(ctx) })
	defer wg.Wait()
	defer stop()
	node := ares.Node{ID: "n", CPUs: 64, MemoryMB: 1 << 20, Images: true} // the job names an image
	for i := range 8 {
		node.Devices = append(node.Devices, ares.Device{ID: fmt.Sprint("gpu-", i), Index: i, Type: "gpu", MemoryMB: 81920, Healthy: true})
	}
	session, err := d.Store.OpenSession(b.Context(), node, "bench-instance-0", "bench", time.Minute, 0)
	if err != nil {
		b.Fatal(err)
	}
	for i := range jobs {
		var job ares.JobID
		s.time(b, "submit", func() error {
			got := d.Submit(b.Context(), admission.Request{Submitted: spec("path", i), Owner: "bench"})[0]
			job = got.ID
			return got.Err
		})
		var ref store.SeatRef
		s.time(b, "placed: decide, commit, watch", func() error {
			ref = awaitSeat(b, d.View, "n", job)
			return nil
		})
		s.time(b, "lease: claim", func() error { return d.Store.Claim(b.Context(), ref, session.Revision, time.Now()) })
		s.time(b, "transition: finish", func() error {
			_, err := d.Store.Finish(b.Context(), ref, ares.RankResult{Outcome: ares.OutcomeSucceeded, Reason: "exit code 0"}, time.Now())
			return err
		})
		s.time(b, "release", func() error { return d.Store.Release(b.Context(), ref) })
	}
}

// awaitSeat waits until the view shows a claimable seat of the job on the node. The view may still show the seat of the
// job before as claimable.
func awaitSeat(b *testing.B, v *cache.View, node string, job ares.JobID) store.SeatRef {
	for {
		entries, _, changed := v.SeatsOn(node)
		for _, e := range entries {
			if a := e.Run.Current(); a != nil && e.Job.ID == job && a.Seats[0].State == ares.SeatPlaced {
				return store.SeatRef{Job: e.Job.ID, Fence: a.Fence, Rank: 0, Node: node}
			}
		}
		select {
		case <-changed:
		case <-b.Context().Done():
			b.Fatal("no seat came")
		}
	}
}

func overREST(b *testing.B, s *steps, jobs int) {
	supervisor := filepath.Join(b.TempDir(), "ares-supervisor")
	if out, err := exec.Command("go", "build", "-o", supervisor, "github.com/ares-scheduler/ares/cmd/ares-supervisor").CombinedOutput(); err != nil {
		b.Fatal(string(out))
	}
	b.Setenv("ARES_SUPERVISOR", supervisor)
	cfg := server.Default()
	cfg.DataDir = b.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithCancel(b.Context())
	ready := make(chan *server.Server, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := server.Up(ctx, cfg, agent.Config{Node: "n", Mock: "dgx-h100"}, slog.New(slog.DiscardHandler),
			func(s *server.Server, _ *agent.Agent) { ready <- s })
		if err != nil {
			b.Error(err)
		}
	})
	defer wg.Wait()
	defer stop()
	srv := <-ready
	token, err := os.ReadFile(srv.AdminToken)
	if err != nil {
		b.Fatal(err)
	}
	c, err := client.New(client.Options{Addresses: []string{srv.Endpoints.GRPC}, Token: strings.TrimSpace(string(token))})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for range jobs {
		var id string
		s.time(b, "submit over gRPC", func() error {
			resp, err := c.Submit(b.Context(), &apipb.JobSpec{Name: "true", GpuCount: 1, Command: []string{"true"}})
			id = resp.GetJobId()
			return err
		})
		j, err := c.Wait(b.Context(), id)
		if err != nil || j.GetState() != "succeeded" {
			b.Fatal(j.GetState(), j.GetReason(), err)
		}
		s.add("accepted to committed, a real process", j.GetFinishedAt().AsTime().Sub(j.GetCreatedAt().AsTime()))
	}
}
