package api

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
)

type rankStream = grpc.BidiStreamingClient[apipb.RunRankSessionRequest, apipb.RunRankSessionResponse]

// rankRequest returns the first message for a command of a process in the job's only rank, in the same rank.
func (s *sessionStage) rankRequest() *apipb.RunRankSessionRequest {
	return &apipb.RunRankSessionRequest{Ref: s.ref(s.own), Seat: s.seatRef(), Exec: &apipb.ExecStart{Argv: []string{"echo", "hello"}}}
}

// beginRank begins a command as an agent.
func (s *sessionStage) beginRank(ctx context.Context, first *apipb.RunRankSessionRequest) rankStream {
	s.t.Helper()
	stream, err := apipb.NewAgentServiceClient(s.conn).RunRankSession(as(ctx, nodeToken))
	must(s.t, err)
	must(s.t, stream.Send(first))
	return stream
}

func rankFailure(stream rankStream) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return apipb.FromStatus(err)
		}
	}
}

// TestRankSession runs a command for a process of a job. Only the rank and the command are the process's choice, and nothing is recorded. It
// may be silent for longer than a session of a user.
func TestRankSession(t *testing.T) {
	s := newSessionStage(t, func(x *service.Sessions) { x.MaxIdle = time.Nanosecond })
	s.l.take()
	caller := s.beginRank(t.Context(), s.rankRequest())
	offer := s.offer()
	if !offer.GetByJob() || !proto.Equal(offer.GetSeat(), s.seatRef()) {
		t.Errorf("offer %v", offer)
	}
	agent, start, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	must(t, err)
	if argv := start.GetExec().GetArgv(); len(argv) != 2 || argv[1] != "hello" {
		t.Errorf("the agent runs %q", argv)
	}
	must(t, agent.Send(&apipb.JoinSessionRequest{Output: &apipb.SessionOutput{Output: &apipb.SessionOutput_Data{Data: []byte("hello")}}}))
	m, err := caller.Recv()
	must(t, err)
	if string(m.GetOutput().GetData()) != "hello" {
		t.Errorf("the caller reads %v", m)
	}
	must(t, caller.Send(&apipb.RunRankSessionRequest{Input: &apipb.SessionInput{Input: &apipb.SessionInput_Data{Data: []byte("typed")}}}))
	in, err := agent.Recv()
	must(t, err)
	if string(in.GetInput().GetData()) != "typed" {
		t.Errorf("the agent reads %v", in)
	}
	must(t, agent.Send(&apipb.JoinSessionRequest{Output: &apipb.SessionOutput{Output: &apipb.SessionOutput_End{End: &apipb.SessionEnd{ExitCode: 7}}}}))
	if m, err = caller.Recv(); err != nil || m.GetOutput().GetEnd().GetExitCode() != 7 {
		t.Errorf("the end is %v, %v", m, err)
	}
	if _, err = caller.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	list, err := apipb.NewAgentServiceClient(s.conn).ListRanks(as(t.Context(), nodeToken), &apipb.ListRanksRequest{Ref: s.ref(s.own), Seat: s.seatRef()})
	must(t, err)
	if r := list.GetRanks(); len(r) != 1 || r[0].GetNodeId() != s.own.ID || r[0].GetState() != string(ares.SeatClaimed) {
		t.Errorf("the ranks are %v", r)
	}
	// After a restart of its agent, the node has another session, and still the seat.
	was := s.ref(s.own)
	s.own.Open(t, s.store, time.Minute)
	for ref, want := range map[*apipb.SessionRef]ares.Code{was: ares.Fenced, s.ref(s.own): ""} {
		if e := s.l.take(); len(e) != 0 {
			t.Errorf("recorded %+v", e)
		}
		_, err = apipb.NewAgentServiceClient(s.conn).ListRanks(as(t.Context(), nodeToken), &apipb.ListRanksRequest{Ref: ref, Seat: s.seatRef()})
		if ares.CodeOf(apipb.FromStatus(err)) != want {
			t.Errorf("session %d: %v", ref.GetSession(), err)
		}
		if want != "" {
			s.l.take()
		}
	}
}

// TestRankSessionIsForItsAttempt names seats that the node has not claimed. No command is offered, and each call is recorded.
func TestRankSessionIsForItsAttempt(t *testing.T) {
	s := newSessionStage(t)
	other := s.submitAs(s.alice, "second")
	for name, spoil := range map[string]func(*apipb.RunRankSessionRequest){
		"an old fence":    func(r *apipb.RunRankSessionRequest) { r.Seat.Fence-- },
		"a later fence":   func(r *apipb.RunRankSessionRequest) { r.Seat.Fence++ },
		"another rank":    func(r *apipb.RunRankSessionRequest) { r.Seat.Rank = 1 },
		"another job":     func(r *apipb.RunRankSessionRequest) { r.Seat.JobId = other },
		"another node":    func(r *apipb.RunRankSessionRequest) { r.Ref = s.ref(s.stranger) },
		"another session": func(r *apipb.RunRankSessionRequest) { r.Ref.Session = s.stranger.Session },
	} {
		s.l.take()
		req := s.rankRequest()
		spoil(req)
		s.wants(name, rankFailure(s.beginRank(t.Context(), req)), ares.Fenced)
		if e := s.l.take(); len(e) != 1 || e[0].Status != audit.Refused || e[0].Action != "RUN_RANK_SESSION" || e[0].Object != req.GetSeat().GetJobId() {
			t.Errorf("%s is recorded as %+v", name, e)
		}
	}
	for name, spoil := range map[string]func(*apipb.RunRankSessionRequest){
		"no command": func(r *apipb.RunRankSessionRequest) { r.Exec = nil },
		"a terminal": func(r *apipb.RunRankSessionRequest) { r.Exec.Terminal = &apipb.TerminalSize{Columns: 80, Rows: 24} },
	} {
		req := s.rankRequest()
		spoil(req)
		s.wants(name, rankFailure(s.beginRank(t.Context(), req)), ares.Invalid, "exec")
	}
	req := s.rankRequest()
	req.Rank = 1
	s.wants("a rank that does not exist", rankFailure(s.beginRank(t.Context(), req)), ares.NotFound, "ranks 0 to 0, but rank 1")
	select {
	case offer := <-s.offers:
		t.Errorf("offered %v", offer)
	default:
	}
}

// TestRankSessionLimit opens more commands than a job may have. A user still gets a session.
func TestRankSessionLimit(t *testing.T) {
	s := newSessionStage(t, func(x *service.Sessions) { x.TicketLife = time.Hour })
	const limit = 256
	ctx, end := context.WithCancel(t.Context())
	for n := range limit {
		if n%100 == 0 {
			s.conn = s.dial() // a connection has at most 256 streams
		}
		s.beginRank(ctx, s.rankRequest())
		s.offer()
	}
	refused := make(chan error, 1)
	more := s.beginRank(ctx, s.rankRequest())
	go func() { refused <- rankFailure(more) }()
	select {
	case err := <-refused:
		s.wants("one more", err, ares.LimitReached, "256 commands of ares rank exec")
	case <-s.offers:
		t.Error("one more is offered to the node")
	}
	user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
	if offer := s.offer(); offer.GetByJob() || offer.GetUser() != "token:a/alice" {
		t.Errorf("the user is offered as %v", offer)
	}
	_ = user.CloseSend()
	end()
}
