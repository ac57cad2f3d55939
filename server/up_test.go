package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

// No test waits for longer than this time. Only a failing test waits that long.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ares-supervisor-")
	if err != nil {
		panic(err)
	}
	bin := filepath.Join(dir, "ares-supervisor")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/ares-scheduler/ares/cmd/ares-supervisor").CombinedOutput(); err != nil {
		panic(string(out))
	}
	if err := os.Setenv("ARES_SUPERVISOR", bin); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// This function starts a server with an agent on free ports and returns a client for it. If
// `mock` is empty, the devices are detected with the nvidia-smi in PATH.
func up(t *testing.T, mock string, change ...func(*server.Config)) (*server.Server, *client.Client) {
	t.Helper()
	cfg := server.Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	for _, c := range change {
		c(&cfg)
	}
	ctx, stop := context.WithCancel(t.Context())
	started := make(chan *server.Server, 1)
	done := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	node := agent.Config{Node: "here", Mock: mock, Isolation: agent.DefaultIsolation()}
	node.Isolation.Mode = agent.IsolateNone // so that jobs can write into a test's directories
	node.Isolation.AllowUntrusted = cfg.Isolation.AllowUntrusted
	go func() {
		done <- server.Up(ctx, cfg, node, log,
			func(s *server.Server, _ *agent.Agent) { started <- s })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var s *server.Server
	select {
	case s = <-started:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	token, err := os.ReadFile(s.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Addresses: []string{s.Endpoints.GRPC}, Token: strings.TrimSpace(string(token))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

func TestAJobRunsToItsCommittedResult(t *testing.T) {
	_, c := up(t, "v100-4")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := c.Submit(ctx, &apipb.JobSpec{Name: "first", GpuCount: 2, Command: []string{"sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES token=$ARES_FENCING_TOKEN"}})
	if err != nil {
		t.Fatal(err)
	}
	job, err := c.Wait(ctx, resp.JobId)
	if err != nil {
		t.Fatal(err)
	}
	if job.State != "succeeded" {
		t.Fatalf("the job is %s: %s", job.State, job.Reason)
	}
	var out bytes.Buffer
	if err := c.Logs(ctx, resp.JobId, client.LogOptions{}, &out); err != nil {
		t.Fatal(err)
	}
	if want := "gpus=0,1 token=" + job.Attempts[0].Fence + "\n"; out.String() != want {
		t.Errorf("the job printed %q, want %q", out.String(), want)
	}
}
