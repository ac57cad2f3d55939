package screens

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
)

// fake is a server with a few objects whose names and reasons are hard to show.
type fake struct {
	apipb.UnimplementedJobServiceServer
	apipb.UnimplementedTenantServiceServer
	apipb.UnimplementedQueueServiceServer
	apipb.UnimplementedClusterServiceServer

	mu   sync.Mutex
	jobs []*apipb.Job // the newest first
}

// jobID returns a job ID that begins with a text.
func jobID(begin string) string { return "job-" + begin + strings.Repeat("a", 24-len(begin)) }

// ago returns a time whose distance from now is printed the same for a while: the test must not depend on its own speed.
func ago(hours int) *timestamppb.Timestamp {
	return timestamppb.New(time.Now().Add(-time.Duration(hours)*time.Hour - 5*time.Minute - 20*time.Second))
}

func someJobs() []*apipb.Job {
	jobs := []*apipb.Job{
		{JobId: jobID("k3jd52mzq"), Name: "sweep-7", State: "pending", GpuCount: 8, WaitingFor: []string{"8 GPUs on one node: the largest free number is 3, on gpu-17", "quota of tenant vision: 2 of 16 GPUs left"}},
		{JobId: jobID("k3jd52mzr"), Name: "two words", State: "scheduled", GpuCount: 1, Reason: "placed on gpu-3"},
		{JobId: jobID("p7qw"), Name: "🚀 launch 火箭", State: "running", GpuCount: 4, Members: 2, Progress: &apipb.JobProgress{Percent: 41.5, Message: "epoch 3 of 8, loss 0.218"}},
		{JobId: jobID("m2x"), Name: "red\x1b[31m\x1b]0;title\x07alert\nline", State: "failed", GpuCount: 1, Reason: "exit code 1"},
		{JobId: jobID("z"), Name: strings.Repeat("long-name-", 9), State: "succeeded", GpuMilli: 250},
	}
	for i, j := range jobs {
		j.TenantId, j.Queue, j.SubmittedBy, j.Priority, j.CreatedAt, j.Attempt = "vision", "training", "user:ann", 50, ago(2+i), 1
		j.Revision = fmt.Sprint(100 - i)
		j.Labels = map[string]string{"project": "café"}
	}
	return jobs
}

func (f *fake) ListJobs(_ context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &apipb.ListJobsResponse{Revision: "200"}
	for _, j := range f.jobs {
		if len(req.GetState()) == 0 || slices.Contains(req.GetState(), j.GetState()) {
			resp.Jobs = append(resp.Jobs, j)
		}
	}
	total := int32(len(resp.Jobs))
	resp.Total = &total
	return resp, nil
}

// set replaces the jobs.
func (f *fake) set(jobs []*apipb.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = jobs
}

func (f *fake) ListNodes(context.Context, *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	resp := &apipb.ListNodesResponse{}
	for i, name := range []string{"gpu-1", "gpu-2", "rack-7.row-3.datacenter.example.com"} {
		n := &apipb.Node{NodeId: name, State: "online", StateSince: ago(3 + i), GpusTotal: 8, GpusFree: int32(i), CpuCores: 128, CpuCoresFree: 64, MemoryMb: 1048576, MemoryMbFree: 524288, Jobs: []string{jobID("a")}}
		for k := range 8 {
			n.Devices = append(n.Devices, &apipb.Device{Index: int32(k), Model: "NVIDIA H100 80GB HBM3"})
		}
		resp.Nodes = append(resp.Nodes, n)
	}
	return resp, nil
}

func (f *fake) ListTenants(context.Context, *apipb.ListTenantsRequest) (*apipb.ListTenantsResponse, error) {
	resp := &apipb.ListTenantsResponse{}
	limit := int32(64)
	for _, name := range []string{"Vision team", "日本語チーム", "Sound and speech, second floor"} {
		resp.Tenants = append(resp.Tenants, &apipb.Tenant{
			Id: fmt.Sprintf("tenant-%d", len(resp.Tenants)), Name: name, MaxGpus: &limit,
			Current: &apipb.TenantUse{Gpus: 12, CpuCores: 96, MemoryMb: 400000, RunningJobs: 3, PendingJobs: 40000},
		})
	}
	return resp, nil
}

func (f *fake) ListQueues(context.Context, *apipb.ListQueuesRequest) (*apipb.ListQueuesResponse, error) {
	parent, weight := "training", 2.5
	return &apipb.ListQueuesResponse{Queues: []*apipb.Queue{
		{Id: "vision/default", TenantId: "vision", Name: "default"},
		{
			Id: "vision/training-large-models", TenantId: "vision", Name: "training-large-models", Parent: &parent, Weight: &weight,
			Quotas: []*apipb.Quota{{GpuModel: "h100", NominalGpus: 16}, {NominalGpus: 64}},
		},
	}}, nil
}

// serve starts the server and returns a function that makes an `ares` command for it.
func serve(t *testing.T, f *fake) (ares func(args ...string) *exec.Cmd) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	apipb.RegisterJobServiceServer(srv, f)
	apipb.RegisterTenantServiceServer(srv, f)
	apipb.RegisterQueueServiceServer(srv, f)
	apipb.RegisterClusterServiceServer(srv, f)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	return func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), binary(t), args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "TZ=UTC", "ARES_SERVER=" + lis.Addr().String(), "ARES_TOKEN=secret", "ARES_DATA_DIR=" + dir}
		return cmd
	}
}

// binary returns the path of the built program.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("ARES_TEST_BIN")
	if path == "" {
		t.Fatal("set ARES_TEST_BIN to the built program, or run the tests with make test")
	}
	return path
}
