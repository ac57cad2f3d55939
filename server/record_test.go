package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/sim"
)

// TestTheRecordingReplays runs a mix of jobs of several tenants: gangs, arrays, GPU shares, cancelled jobs and failing
// jobs. The server is restarted halfway. The test then replays all decisions from the recording and checks that the
// digests are the same.
func TestTheRecordingReplays(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "recorded")
	placed := 0
	for life := range 2 {
		recorded(ctx, t, data, dir, func(c *client.Client) { placed += busy(ctx, t, c, life) })
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.recording"))
	if err != nil || len(files) != 2 {
		t.Fatalf("recorded %v, %v", files, err)
	}
	slices.Sort(files)
	got := 0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sim.Replay(f, nil)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if r.Different != 0 || r.Decisions < 10 || r.End != "the server stopped" {
			t.Errorf("replayed %+v, first difference %+v", r, r.First)
		}
		got += r.Placed
	}
	if got < placed {
		t.Errorf("the replay placed %d, the server at least %d", got, placed)
	}
}

// This function starts a server that has one node and records its decisions. While the server runs, it calls `use`
// with a client for the server.
func recorded(ctx context.Context, t *testing.T, data, dir string, use func(*client.Client)) {
	t.Helper()
	cfg := server.Default()
	cfg.DataDir, cfg.Recording.Dir = data, dir
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithCancel(ctx)
	started, done := make(chan *server.Server, 1), make(chan error, 1)
	go func() {
		done <- server.Up(ctx, cfg, agent.Config{Node: "here", Mock: "dgx-h100"}, slog.New(slog.NewTextHandler(t.Output(), nil)),
			func(s *server.Server, _ *agent.Agent) { started <- s })
	}()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	select {
	case s := <-started:
		c, err := client.New(client.Options{Addresses: []string{s.Endpoints.GRPC}, TokenFile: s.AdminToken})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		use(c)
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
}

// This function submits a mix of jobs and waits for their end. It returns the minimum number of placements that these
// jobs need.
func busy(ctx context.Context, t *testing.T, c *client.Client, life int) int {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if life == 0 {
		for _, tenant := range []string{"a", "b"} {
			_, err := c.CreateTenant(ctx, &apipb.Tenant{
				Id: tenant, Name: tenant, MaxGpus: new(int32(6)), MaxGpuMemoryMb: new(int32(1 << 30)), MaxCpuCores: new(int32(1000)), MaxMemoryMb: new(int32(1 << 30)),
				MaxConcurrentJobs: new(int32(100)), MaxPendingJobs: new(int32(100)),
			})
			must(err)
		}
	}
	var jobs []string
	submit := func(s *apipb.JobSpec) string {
		t.Helper()
		if len(s.Command) == 0 {
			s.Command = []string{"true"}
		}
		got, err := c.Submit(ctx, s)
		must(err)
		jobs = append(jobs, got.GetJobId())
		return got.GetJobId()
	}
	blocker := submit(&apipb.JobSpec{Name: "blocker", GpuCount: 5, Command: []string{"sleep", "3600"}})
	for i := range 6 {
		tenant := []string{"a", "b"}[i%2]
		submit(&apipb.JobSpec{Name: "one", TenantId: tenant, GpuCount: int32(1 + i%3), Priority: new(int32(100 * i))})
		submit(&apipb.JobSpec{Name: "part", TenantId: tenant, GpuMilli: int32(100 + 100*i)})
	}
	submit(&apipb.JobSpec{Name: "gang", Members: 3, GpuCount: 1})
	submit(&apipb.JobSpec{Name: "large", GpuCount: 8})
	submit(&apipb.JobSpec{Name: "fails", Command: []string{"false"}, Retry: &apipb.RetryPolicy{MaxRetries: new(int32(1)), InitialBackoffSeconds: 0.1}})
	array := submit(&apipb.JobSpec{Name: "sweep", Array: &apipb.Array{Count: 5, Parallelism: 2}, CpuCores: 1})
	submit(&apipb.JobSpec{Name: "after", After: []string{array}})
	waiting := submit(&apipb.JobSpec{Name: "cancelled", GpuCount: 8})
	_, err := c.Cancel(ctx, waiting)
	must(err)
	_, err = c.Wait(ctx, jobs[1])
	must(err)
	_, err = c.Cancel(ctx, blocker)
	must(err)
	for _, id := range jobs {
		_, err = c.Wait(ctx, id)
		must(err)
	}
	return len(jobs) - 2 + 5 + 1 // the array itself and the cancelled job do not count; the elements and one retry do
}

// TestASnapshotIsARecording checks that the scheduler's current state can be downloaded from a running server in the
// format of a recording.
func TestASnapshotIsARecording(t *testing.T) {
	_, c := up(t, "v100-4")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	size, err := c.Record(ctx, &out)
	if err != nil || size != int64(out.Len()) {
		t.Fatalf("%d of %d bytes, %v", size, out.Len(), err)
	}
	r, err := sim.Replay(&out, nil)
	if err != nil || r.Batches != 1 || r.Events < 3 || !strings.Contains(r.End, "snapshot") {
		t.Errorf("replayed %+v, %v", r, err)
	}
}
