package api

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// agentCall makes one call of an agent's RPC with a session and, if the request has a field for it, a seat. It returns the error of the
// call or of the stream's first answer.
type agentCall struct {
	name string
	call func(ctx context.Context, conn *grpc.ClientConn, ref *apipb.SessionRef, seat *apipb.SeatRef) error
}

// The function `agentCalls` finds all RPCs of agents that act under a session, by reflection, so that the test covers a new RPC too.
// OpenSession is the only RPC without a session.
func agentCalls(t *testing.T) (out []agentCall) {
	t.Helper()
	methods := (&apipb.OpenSessionRequest{}).ProtoReflect().Descriptor().ParentFile().Services().ByName("AgentService").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		if m.Name() == "OpenSession" {
			continue
		}
		in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
		must(t, err)
		result, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		must(t, err)
		fields := m.Input().Fields()
		if fields.ByName("ref") == nil {
			t.Fatalf("%s has no session", m.Name())
		}
		name := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		out = append(out, agentCall{name, func(ctx context.Context, conn *grpc.ClientConn, ref *apipb.SessionRef, seat *apipb.SeatRef) error {
			req := in.New()
			req.Set(fields.ByName("ref"), protoreflect.ValueOfMessage(ref.ProtoReflect()))
			if f := fields.ByName("seat"); f != nil && seat != nil {
				req.Set(f, protoreflect.ValueOfMessage(seat.ProtoReflect()))
			}
			if f := fields.ByName("result"); f != nil {
				req.Set(f, protoreflect.ValueOfMessage((&apipb.RankResult{Outcome: "succeeded"}).ProtoReflect()))
			}
			return invoke(ctx, conn, m, name, req.Interface(), result.New().Interface())
		}})
	}
	if len(out) < 13 {
		t.Fatalf("only %d RPCs", len(out))
	}
	return out
}

// The function `invoke` makes a call or opens a stream, and returns the error of its first answer. A stream that is accepted has no answer
// within a second, or one without an error.
func invoke(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, name string, req, answer proto.Message) error {
	if !m.IsStreamingServer() {
		return apipb.FromStatus(conn.Invoke(ctx, name, req, answer))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, name)
	if err != nil {
		return apipb.FromStatus(err)
	}
	if err = stream.SendMsg(req); err == nil && !m.IsStreamingClient() {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(answer)
	}
	if ctx.Err() != nil {
		return nil
	}
	return apipb.FromStatus(err)
}

// TestEveryAgentCallNeedsASession calls every RPC of agents with session numbers that are none, of another node, or outdated. Every call
// must be rejected, recorded, and change nothing. Only the end of a rank may be reported in an earlier session.
func TestEveryAgentCallNeedsASession(t *testing.T) {
	s := newSeatStage(t)
	storetest.Claim(t, s.store, []store.SeatRef{s.seat}, s.own)
	idle := storetest.NewNode(t, s.store) // a node without ranks
	gone := storetest.NewNode(t, s.store)
	gone.Close(t, s.store)
	outdated := s.own.Session
	s.own.Open(t, s.store, time.Minute)
	before := storetest.Get(t, s.store, s.job.ID)
	for _, c := range agentCalls(t) {
		ends := strings.HasSuffix(c.name, "/FinishSeat") || strings.HasSuffix(c.name, "/ReleaseSeat")
		for _, by := range []struct {
			node    string
			session int64
			none    bool // the number is not that of any session
		}{
			{s.own.ID, 0, true}, {s.own.ID, -1, true}, {s.own.ID, math.MinInt64, true}, {idle.ID, 0, true}, {idle.ID, -1, true},
			{gone.ID, 0, true}, {gone.ID, -1, true}, {"unknown", 0, true},
			{s.own.ID, outdated, false}, {s.own.ID, math.MaxInt64, false}, {idle.ID, s.own.Session, false}, {gone.ID, s.own.Session, false}, {"unknown", 1, false},
		} {
			if ends && !by.none && by.node == s.own.ID {
				continue // see TestSeatReportsNeedFenceAndSession
			}
			s.l.take()
			err := c.call(as(t.Context(), nodeToken), s.conn, &apipb.SessionRef{NodeId: by.node, Session: by.session}, s.seatOf(s.seat.Fence, 0))
			declines := strings.HasSuffix(c.name, "/DeclineSeat") && ares.CodeOf(err) == ares.Conflict && !by.none // it is claimed, so no session could decline it
			if ares.CodeOf(err) != ares.Fenced && !declines {
				t.Errorf("%s with session %d of node %s is answered %v", c.name, by.session, by.node, err)
			}
			if e := s.l.take(); err != nil && (len(e) != 1 || e[0].Status != audit.Refused) {
				t.Errorf("%s with session %d of node %s is recorded as %+v", c.name, by.session, by.node, e)
			}
		}
	}
	if after := storetest.Get(t, s.store, s.job.ID); after.Revision != before.Revision {
		t.Errorf("the store went from revision %d to %d", before.Revision, after.Revision)
	}
}

// TestAClaimNeedsIsolation lets a node lose its isolation after a job was placed on it. The node must not get a job that no administrator
// submitted, and the job must be placed again.
func TestAClaimNeedsIsolation(t *testing.T) {
	s := newSeatStage(t)
	agents := apipb.NewAgentServiceClient(s.conn)
	ref := &apipb.SessionRef{NodeId: s.own.ID, Session: s.own.Session}
	says := func(trustedOnly bool) {
		t.Helper()
		s.seen()
		_, err := agents.UpdateNode(as(t.Context(), nodeToken), &apipb.UpdateNodeRequest{Ref: ref, Node: &apipb.NodeInfo{NodeId: s.own.ID, TrustedOnly: trustedOnly}})
		must(t, err)
		s.seen()
	}
	claim := func(job *ares.Job, fence ares.Fence) error {
		_, err := agents.ClaimSeat(as(t.Context(), nodeToken), &apipb.ClaimSeatRequest{Ref: ref, Seat: &apipb.SeatRef{JobId: string(job.ID), Fence: int64(fence)}})
		return apipb.FromStatus(err)
	}
	says(true)
	s.l.take()
	if err := claim(s.job, s.seat.Fence); ares.CodeOf(err) != ares.Forbidden || !strings.Contains(err.Error(), "isolation.allow_untrusted") {
		t.Errorf("a claim without isolation is answered %v", err)
	}
	if e := s.l.take(); len(e) != 1 || e[0].Status != audit.Refused || e[0].Action != "CLAIM_SEAT" {
		t.Errorf("it is recorded as %+v", e)
	}
	if run := storetest.Get(t, s.store, s.job.ID).Run; run.Phase != ares.Pending || !run.Free() || !strings.Contains(run.Reason, "does not isolate jobs") {
		t.Errorf("the job is %s, free %v: %s", run.Phase, run.Free(), run.Reason)
	}
	if err := claim(s.job, s.seat.Fence); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("the same claim again is answered %v", err)
	}
	if _, _, err := s.store.ClaimedJob(t.Context(), s.seat, s.own.Session); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("its secrets are answered %v", err)
	}
	says(false)
	next := storetest.Place(t, s.store, s.lead, s.job, s.own)[0]
	if err := claim(s.job, next.Fence); err != nil {
		t.Errorf("a claim with isolation is answered %v", err)
	}
	says(true)
	// A repeated claim is for a process that is not started yet.
	if err := claim(s.job, next.Fence); ares.CodeOf(err) != ares.Forbidden {
		t.Errorf("a repeated claim without isolation is answered %v", err)
	}
	tenant := storetest.NewTenant(t, s.store)
	order := storetest.JobOf(tenant, storetest.Sleep())
	order.Job.Trusted = true
	if made := s.store.Create(t.Context(), []store.Creation{order})[0]; made.Err != nil {
		t.Fatal(made.Err)
	}
	trusted := storetest.Get(t, s.store, order.Job.ID).Job
	if err := claim(trusted, storetest.Place(t, s.store, s.lead, trusted, s.own)[0].Fence); err != nil {
		t.Errorf("an administrator's job is answered %v", err)
	}
	alone := storetest.JobOf(tenant, storetest.Sleep())
	alone.Job.Trusted = true
	alone.Job.EditPlacement().Network = ares.NetworkNone
	if made := s.store.Create(t.Context(), []store.Creation{alone})[0]; made.Err != nil {
		t.Fatal(made.Err)
	}
	hermit := storetest.Get(t, s.store, alone.Job.ID).Job
	err := claim(hermit, storetest.Place(t, s.store, s.lead, hermit, s.own)[0].Fence)
	if ares.CodeOf(err) != ares.Forbidden || !strings.Contains(err.Error(), "cannot keep it from the network") {
		t.Errorf("a claim of a node that would give the job the network is answered %v", err)
	}
	_, err = agents.UpdateNode(as(t.Context(), nodeToken), &apipb.UpdateNodeRequest{Ref: ref, Node: &apipb.NodeInfo{NodeId: s.own.ID, OwnNetwork: true}})
	must(t, err)
	s.seen()
	if err := claim(hermit, storetest.Place(t, s.store, s.lead, hermit, s.own)[0].Fence); err != nil {
		t.Errorf("a claim of a node that can keep the job from the network is answered %v", err)
	}
	attached := storetest.JobOf(tenant, storetest.Sleep())
	attached.Job.Trusted = true
	attached.Job.EditPlacement().TTY = true
	if made := s.store.Create(t.Context(), []store.Creation{attached})[0]; made.Err != nil {
		t.Fatal(made.Err)
	}
	console := storetest.Get(t, s.store, attached.Job.ID).Job
	err = claim(console, storetest.Place(t, s.store, s.lead, console, s.own)[0].Fence)
	if ares.CodeOf(err) != ares.Forbidden || !strings.Contains(err.Error(), "cannot give a job a standard input or a terminal") {
		t.Errorf("a claim of a node that has no such jobs is answered %v", err)
	}
	boxed := storetest.JobOf(tenant, storetest.Sleep())
	boxed.Job.Trusted, boxed.Job.Image = true, "x"
	boxed.Job.EditPlacement().ContainerRoot = true
	if made := s.store.Create(t.Context(), []store.Creation{boxed})[0]; made.Err != nil {
		t.Fatal(made.Err)
	}
	root := storetest.Get(t, s.store, boxed.Job.ID).Job
	err = claim(root, storetest.Place(t, s.store, s.lead, root, s.own)[0].Fence)
	if ares.CodeOf(err) != ares.Forbidden || !strings.Contains(err.Error(), "container_root") {
		t.Errorf("a claim of a node that cannot make the job root is answered %v", err)
	}
}

// TestNodesHaveARate lets a node repeat its calls. Its calls are limited, but neither its renewals nor the calls of another node.
func TestNodesHaveARate(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Limits = pipeline.DefaultLimits()
		c.Limits.NodeRate = pipeline.Rate{PerSecond: 0.001, Burst: 5, Setting: "limits.node_calls_per_second"}
		c.AgentService = &service.AgentService{
			Store: c.Store, View: c.View, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now,
		}
	})
	hostile, other := storetest.NewNode(t, h.store), storetest.NewNode(t, h.store)
	agents := apipb.NewAgentServiceClient(h.dial())
	claim := func(n *storetest.Node) error {
		_, err := agents.ClaimSeat(as(t.Context(), nodeToken), &apipb.ClaimSeatRequest{
			Ref: &apipb.SessionRef{NodeId: n.ID, Session: n.Session}, Seat: &apipb.SeatRef{JobId: string(ares.NewJobID("", "")), Fence: 1},
		})
		return err
	}
	limited := 0
	for range 20 {
		if err := claim(hostile); ares.CodeOf(apipb.FromStatus(err)) == ares.Exhausted {
			limited++
			if !strings.Contains(err.Error(), "limits.node_calls_per_second") || apipb.RetryAfter(err) == 0 {
				t.Fatalf("the limit is answered %v", err)
			}
		}
	}
	if limited != 15 {
		t.Errorf("%d of 20 claims were limited, so %d were not limited, want 5", limited, 20-limited)
	}
	if err := claim(other); ares.CodeOf(apipb.FromStatus(err)) == ares.Exhausted {
		t.Errorf("another node: %v", err)
	}
	for range 4 {
		if _, err := agents.RenewSession(as(t.Context(), nodeToken), &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: hostile.ID, Session: hostile.Session}}); err != nil {
			t.Errorf("a renewal: %v", err)
		}
	}
}
