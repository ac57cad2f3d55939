package security

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// A `villain` is a node with a valid certificate that acts against another node and against the cluster.
type villain struct {
	*scene
	calls  apipb.AgentServiceClient
	ref    *apipb.SessionRef // its own session
	other  *apipb.SessionRef // the session of the other node
	seat   *apipb.SeatRef    // a seat of the other node
	store  string
	victim string // the other node
}

// newVillain starts a server with two nodes. A job runs on the honest one.
func newVillain(t *testing.T) *villain {
	t.Helper()
	s := &scene{testServer: startServer(t, "limits: {http_connections: 64, grpc_connections: 64}\n"), t: t, made: map[string]bool{}}
	v := &villain{scene: s, victim: "honest"}
	seats := make(chan *apipb.SeatOrder, 1)
	refs := make(chan *apipb.SessionRef, 1)
	honest := &cluster.FakeAgent{
		Name: v.victim, Instance: "fedcba9876543210", Every: 4 * time.Second,
		Seat: func(ctx context.Context, calls apipb.AgentServiceClient, ref *apipb.SessionRef, order *apipb.SeatOrder) {
			if _, err := calls.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: ref, Seat: order.GetSeat()}); err != nil {
				t.Errorf("claim: %v", err)
			}
			refs <- ref
			seats <- order
		},
	}
	calls := apipb.NewAgentServiceClient(s.dial(t, s.joined(v.victim, s.joinToken(v.victim))))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- honest.Serve(ctx, calls, nil) }()
	t.Cleanup(func() {
		stop()
		<-done
	})
	got := s.do(t, http.MethodPost, "/api/v1/jobs", `{"request_id":"lapis","name":"cobalt","gpu_count":1,"command":["sleep","9"]}`)
	s.blue.job = got["job_id"].(string)
	select {
	case v.other = <-refs:
		v.seat = (<-seats).GetSeat()
	case err := <-done:
		done <- err
		t.Fatalf("the honest node: %v", err)
	case <-time.After(cluster.Patience):
		t.Fatal("the job was not placed")
	}
	v.calls = apipb.NewAgentServiceClient(s.dial(t, s.joined("villain", s.joinToken("villain"))))
	opened, err := v.calls.OpenSession(t.Context(), v.opening(nil))
	if err != nil {
		t.Fatalf("open a session: %v", err)
	}
	v.ref, v.store = &apipb.SessionRef{NodeId: "villain", Session: opened.GetSession()}, opened.GetStoreId()
	return v
}

func (v *villain) opening(change func(*apipb.OpenSessionRequest)) *apipb.OpenSessionRequest {
	req := &apipb.OpenSessionRequest{
		Node: &apipb.NodeInfo{NodeId: "villain", Devices: []*apipb.DeviceInfo{{DeviceId: "g0", Type: "gpu"}}}, Instance: "0123456789abcdef",
	}
	if change != nil {
		change(req)
	}
	return req
}

// The method `tries` returns an attempt that makes one call.
func (v *villain) tries(name string, call func(context.Context) (proto.Message, error)) attempt {
	return attempt{name: name, try: func(ctx context.Context, _ names, id string) (result, error) {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "x-request-id", id), cluster.Patience)
		defer cancel()
		got, err := call(ctx)
		if err != nil {
			return said(err), nil
		}
		return said(nil, got), nil
	}}
}

// The method `revisions` claims revisions that the store has not reached.
func (v *villain) revisions() (out []attempt) {
	for _, fence := range []int64{1 << 62, math.MaxInt64, 1_000_000_000_000, 1 << 40, -1, math.MinInt64} {
		out = append(out, v.tries(fmt.Sprintf("a session with the revision %d", fence), func(ctx context.Context) (proto.Message, error) {
			return v.calls.OpenSession(ctx, v.opening(func(r *apipb.OpenSessionRequest) { r.StoreId, r.HighestFence = v.store, fence }))
		}))
	}
	return out
}

// The method `seats` reports about the seat of the other node, under several sessions.
func (v *villain) seats() (out []attempt) {
	for name, ref := range map[string]*apipb.SessionRef{
		"its own session": v.ref, "no session": {NodeId: "villain"}, "the other node's session": v.other,
		"the other's session under its own name": {NodeId: "villain", Session: v.other.GetSession()},
		"session -1":                             {NodeId: "villain", Session: -1}, "the least session": {NodeId: "villain", Session: math.MinInt64},
		"a session of the future": {NodeId: "villain", Session: math.MaxInt64},
	} {
		for verb, call := range map[string]func(context.Context) (proto.Message, error){
			"claims": func(ctx context.Context) (proto.Message, error) {
				return v.calls.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: ref, Seat: v.seat})
			},
			"ends": func(ctx context.Context) (proto.Message, error) {
				return v.calls.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: ref, Seat: v.seat, Result: &apipb.RankResult{Outcome: "succeeded"}})
			},
			"declines": func(ctx context.Context) (proto.Message, error) {
				return v.calls.DeclineSeat(ctx, &apipb.DeclineSeatRequest{Ref: ref, Seat: v.seat})
			},
			"releases": func(ctx context.Context) (proto.Message, error) {
				return v.calls.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: ref, Seat: v.seat})
			},
			"reports the progress of": func(ctx context.Context) (proto.Message, error) {
				return v.calls.ReportProgress(ctx, &apipb.ReportProgressRequest{Ref: ref, Seat: v.seat, Percent: 99})
			},
			"fetches the secrets of": func(ctx context.Context) (proto.Message, error) {
				return v.calls.FetchSecrets(ctx, &apipb.FetchSecretsRequest{Ref: ref, Seat: v.seat})
			},
			"reports a checkpoint of": func(ctx context.Context) (proto.Message, error) {
				return v.calls.ReportCheckpoint(ctx, &apipb.ReportCheckpointRequest{Ref: ref, Seat: v.seat})
			},
		} {
			out = append(out, v.tries("a node "+verb+" another node's rank with "+name, call))
		}
	}
	return out
}

// The method `values` sends values that no list should show.
func (v *villain) values() (out []attempt) {
	for name, percent := range map[string]float64{"NaN": math.NaN(), "infinity": math.Inf(1), "less than nothing": -1, "more than all": 101} {
		out = append(out, v.tries("a progress of "+name, func(ctx context.Context) (proto.Message, error) {
			return v.calls.ReportProgress(ctx, &apipb.ReportProgressRequest{Ref: v.ref, Seat: v.seat, Percent: percent})
		}))
	}
	out = append(out, v.tries("the progress of nothing", func(ctx context.Context) (proto.Message, error) {
		return v.calls.ReportProgress(ctx, &apipb.ReportProgressRequest{Ref: v.ref, Percent: 5})
	}))
	for name, change := range map[string]func(*apipb.NodeInfo){
		"a label":    func(n *apipb.NodeInfo) { n.Labels = map[string]string{"zone": "\x1b]0;x\x07"} },
		"an address": func(n *apipb.NodeInfo) { n.Address = "10.0.0.1\x1b[2J" },
		"a device":   func(n *apipb.NodeInfo) { n.Devices[0].DeviceId = "g0\n" },
	} {
		out = append(out, v.tries("an escape sequence in "+name, func(ctx context.Context) (proto.Message, error) {
			return v.calls.OpenSession(ctx, v.opening(func(r *apipb.OpenSessionRequest) { change(r.Node) }))
		}))
	}
	return out
}

// The method `sessions` acts on the session of the other node, or without a session.
func (v *villain) sessions() []attempt {
	return []attempt{
		v.tries("another node's session renewed", func(ctx context.Context) (proto.Message, error) {
			return v.calls.RenewSession(ctx, &apipb.RenewSessionRequest{Ref: v.other})
		}),
		v.tries("another node's session closed", func(ctx context.Context) (proto.Message, error) {
			return v.calls.CloseSession(ctx, &apipb.CloseSessionRequest{Ref: v.other})
		}),
		v.tries("another node updated", func(ctx context.Context) (proto.Message, error) {
			return v.calls.UpdateNode(ctx, &apipb.UpdateNodeRequest{Ref: v.other, Node: &apipb.NodeInfo{NodeId: v.victim}})
		}),
		v.tries("another node reported clean", func(ctx context.Context) (proto.Message, error) {
			return v.calls.ReportClean(ctx, &apipb.ReportCleanRequest{Ref: v.other})
		}),
		v.tries("another node's seats watched", func(ctx context.Context) (proto.Message, error) {
			stream, err := v.calls.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: v.other})
			if err != nil {
				return nil, err
			}
			return stream.Recv()
		}),
		v.tries("a session opened as another node", func(ctx context.Context) (proto.Message, error) {
			return v.calls.OpenSession(ctx, v.opening(func(r *apipb.OpenSessionRequest) { r.Node.NodeId = v.victim }))
		}),
		v.tries("its own node updated without a session", func(ctx context.Context) (proto.Message, error) {
			return v.calls.UpdateNode(ctx, &apipb.UpdateNodeRequest{Ref: &apipb.SessionRef{NodeId: "villain"}, Node: &apipb.NodeInfo{NodeId: "villain"}})
		}),
		v.tries("its seats watched without a session", func(ctx context.Context) (proto.Message, error) {
			stream, err := v.calls.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: &apipb.SessionRef{NodeId: "villain"}})
			if err != nil {
				return nil, err
			}
			return stream.Recv()
		}),
		v.tries("its seats watched under another node's session", func(ctx context.Context) (proto.Message, error) {
			stream, err := v.calls.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: &apipb.SessionRef{NodeId: "villain", Session: v.other.GetSession()}})
			if err != nil {
				return nil, err
			}
			return stream.Recv()
		}),
		v.tries("files served without a session", func(ctx context.Context) (proto.Message, error) {
			return v.serve(ctx, &apipb.SessionRef{NodeId: "villain"})
		}),
		v.tries("files served for another node", func(ctx context.Context) (proto.Message, error) { return v.serve(ctx, v.other) }),
		v.tries("files served under another node's session", func(ctx context.Context) (proto.Message, error) {
			return v.serve(ctx, &apipb.SessionRef{NodeId: "villain", Session: v.other.GetSession()})
		}),
		v.tries("a clean report without a session", func(ctx context.Context) (proto.Message, error) {
			return v.calls.ReportClean(ctx, &apipb.ReportCleanRequest{Ref: &apipb.SessionRef{NodeId: "villain"}})
		}),
		v.tries("no session closed", func(ctx context.Context) (proto.Message, error) {
			return v.calls.CloseSession(ctx, &apipb.CloseSessionRequest{Ref: &apipb.SessionRef{NodeId: "villain"}})
		}),
		v.tries("its own node updated under session -1", func(ctx context.Context) (proto.Message, error) {
			return v.calls.UpdateNode(ctx, &apipb.UpdateNodeRequest{Ref: &apipb.SessionRef{NodeId: "villain", Session: -1}, Node: &apipb.NodeInfo{NodeId: "villain"}})
		}),
		v.tries("its own node updated in a session of the future", func(ctx context.Context) (proto.Message, error) {
			return v.calls.UpdateNode(ctx, &apipb.UpdateNodeRequest{Ref: &apipb.SessionRef{NodeId: "villain", Session: math.MaxInt64}, Node: &apipb.NodeInfo{NodeId: "villain"}})
		}),
		v.tries("a second agent of its own node", func(ctx context.Context) (proto.Message, error) {
			return v.calls.OpenSession(ctx, v.opening(func(r *apipb.OpenSessionRequest) { r.Instance = "ffffffffffffffff" }))
		}),
		v.tries("no session renewed", func(ctx context.Context) (proto.Message, error) {
			return v.calls.RenewSession(ctx, &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: "villain"}})
		}),
	}
}

// The method `serve` offers to serve files, and waits for the first request.
func (v *villain) serve(ctx context.Context, ref *apipb.SessionRef) (proto.Message, error) {
	stream, err := v.calls.ServeFiles(ctx)
	if err != nil {
		return nil, err
	}
	if err = stream.Send(&apipb.ServeFilesRequest{Ref: ref}); err != nil {
		return nil, err
	}
	return stream.Recv()
}

// The method `attempts` reports about other attempts and ranks of a job than the one that the node has claimed. The villain's own seat is
// that of a job that was placed on it.
func (v *villain) attempts(seat *apipb.SeatRef) (out []attempt) {
	for name, change := range map[string]func(*apipb.SeatRef){
		"an earlier attempt": func(r *apipb.SeatRef) { r.Fence-- }, "a later attempt": func(r *apipb.SeatRef) { r.Fence += 1000 },
		"fence 0": func(r *apipb.SeatRef) { r.Fence = 0 }, "a negative fence": func(r *apipb.SeatRef) { r.Fence = -1 },
		"the last fence": func(r *apipb.SeatRef) { r.Fence = math.MaxInt64 }, "a rank that does not exist": func(r *apipb.SeatRef) { r.Rank = 1 },
		"a negative rank": func(r *apipb.SeatRef) { r.Rank = -1 }, "a job that does not exist": func(r *apipb.SeatRef) { r.JobId = "job-aaaaaaaaaaaaaaaaaaaaaaaa" },
		"no job": func(r *apipb.SeatRef) { r.JobId = "" }, "a path as a job": func(r *apipb.SeatRef) { r.JobId = "../" + r.JobId },
	} {
		other := proto.CloneOf(seat)
		change(other)
		out = append(out,
			v.tries("a node claims "+name, func(ctx context.Context) (proto.Message, error) {
				return v.calls.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: v.ref, Seat: other})
			}),
			v.tries("a node ends "+name, func(ctx context.Context) (proto.Message, error) {
				return v.calls.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: v.ref, Seat: other, Result: &apipb.RankResult{Outcome: "succeeded"}})
			}),
			v.tries("a node reports the progress of "+name, func(ctx context.Context) (proto.Message, error) {
				return v.calls.ReportProgress(ctx, &apipb.ReportProgressRequest{Ref: v.ref, Seat: other, Percent: 1})
			}))
	}
	return append(out,
		v.tries("a node ends a rank before its claim", func(ctx context.Context) (proto.Message, error) {
			return v.calls.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: v.ref, Seat: seat, Result: &apipb.RankResult{Outcome: "succeeded"}})
		}),
		v.tries("a node reports progress before its claim", func(ctx context.Context) (proto.Message, error) {
			return v.calls.ReportProgress(ctx, &apipb.ReportProgressRequest{Ref: v.ref, Seat: seat, Percent: 1})
		}),
		v.tries("a node reports a checkpoint before its claim", func(ctx context.Context) (proto.Message, error) {
			return v.calls.ReportCheckpoint(ctx, &apipb.ReportCheckpointRequest{Ref: v.ref, Seat: seat})
		}),
		v.tries("a node fetches secrets before its claim", func(ctx context.Context) (proto.Message, error) {
			return v.calls.FetchSecrets(ctx, &apipb.FetchSecretsRequest{Ref: v.ref, Seat: seat})
		}),
		v.tries("a node releases a rank before its end", func(ctx context.Context) (proto.Message, error) {
			return v.calls.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: v.ref, Seat: seat})
		}),
		v.tries("a node declines a rank without a stop", func(ctx context.Context) (proto.Message, error) {
			return v.calls.DeclineSeat(ctx, &apipb.DeclineSeatRequest{Ref: v.ref, Seat: seat})
		}),
		v.tries("a node invents an outcome", func(ctx context.Context) (proto.Message, error) {
			return v.calls.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: v.ref, Seat: seat, Result: &apipb.RankResult{Outcome: "promoted"}})
		}))
}

// The method `placed` submits a job for which only the villain's node has room, and waits for its seat.
func (v *villain) placed() *apipb.SeatRef {
	v.t.Helper()
	_, err := v.calls.UpdateNode(v.t.Context(), &apipb.UpdateNodeRequest{Ref: v.ref, Node: &apipb.NodeInfo{
		NodeId: "villain", CpuCores: 4, MemoryMb: 4096, Labels: map[string]string{"trap": "yes"},
		Devices: []*apipb.DeviceInfo{{DeviceId: "g0", Type: "gpu", Healthy: true, MemoryMb: 80_000}},
	}})
	if err != nil {
		v.t.Fatalf("update the node: %v", err)
	}
	id := v.do(v.t, http.MethodPost, "/api/v1/jobs", `{"request_id":"trapped","gpu_count":1,"command":["true"],"placement":{"node_selector":{"trap":"yes"}}}`)["job_id"].(string)
	ctx, cancel := context.WithTimeout(v.t.Context(), cluster.Patience)
	defer cancel()
	stream, err := v.calls.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: v.ref})
	if err != nil {
		v.t.Fatal(err)
	}
	for {
		got, err := stream.Recv()
		if err != nil {
			v.t.Fatalf("the job was not placed: %v", err)
		}
		for _, o := range got.GetSeats() {
			if o.GetSeat().GetJobId() == id {
				return o.GetSeat()
			}
		}
	}
}

// TestHostileNode lets a node with a valid certificate act against another node, its job and the leader. Every attempt must be rejected and
// recorded. Afterwards the job runs on, the server still leads, and silent connections do not close its ports.
func TestHostileNode(t *testing.T) {
	t.Parallel()
	v := newVillain(t)
	job := func() string {
		t.Helper()
		got := v.do(t, http.MethodGet, "/api/v1/jobs/"+v.blue.job, "")
		if inner, ok := got["job"].(map[string]any); ok {
			got = inner
		}
		return fmt.Sprint(got["state"], " at revision ", got["revision"], ", progress ", got["progress"])
	}
	var before string
	live.Await(t, cluster.Patience, "the job to run", func() (bool, string) {
		before = job()
		return strings.HasPrefix(before, "running at revision "), before
	})
	var heard []string
	for _, part := range [][]attempt{v.seats(), v.values(), v.sessions(), v.attempts(v.placed()), v.revisions()} {
		heard = append(heard, v.make(part)...)
	}
	if after := job(); after != before {
		t.Errorf("the job was\n%s\nand is\n%s", before, after)
	}
	status := v.do(t, http.MethodGet, "/api/v1/cluster/status", "")
	if alert, _ := status["alert"].(string); status["leader"] == "" || status["leader"] == nil || !strings.Contains(alert, "villain") {
		t.Errorf("the cluster is %v", status)
	}
	for range 150 {
		for _, at := range []string{v.http, v.grpc} {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	v.web.CloseIdleConnections()
	if got, err := v.ask(t.Context(), "", http.MethodGet, "/api/v1/ready", "", nil); err != nil || got.code != http.StatusOK {
		t.Errorf("the server is not ready: %v %v", got, err)
	}
	if _, err := v.calls.RenewSession(t.Context(), &apipb.RenewSessionRequest{Ref: v.ref}); err != nil && strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("a node is kept out: %v", err)
	}
	v.recorded(heard)
}

// The method `recorded` checks that the audit log contains every rejection, or counts it with similar ones.
func (v *villain) recorded(heard []string) {
	v.t.Helper()
	if len(heard) < 40 {
		v.t.Errorf("%d rejections, want 40 or more", len(heard))
	}
	live.Await(v.t, 30*time.Second, "every rejection to be in the audit log", func() (bool, string) {
		text, err := json.Marshal(v.do(v.t, http.MethodGet, "/api/v1/audit?status=refused&page_size=1000", ""))
		if err != nil {
			v.t.Fatal(err)
		}
		var page struct {
			Entries []struct {
				RequestID string `json:"request_id"`
				Count     int    `json:"count"`
			} `json:"entries"`
		}
		if err = json.Unmarshal(text, &page); err != nil {
			v.t.Fatal(err)
		}
		known, counted, missing := map[string]bool{}, 0, 0
		for _, e := range page.Entries {
			known[e.RequestID] = true
			counted += e.Count
		}
		for _, id := range heard {
			if !known[id] {
				missing++
			}
		}
		return missing <= counted, fmt.Sprintf("%d of %d are missing, %d were counted", missing, len(heard), counted)
	})
}
