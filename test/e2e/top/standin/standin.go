// Package standin serves a fixed cluster over the gRPC API of Ares, for tests and benchmarks of what a command shows.
// A real server would need minutes to have a thousand nodes, and its answers would change from run to run.
package standin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
)

// Server serves a cluster. Its times are relative to the time of the answer, so that an age is always the same.
type Server struct {
	apipb.UnimplementedClusterServiceServer
	apipb.UnimplementedJobServiceServer

	Address string
	nodes   int
	tb      testing.TB
	stop    func()

	mu    sync.Mutex
	asked map[string]int
}

// Start serves a cluster with a number of nodes, of eight devices each, until the test ends.
func Start(tb testing.TB, nodes int) *Server {
	tb.Helper()
	s := &Server{Address: "127.0.0.1:0", nodes: nodes, tb: tb, asked: map[string]int{}}
	s.Restart()
	tb.Cleanup(func() { s.Stop() })
	return s
}

// Restart serves again at the same address, after Stop.
func (s *Server) Restart() {
	s.tb.Helper()
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.Address = listener.Addr().String()
	server := grpc.NewServer()
	apipb.RegisterClusterServiceServer(server, s)
	apipb.RegisterJobServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	s.stop = func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // it stopped before it served
			s.tb.Error(err)
		}
	}
}

// Stop closes all connections and refuses new ones.
func (s *Server) Stop() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Asked returns how often a method was called.
func (s *Server) Asked(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[method]
}

func (s *Server) count(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[method]++
}

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }

// GetClusterStatus implements apipb.ClusterServiceServer.
func (s *Server) GetClusterStatus(context.Context, *apipb.GetClusterStatusRequest) (*apipb.GetClusterStatusResponse, error) {
	s.count("GetClusterStatus")
	n := int32(s.nodes)
	return &apipb.GetClusterStatusResponse{
		TotalNodes: n, OnlineNodes: n - n/10 - n/7, OfflineNodes: n / 10, CordonedNodes: n / 7, TotalGpus: 8 * n, AvailableGpus: 3 * n, TotalJobs: 400, RunningJobs: 37,
		PendingJobs: 12, Leader: "server-1", Version: "v1.2.3",
	}, nil
}

// ListNodes implements apipb.ClusterServiceServer.
func (s *Server) ListNodes(_ context.Context, req *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	s.count("ListNodes")
	from, _ := strconv.Atoi(req.GetPageToken()) // the first page has none
	to := min(from+cmp.Or(int(req.GetPageSize()), 100), s.nodes)
	resp := &apipb.ListNodesResponse{Total: int32(s.nodes), Revision: "1"}
	for i := from; i < to; i++ {
		resp.Nodes = append(resp.Nodes, node(i))
	}
	if to < s.nodes {
		resp.NextPageToken = strconv.Itoa(to)
	}
	return resp, nil
}

// The function `node` returns one node. Some nodes are offline, some are drained, and one has a failed device.
func node(i int) *apipb.Node {
	n := &apipb.Node{
		NodeId: fmt.Sprintf("gpu-%04d", i), State: "online", StateSince: ago(26*time.Hour + 30*time.Minute), CpuCores: 128, CpuCoresFree: int32(i % 128),
		MemoryMb: 1_024_000, MemoryMbFree: int32(i%100) * 10_000, GpusTotal: 8, Contains: true, Version: "v1.2.3",
		Labels: map[string]string{"rack": strconv.Itoa(i / 8), "zone": "a"},
	}
	if i%10 == 9 {
		n.State = "offline"
	}
	if i%7 == 6 {
		n.State, n.Drain = "cordoned", &apipb.NodeDrain{SeatsLeft: int32(i % 3)}
	}
	if i%4 == 1 {
		n.Score = &apipb.NodeScore{Score: 870}
	}
	for k := range 8 {
		d := &apipb.Device{Index: int32(k), DeviceId: fmt.Sprintf("GPU-%04d-%d", i, k), Type: "gpu", Model: "NVIDIA H100 80GB HBM3", MemoryMb: 81_559, Numa: int32(k / 4), Healthy: true}
		switch {
		case i == 2 && k == 3:
			d.Healthy, d.Reason = false, "Xid 79"
		case k < i%9:
			d.Taken, d.JobId = true, jobID(i)
			if i%3 == 0 {
				d.JobId = ""
			}
		default:
			n.GpusFree++
		}
		n.Devices = append(n.Devices, d)
	}
	if i%9 > 0 {
		n.Jobs = []string{jobID(i)}
	}
	return n
}

// jobID returns the ID of a job, in the form that every job ID has.
func jobID(i int) string {
	return "job-" + string(rune('a'+i%26)) + strings.Repeat("bcde"[i%4:i%4+1], 3) + "qrst" + strings.Repeat("u", 16)
}

// ListJobs implements apipb.JobServiceServer.
func (s *Server) ListJobs(_ context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	s.count("ListJobs")
	all := []*apipb.Job{
		{Name: "train-llama", State: "running", Members: 2, GpuCount: 8, StartedAt: ago(65*time.Minute + 30*time.Second), Progress: &apipb.JobProgress{Percent: 41.5, Message: "epoch 5"}},
		{Name: "sweep", State: "pending", GpuCount: 1, Priority: 50, WaitingFor: []string{"12 of 14 nodes have fewer than 8 free GPUs", "tenant vision has reached its quota of 64 GPUs"}},
		{Name: "a name that is much longer than any column of the screen can be", State: "retrying", GpuCount: 4, WaitingFor: []string{"waits until the retry delay is over"}},
		{Name: "evil \x1b[2J\x1b[31mname\r\n", State: "pending", GpuCount: 2, Priority: 90, WaitingFor: []string{"no node has the label zone=b"}},
		{Name: "evaluate", State: "failed", GpuCount: 1, StartedAt: ago(50 * time.Minute), FinishedAt: ago(48*time.Minute + 30*time.Second), Reason: "exit code 1"},
	}
	resp := &apipb.ListJobsResponse{Revision: "1"}
	for i, j := range all {
		j.JobId, j.TenantId, j.Queue, j.CreatedAt = jobID(i), "vision", "default", ago(time.Duration(i+2)*time.Hour+5*time.Minute+30*time.Second)
		if len(req.GetState()) == 0 || j.GetState() == "pending" || j.GetState() == "retrying" {
			resp.Jobs = append(resp.Jobs, j)
		}
	}
	resp.Total = new(int32(len(resp.Jobs)))
	return resp, nil
}
