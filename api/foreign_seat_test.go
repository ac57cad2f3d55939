package api

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// A seatCall is an RPC of an agent whose request names a seat.
type seatCall struct {
	name string
	// This function returns a request that is valid apart from its session and its seat.
	request func(*apipb.SessionRef, *apipb.SeatRef) proto.Message
	answer  func() proto.Message
}

// The function `seatCalls` finds the RPCs of agents that name a seat, by reflection, so that the tests cover a new RPC too.
func seatCalls(t *testing.T) (out []seatCall) {
	t.Helper()
	service := (&apipb.OpenSessionRequest{}).ProtoReflect().Descriptor().ParentFile().Services().ByName("AgentService")
	seat := (&apipb.SeatRef{}).ProtoReflect().Descriptor().FullName()
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		if m.IsStreamingClient() || m.IsStreamingServer() {
			continue
		}
		var at protoreflect.FieldDescriptor
		for k := range m.Input().Fields().Len() {
			if f := m.Input().Fields().Get(k); f.Message() != nil && f.Message().FullName() == seat {
				at = f
			}
		}
		if at == nil {
			continue
		}
		in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
		must(t, err)
		result, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		must(t, err)
		out = append(out, seatCall{
			name: "/" + string(service.FullName()) + "/" + string(m.Name()),
			request: func(ref *apipb.SessionRef, of *apipb.SeatRef) proto.Message {
				req := in.New()
				req.Set(m.Input().Fields().ByName("ref"), protoreflect.ValueOfMessage(ref.ProtoReflect()))
				if of != nil {
					req.Set(at, protoreflect.ValueOfMessage(of.ProtoReflect()))
				}
				if f := m.Input().Fields().ByName("result"); f != nil {
					req.Set(f, protoreflect.ValueOfMessage((&apipb.RankResult{Outcome: "succeeded"}).ProtoReflect()))
				}
				return req.Interface()
			},
			answer: func() proto.Message { return result.New().Interface() },
		})
	}
	if len(out) < 6 {
		t.Fatalf("only %d RPCs name a seat", len(out))
	}
	return out
}

// A quickLedger also notes whether a caller waits until a rejection is on disk.
type quickLedger struct {
	*ledger
	waits []string
}

func (l *quickLedger) Refuse(ctx context.Context, entries ...audit.Entry) {
	if ctx.Err() == nil {
		l.set(func() { l.waits = append(l.waits, entries[0].Action) })
	}
	l.Note(entries...)
}

// A seatStage is a server with two nodes. A job of one rank runs on the first node.
type seatStage struct {
	*house
	l             *quickLedger
	conn          *grpc.ClientConn
	job           *ares.Job
	lead          *store.Leadership
	own, stranger *storetest.Node
	seat          store.SeatRef
}

func newSeatStage(t *testing.T) *seatStage {
	t.Helper()
	s := &seatStage{l: &quickLedger{ledger: newLedger()}}
	s.house = newHouse(t, func(c *Config) {
		c.Audit = s.l
		c.AgentService = &service.AgentService{
			Store: c.Store, View: c.View, Files: &service.Files{View: c.View}, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now,
			Secrets: newSecrets(t, c.Store),
		}
	})
	s.conn = s.dial()
	s.job = storetest.NewJob(t, s.store)
	s.lead, _ = storetest.NewLead(t, s.store)
	s.own, s.stranger = storetest.NewNode(t, s.store), storetest.NewNode(t, s.store)
	s.seat = storetest.Place(t, s.store, s.lead, s.job, s.own)[0]
	return s
}

func (s *seatStage) seatOf(fence ares.Fence, rank int) *apipb.SeatRef {
	return &apipb.SeatRef{JobId: string(s.job.ID), Fence: int64(fence), Rank: int32(rank)}
}

func (s *seatStage) call(c seatCall, node string, session int64, seat *apipb.SeatRef) error {
	s.t.Helper()
	return s.conn.Invoke(as(s.t.Context(), nodeToken), c.name, c.request(&apipb.SessionRef{NodeId: node, Session: session}, seat), c.answer())
}

// The method `rejects` makes a call, and checks that it is rejected with the given code, recorded, and changes nothing.
func (s *seatStage) rejects(what string, code ares.Code, c seatCall, node string, session int64, seat *apipb.SeatRef) {
	s.t.Helper()
	before := storetest.Get(s.t, s.store, s.job.ID)
	s.l.take()
	object := "node/" + node
	if needsClaim(c.name) { // it is recorded with the job that it is about
		if object = seat.GetJobId(); code == ares.Invalid && seat != nil {
			code = ares.Fenced // there is no claim on such a rank
		}
	}
	err := apipb.FromStatus(s.call(c, node, session, seat))
	if ares.CodeOf(err) != code {
		s.t.Errorf("%s with %s is answered %v, want code %s", c.name, what, err, code)
	}
	if e := s.l.take(); len(e) != 1 || e[0].Status != audit.Refused || e[0].Code != string(code) || e[0].Object != object {
		s.t.Errorf("%s with %s is recorded as %+v", c.name, what, e)
	}
	after := storetest.Get(s.t, s.store, s.job.ID)
	if after.Run.Revision != before.Run.Revision || (after.Progress == nil) != (before.Progress == nil) ||
		after.Progress != nil && *after.Progress != *before.Progress {
		s.t.Errorf("%s with %s changed the job", c.name, what)
	}
}

// needsClaim reports whether a call reads something of the job whose seat it names.
func needsClaim(name string) bool {
	return strings.HasSuffix(name, "/FetchSecrets") || strings.HasSuffix(name, "/ListRanks")
}

// TestAnotherNodesSeat calls every RPC that names a seat with the seat of another node, in each state of the seat. Every call must be
// rejected, change nothing, and be recorded. Only a request for secrets waits for the disk.
func TestAnotherNodesSeat(t *testing.T) {
	s := newSeatStage(t)
	try := func() {
		t.Helper()
		for _, c := range seatCalls(t) {
			seat := s.seatOf(s.seat.Fence, 0)
			s.rejects("another node's seat", ares.Fenced, c, s.stranger.ID, s.stranger.Session, seat)
			s.rejects("another node's seat and no session", ares.Fenced, c, s.stranger.ID, 0, seat)
			s.rejects("another node's seat and its session", ares.Fenced, c, s.stranger.ID, s.own.Session, seat)
			s.rejects("no seat", ares.Invalid, c, s.stranger.ID, s.stranger.Session, nil)
		}
	}
	try()
	storetest.Claim(t, s.store, []store.SeatRef{s.seat}, s.own)
	must(t, s.store.ReportProgress(t.Context(), s.seat, s.own.Session, ares.Progress{Percent: 7, Message: "mine", At: storetest.Noon}))
	try()
	if _, err := s.store.RequestStop(t.Context(), s.job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: storetest.Noon}); err != nil {
		t.Fatal(err)
	}
	try()
	if slices.ContainsFunc(s.l.waits, func(action string) bool { return action != "FETCH_SECRETS" }) {
		t.Errorf("these calls wait for the audit log: %v", s.l.waits)
	}
}

// TestSeatReportsNeedFenceAndSession calls every RPC that names a seat for the node's own seat, but with a wrong fence or an outdated
// session. Only the end of a seat may be reported in another session.
func TestSeatReportsNeedFenceAndSession(t *testing.T) {
	s := newSeatStage(t)
	storetest.Claim(t, s.store, []store.SeatRef{s.seat}, s.own)
	first := s.own.Session
	s.own.Open(t, s.store, time.Minute)
	for _, c := range seatCalls(t) {
		ends := strings.HasSuffix(c.name, "/FinishSeat") || strings.HasSuffix(c.name, "/ReleaseSeat")
		if !ends {
			code := ares.Fenced
			if strings.HasSuffix(c.name, "/DeclineSeat") {
				code = ares.Conflict // the rank is claimed, so that no session could decline it
			}
			s.rejects("an outdated session", code, c, s.own.ID, first, s.seatOf(s.seat.Fence, 0))
			s.rejects("no session", ares.Fenced, c, s.own.ID, 0, s.seatOf(s.seat.Fence, 0))
		}
		if !strings.HasSuffix(c.name, "/ReleaseSeat") { // a release of an attempt that is forgotten changes nothing
			s.rejects("an old fence", ares.Fenced, c, s.own.ID, s.own.Session, s.seatOf(s.seat.Fence-1, 0))
			s.rejects("a later fence", ares.Fenced, c, s.own.ID, s.own.Session, s.seatOf(s.seat.Fence+1000, 0))
		}
		s.rejects("a rank that does not exist", ares.Invalid, c, s.own.ID, s.own.Session, s.seatOf(s.seat.Fence, 9))
	}
	for _, name := range []string{"FinishSeat", "ReleaseSeat"} { // reported in the session before the current one
		for _, c := range seatCalls(t) {
			if strings.HasSuffix(c.name, "/"+name) {
				must(t, s.call(c, s.own.ID, first, s.seatOf(s.seat.Fence, 0)))
			}
		}
	}
	if run := storetest.Get(t, s.store, s.job.ID).Run; run.Phase != ares.Succeeded || !run.Free() {
		t.Errorf("the job is %s, free %v", run.Phase, run.Free())
	}
}

// TestProgressIsChecked reports progress with values that no list and no terminal should show.
func TestProgressIsChecked(t *testing.T) {
	s := newSeatStage(t)
	storetest.Claim(t, s.store, []store.SeatRef{s.seat}, s.own)
	agents := apipb.NewAgentServiceClient(s.conn)
	report := func(percent float64, text string) error {
		_, err := agents.ReportProgress(as(t.Context(), nodeToken), &apipb.ReportProgressRequest{
			Ref: &apipb.SessionRef{NodeId: s.own.ID, Session: s.own.Session}, Seat: s.seatOf(s.seat.Fence, 0), Percent: percent, Message: text,
		})
		return apipb.FromStatus(err)
	}
	for _, percent := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.1, 100.1, math.MaxFloat64} {
		if err := report(percent, "x"); ares.CodeOf(err) != ares.Invalid || storetest.Get(t, s.store, s.job.ID).Progress != nil {
			t.Errorf("%v percent is answered %v", percent, err)
		}
	}
	must(t, report(42, "\x1b[2Jepoch\x07 3\n\u202e"+strings.Repeat("é", 300)))
	got := storetest.Get(t, s.store, s.job.ID).Progress
	if got == nil || got.Percent != 42 || !strings.HasPrefix(got.Message, "[2Jepoch 3 é") || ares.Printable(got.Message) != got.Message || len(got.Message) > 256 {
		t.Errorf("stored %+v", got)
	}
}

// TestNodesDescribeThemselvesInPrint opens sessions with texts that would change a terminal. A description is cleaned, and a name is
// rejected.
func TestNodesDescribeThemselvesInPrint(t *testing.T) {
	s := newSeatStage(t)
	agents := apipb.NewAgentServiceClient(s.conn)
	open := func(change func(*apipb.NodeInfo)) error {
		n := &apipb.NodeInfo{NodeId: "plain", Devices: []*apipb.DeviceInfo{{DeviceId: "g0", Type: "gpu", Healthy: true}}}
		change(n)
		_, err := agents.OpenSession(as(t.Context(), nodeToken), &apipb.OpenSessionRequest{Node: n, Instance: "0123456789abcdef"})
		return apipb.FromStatus(err)
	}
	for name, change := range map[string]func(*apipb.NodeInfo){
		"a label":          func(n *apipb.NodeInfo) { n.Labels = map[string]string{"pool": "\x1b[2J"} },
		"a label's name":   func(n *apipb.NodeInfo) { n.Labels = map[string]string{"po\nol": "x"} },
		"an address":       func(n *apipb.NodeInfo) { n.Address = "10.0.0.1\x07" },
		"a device":         func(n *apipb.NodeInfo) { n.Devices[0].DeviceId = "g\x000" },
		"a kind of device": func(n *apipb.NodeInfo) { n.Devices[0].Type = "gpu\u202e" },
		"a taint":          func(n *apipb.NodeInfo) { n.Taints = []*apipb.Taint{{Key: "a\x1b", Effect: "NoSchedule"}} },
	} {
		if err := open(change); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%s is answered %v", name, err)
		}
	}
	must(t, open(func(n *apipb.NodeInfo) {
		n.Unfit, n.Devices[0].Reason, n.Devices[0].Model = "\x1b[31mhot", "too\thot", "H100\x07"
	}))
	s.seen()
	n := s.view.Node("plain")
	if n == nil || n.Node.Unfit != "[31mhot" || n.Node.Devices[0].Reason != "too hot" || n.Node.Devices[0].Model != "H100" {
		t.Errorf("the node is %+v", n)
	}
}
