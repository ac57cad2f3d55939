package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/sessionrecording"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// A sessionStage is a server with two nodes. A job of alice's runs on the first one. The test acts as the agents.
type sessionStage struct {
	*house
	l        *ledger
	conn     *grpc.ClientConn
	sessions *service.Sessions
	alice    string // token of a submitter
	id       string
	lead     *store.Leadership
	own      *storetest.Node
	stranger *storetest.Node
	seat     store.SeatRef
	offers   chan *apipb.SessionOffer // what the server offers to the first node
}

func newSessionStage(t *testing.T, change ...func(*service.Sessions)) *sessionStage {
	t.Helper()
	s := &sessionStage{l: newLedger(), offers: make(chan *apipb.SessionOffer, 100)}
	s.house = newHouse(t, func(c *Config) {
		files := &service.Files{View: c.View}
		s.sessions = &service.Sessions{Files: files}
		for _, f := range change {
			f(s.sessions)
		}
		c.Audit, c.Sessions = s.l, s.sessions
		c.AgentService = &service.AgentService{
			Store: c.Store, View: c.View, Files: files, Sessions: s.sessions, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now,
		}
	})
	s.conn = s.dial()
	must(t, s.store.RegisterTenant(t.Context(), ares.Tenant{ID: "a", Name: "a", Limits: ares.NoLimits(), Weight: 1}))
	s.alice = s.user("alice", ares.Submitter)
	s.seen()
	s.lead, _ = storetest.NewLead(t, s.store)
	s.own, s.stranger = storetest.NewNode(t, s.store), storetest.NewNode(t, s.store)
	s.id = s.submitAs(s.alice, "first")
	s.seat = s.claim(s.id)
	stream, err := apipb.NewAgentServiceClient(s.conn).ServeFiles(as(t.Context(), nodeToken))
	must(t, err)
	must(t, stream.Send(&apipb.ServeFilesRequest{Ref: s.ref(s.own)}))
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if m.GetSession() != nil {
				s.offers <- m.GetSession()
			}
		}
	}()
	s.awaitAgent()
	return s
}

// The method `claim` lets a job run on the first node.
func (s *sessionStage) claim(id string) store.SeatRef {
	s.t.Helper()
	snap, err := s.store.Job(s.t.Context(), ares.JobID(id))
	must(s.t, err)
	seats := storetest.Place(s.t, s.store, s.lead, snap.Job, s.own)
	storetest.Claim(s.t, s.store, seats, s.own)
	return seats[0]
}

// awaitAgent waits until the server can offer sessions to the agent.
func (s *sessionStage) awaitAgent() {
	s.t.Helper()
	for isConnected := false; !isConnected; {
		ctx, cancel := context.WithCancel(s.t.Context())
		ended := make(chan error, 1)
		user := s.begin(ctx, s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
		go func() { ended <- failure(user) }()
		select {
		case <-s.offers:
			isConnected = true
			cancel()
			<-ended
		case <-ended:
			cancel()
			select {
			case <-s.offers: // the session ended before the agent could join it
				isConnected = true
			default:
			}
		}
		s.awaitEnd()
	}
}

// awaitEnd waits until the end of a session is recorded.
func (s *sessionStage) awaitEnd() {
	for ended := false; !ended; {
		for _, e := range s.l.next() {
			ended = ended || strings.HasPrefix(e.Detail, "end after")
		}
	}
}

func (s *sessionStage) user(name string, role ares.Role) string {
	s.t.Helper()
	token, hash := auth.NewToken()
	must(s.t, s.store.PutToken(s.t.Context(), store.Token{Name: "a/" + name, Hash: hash, Bindings: []ares.Binding{{Role: role, Tenant: "a"}}}))
	s.cfg.Auth.Changed()
	return token
}

func (s *sessionStage) submitAs(token, request string, more ...any) string {
	s.t.Helper()
	a := s.do("POST", "/api/v1/jobs", job(append(more, "tenant_id", "a", "request_id", request)...), bearer(token))
	if a.code != 201 {
		s.t.Fatalf("submit: %d %s", a.code, a.body)
	}
	return a.json["job_id"].(string)
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func (s *sessionStage) ref(n *storetest.Node) *apipb.SessionRef {
	return &apipb.SessionRef{NodeId: n.ID, Session: n.Session}
}

func (s *sessionStage) seatRef() *apipb.SeatRef {
	return &apipb.SeatRef{JobId: s.id, Fence: int64(s.seat.Fence)}
}

func execStart(argv ...string) *apipb.SessionStart {
	return &apipb.SessionStart{Action: &apipb.SessionStart_Exec{Exec: &apipb.ExecStart{Argv: argv}}}
}

type userStream = grpc.BidiStreamingClient[apipb.RunSessionRequest, apipb.RunSessionResponse]

// The method `begin` begins a session as a user.
func (s *sessionStage) begin(ctx context.Context, token string, first *apipb.RunSessionRequest) userStream {
	s.t.Helper()
	stream, err := apipb.NewSessionServiceClient(s.conn).RunSession(as(ctx, token))
	must(s.t, err)
	must(s.t, stream.Send(first))
	return stream
}

// The method `offer` waits for the offer of a session.
func (s *sessionStage) offer() *apipb.SessionOffer {
	s.t.Helper()
	select {
	case o := <-s.offers:
		return o
	case <-time.After(time.Minute):
		s.t.Fatal("no session was offered")
		return nil
	}
}

// The method `join` joins a session as an agent, and returns what the session does.
func (s *sessionStage) join(n *storetest.Node, seat *apipb.SeatRef, ticket []byte) (apipb.AgentService_JoinSessionClient, *apipb.SessionStart, error) {
	s.t.Helper()
	stream, err := apipb.NewAgentServiceClient(s.conn).JoinSession(as(s.t.Context(), nodeToken))
	must(s.t, err)
	must(s.t, stream.Send(&apipb.JoinSessionRequest{Ref: s.ref(n), Seat: seat, Ticket: ticket}))
	m, err := stream.Recv()
	return stream, m.GetStart(), apipb.FromStatus(err)
}

// The function `failure` reads a user's stream until it fails.
func failure(stream userStream) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return apipb.FromStatus(err)
		}
	}
}

func (s *sessionStage) wants(what string, err error, code ares.Code, words ...string) {
	s.t.Helper()
	if ares.CodeOf(err) != code {
		s.t.Errorf("%s: %v (%s), want %s", what, err, ares.CodeOf(err), code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			s.t.Errorf("%s: %v, want %q", what, err, w)
		}
	}
}

func TestSession(t *testing.T) {
	s := newSessionStage(t)
	s.l.take()
	user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("echo", "hello")})
	offer := s.offer()
	if len(offer.GetTicket()) != 32 || offer.GetUser() != "token:a/alice" || offer.GetSeat().GetJobId() != s.id {
		t.Errorf("offer %v", offer)
	}
	agent, start, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	must(t, err)
	if argv := start.GetExec().GetArgv(); strings.Join(argv, " ") != "echo hello" {
		t.Errorf("the agent runs %q", argv)
	}
	must(t, agent.Send(&apipb.JoinSessionRequest{Output: &apipb.SessionOutput{Output: &apipb.SessionOutput_Data{Data: []byte("hello")}}}))
	m, err := user.Recv()
	must(t, err)
	if string(m.GetOutput().GetData()) != "hello" {
		t.Errorf("the user reads %v", m)
	}
	must(t, user.Send(&apipb.RunSessionRequest{Input: &apipb.SessionInput{Input: &apipb.SessionInput_Data{Data: []byte("typed")}}}))
	in, err := agent.Recv()
	must(t, err)
	if string(in.GetInput().GetData()) != "typed" {
		t.Errorf("the agent reads %v", in)
	}
	begin := s.l.one(t, "the begin of the session")
	if begin.Action != "RUN_SESSION" || begin.Object != s.id || begin.User != "token:a/alice" || begin.Tenant != "a" || begin.Status != audit.Done || begin.Detail != "begin of exec in rank 0" {
		t.Errorf("recorded %+v", begin)
	}
	must(t, agent.Send(&apipb.JoinSessionRequest{Output: &apipb.SessionOutput{Output: &apipb.SessionOutput_End{End: &apipb.SessionEnd{ExitCode: 7}}}}))
	if m, err = user.Recv(); err != nil || m.GetOutput().GetEnd().GetExitCode() != 7 {
		t.Errorf("the end is %v, %v", m, err)
	}
	if _, err = user.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if _, err = agent.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the agent's stream: %v", err)
	}
	end := s.l.next()[0]
	if end.Action != "RUN_SESSION" || end.Object != s.id || end.Status != audit.Done || !strings.HasPrefix(end.Detail, "end after ") || !strings.HasSuffix(end.Detail, "exit code 7") {
		t.Errorf("recorded %+v", end)
	}
	if strings.Contains(s.log.String(), "hello") {
		t.Error("the server's log has the user's data")
	}
}

// TestSessionTickets uses tickets twice, late, at another node and for another rank. No use gets a session, and each uses the ticket up.
func TestSessionTickets(t *testing.T) {
	s := newSessionStage(t)
	for name, use := range map[string]func(*apipb.SessionOffer) error{
		"another node": func(o *apipb.SessionOffer) error {
			_, _, err := s.join(s.stranger, o.GetSeat(), o.GetTicket())
			return err
		},
		"another rank": func(o *apipb.SessionOffer) error {
			seat := s.seatRef()
			seat.Rank = 1
			_, _, err := s.join(s.own, seat, o.GetTicket())
			return err
		},
		"another attempt": func(o *apipb.SessionOffer) error {
			seat := s.seatRef()
			seat.Fence++
			_, _, err := s.join(s.own, seat, o.GetTicket())
			return err
		},
		"another job": func(o *apipb.SessionOffer) error {
			seat := s.seatRef()
			seat.JobId = string(ares.NewJobID("a", "other"))
			_, _, err := s.join(s.own, seat, o.GetTicket())
			return err
		},
	} {
		user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
		offer := s.offer()
		s.wants(name, use(offer), ares.Forbidden, "another node or another rank")
		s.wants(name+": the user", failure(user), ares.Unavailable, "used wrongly")
		_, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
		s.wants(name+": then the right one", err, ares.Forbidden, "used before")
	}
	user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
	offer := s.offer()
	for name, ticket := range map[string][]byte{"no ticket": nil, "a short ticket": offer.GetTicket()[:31], "an invented ticket": make([]byte, 32)} {
		_, _, err := s.join(s.own, offer.GetSeat(), ticket)
		s.wants(name, err, ares.Forbidden, "unknown")
	}
	if _, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket()); err != nil {
		t.Errorf("the right use: %v", err)
	}
	_, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	s.wants("a second use", err, ares.Forbidden, "used before")
	_ = user.CloseSend()
	_ = failure(user)
	s.l.take()

	// After the user has left, the ticket is worthless.
	ctx, cancel := context.WithCancel(t.Context())
	user = s.begin(ctx, s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
	offer = s.offer()
	cancel()
	_ = failure(user)
	s.awaitEnd()
	_, _, err = s.join(s.own, offer.GetSeat(), offer.GetTicket())
	s.wants("without a user", err, ares.Forbidden, "unknown")
}

func TestSessionTicketLate(t *testing.T) {
	s := newSessionStage(t, func(x *service.Sessions) { x.TicketLife = time.Millisecond })
	user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
	offer := s.offer()
	s.wants("the user", failure(user), ares.Unavailable, "did not join the session", "update its agent")
	_, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	s.wants("a late use", err, ares.Forbidden, "older than")
}

// TestSessionOwner checks who may have a session with a job: the user who submitted it, and administrators of the tenant.
func TestSessionOwner(t *testing.T) {
	s := newSessionStage(t)
	bob, admin := s.user("bob", ares.Submitter), s.user("admin", ares.TenantAdmin)
	s.seen()
	first := &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")}
	s.wants("another submitter", failure(s.begin(t.Context(), bob, first)), ares.Forbidden, "submitted by token:a/alice")
	for name, token := range map[string]string{"the administrator": admin, "the submitter": s.alice, "a platform administrator": adminToken} {
		user := s.begin(t.Context(), token, first)
		offer := s.offer()
		if _, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = user.CloseSend()
		_ = failure(user)
	}
	// A session ends when its user loses the right to it.
	user := s.begin(t.Context(), admin, first)
	offer := s.offer()
	agent, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	must(t, err)
	_, err = s.store.RevokeToken(t.Context(), "a/admin", "token:a/admin")
	must(t, err)
	s.cfg.Auth.Changed()
	s.wants("without its token", failure(user), ares.Unauthentic)
	for err == nil {
		_, err = agent.Recv()
	}
}

func TestSessionBadInput(t *testing.T) {
	s := newSessionStage(t)
	pending := s.submitAs(s.alice, "second")
	for name, c := range map[string]struct {
		first *apipb.RunSessionRequest
		code  ares.Code
		words []string
	}{
		"no job":        {&apipb.RunSessionRequest{Start: execStart("true")}, ares.NotFound, nil},
		"unknown job":   {&apipb.RunSessionRequest{JobId: string(ares.NewJobID("a", "none")), Start: execStart("true")}, ares.NotFound, nil},
		"no start":      {&apipb.RunSessionRequest{JobId: s.id}, ares.Invalid, []string{"exec, forward or attach"}},
		"no command":    {&apipb.RunSessionRequest{JobId: s.id, Start: execStart()}, ares.Invalid, []string{"start.exec.argv"}},
		"rank":          {&apipb.RunSessionRequest{JobId: s.id, Rank: 1, Start: execStart("true")}, ares.NotFound, []string{"ranks 0 to 0", "rank 1"}},
		"negative rank": {&apipb.RunSessionRequest{JobId: s.id, Rank: -1, Start: execStart("true")}, ares.Invalid, []string{"rank"}},
		"pending job":   {&apipb.RunSessionRequest{JobId: pending, Start: execStart("true")}, ares.Conflict, []string{"not running (state: pending)", "ares job explain " + pending}},
		"port 0":        {&apipb.RunSessionRequest{JobId: s.id, Start: &apipb.SessionStart{Action: &apipb.SessionStart_Forward{Forward: &apipb.ForwardStart{}}}}, ares.Invalid, []string{"start.forward.port"}},
		"no terminal": {&apipb.RunSessionRequest{JobId: s.id, Start: &apipb.SessionStart{Action: &apipb.SessionStart_Exec{
			Exec: &apipb.ExecStart{Argv: []string{"sh"}, Terminal: &apipb.TerminalSize{}},
		}}}, ares.Invalid, []string{"columns", "rows"}},
		"no input":   {attachStart(s.id, &apipb.AttachStart{Writer: strings.Repeat("a", 32)}), ares.Invalid, []string{"has no standard input", "--stdin or --tty"}},
		"bad writer": {attachStart(s.id, &apipb.AttachStart{Writer: "a b\n"}), ares.Invalid, []string{"start.attach.writer"}},
		"tail":       {attachStart(s.id, &apipb.AttachStart{Writer: strings.Repeat("a", 32), TailLines: 10_001}), ares.Invalid, []string{"start.attach.tail_lines"}},
	} {
		s.wants(name, failure(s.begin(t.Context(), s.alice, c.first)), c.code, c.words...)
	}
	for name, in := range map[string]*apipb.SessionInput{
		"resize 0x0": {Input: &apipb.SessionInput_Resize{Resize: &apipb.TerminalSize{}}},
		"signal 0":   {Input: &apipb.SessionInput_Signal{}},
		"signal 65":  {Input: &apipb.SessionInput_Signal{Signal: 65}},
		"large data": {Input: &apipb.SessionInput_Data{Data: make([]byte, 65537)}},
		"no input":   nil,
	} {
		user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("sh")})
		offer := s.offer()
		_, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
		must(t, err)
		must(t, user.Send(&apipb.RunSessionRequest{Input: in}))
		s.wants(name, failure(user), ares.Invalid, "input")
	}
}

func attachStart(job string, start *apipb.AttachStart) *apipb.RunSessionRequest {
	return &apipb.RunSessionRequest{JobId: job, Start: &apipb.SessionStart{Action: &apipb.SessionStart_Attach{Attach: start}}}
}

// TestAttachSession attaches to a job with an input. The ticket, the input and the rights of the user are checked as for commands.
func TestAttachSession(t *testing.T) {
	s := newSessionStage(t)
	id := s.submitAs(s.alice, "console", "tty", true)
	s.claim(id)
	s.seen()
	unbound, hash := auth.NewToken()
	must(t, s.store.PutToken(t.Context(), store.Token{Name: "a/unbound", Hash: hash}))
	binding := store.Binding{Subject: "token:a/unbound", Binding: ares.Binding{Role: ares.TenantAdmin, Tenant: "a"}}
	_, err := s.store.CreateBinding(t.Context(), binding)
	must(t, err)
	s.cfg.Auth.Changed()
	s.seen()
	for name, c := range map[string]struct {
		token string
		end   func(user userStream)
		code  ares.Code
		words []string
	}{
		"resize 0x0": {s.alice, func(user userStream) {
			must(t, user.Send(&apipb.RunSessionRequest{Input: &apipb.SessionInput{Input: &apipb.SessionInput_Resize{Resize: &apipb.TerminalSize{}}}}))
		}, ares.Invalid, []string{"columns", "rows"}},
		"revoked": {s.user("boss", ares.TenantAdmin), func(userStream) {
			_, err := s.store.RevokeToken(t.Context(), "a/boss", "token:a/boss")
			must(t, err)
			s.cfg.Auth.Changed()
		}, ares.Unauthentic, []string{"token"}},
		"unbound": {unbound, func(userStream) {
			_, err := s.store.DeleteBinding(t.Context(), binding)
			must(t, err)
			s.cfg.Auth.Changed()
		}, ares.Forbidden, []string{"job.exec"}},
	} {
		user := s.begin(t.Context(), c.token, attachStart(id, &apipb.AttachStart{Writer: strings.Repeat("a", 32)}))
		offer := s.offer()
		if _, _, err := s.join(s.stranger, offer.GetSeat(), []byte("no ticket")); ares.CodeOf(err) != ares.Forbidden {
			t.Errorf("%s: another node joins without the ticket: %v", name, err)
		}
		agent, start, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
		must(t, err)
		if start.GetAttach().GetWriter() == "" {
			t.Errorf("%s: the agent begins %v", name, start)
		}
		_, _, err = s.join(s.own, offer.GetSeat(), offer.GetTicket())
		s.wants(name+": a second use of the ticket", err, ares.Forbidden, "used before")
		must(t, agent.Send(&apipb.JoinSessionRequest{Output: &apipb.SessionOutput{Output: &apipb.SessionOutput_Attached{Attached: &apipb.SessionAttached{Attempt: 1, Terminal: true}}}}))
		m, err := user.Recv()
		if must(t, err); m.GetOutput().GetAttached().GetAttempt() != 1 {
			t.Errorf("%s: the user is told %v", name, m)
		}
		c.end(user)
		s.wants(name, failure(user), c.code, c.words...)
		for err = nil; err == nil; { // the agent's side ends too
			_, err = agent.Recv()
		}
	}
}

func TestSessionLimits(t *testing.T) {
	s := newSessionStage(t)
	first := &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")}
	var users []userStream
	for range 8 {
		user := s.begin(t.Context(), s.alice, first)
		offer := s.offer()
		_, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
		must(t, err)
		users = append(users, user)
	}
	s.wants("the ninth session", failure(s.begin(t.Context(), s.alice, first)), ares.LimitReached, "8 commands", "end one of them")
	_ = users[0].CloseSend()
	_ = failure(users[0])
	user := s.begin(t.Context(), s.alice, first)
	if offer := s.offer(); offer.GetSeat().GetJobId() != s.id {
		t.Error("no session after one has ended")
	}
	_ = user.CloseSend()
}

func TestSessionTime(t *testing.T) {
	for what, change := range map[string]func(*service.Sessions){
		"nothing happened": func(x *service.Sessions) { x.MaxIdle = time.Millisecond },
		"longest time":     func(x *service.Sessions) { x.MaxTime = 200 * time.Millisecond },
	} {
		s := newSessionStage(t, change)
		user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
		offer := s.offer()
		agent, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
		// On a busy machine, the longest time may be over before the agent joins.
		s.wants(what, failure(user), ares.LimitReached, what, "start a new one")
		for err == nil {
			_, err = agent.Recv()
		}
	}
}

// TestSessionLost ends the agent's stream. The user is told that the command has ended too.
func TestSessionLost(t *testing.T) {
	s := newSessionStage(t)
	user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
	offer := s.offer()
	agent, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	must(t, err)
	must(t, agent.CloseSend())
	s.wants("the user", failure(user), ares.Unavailable, s.own.ID, "its command with it")
}

// TestUnrecordedSessions begins sessions that are not recorded, or whose recording cannot be begun.
func TestUnrecordedSessions(t *testing.T) {
	r := newRecordings(t)
	s := newSessionStage(t, func(x *service.Sessions) { x.Recorder = r })
	r.Mode = sessionrecording.Terminal
	s.l.take()
	user := s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")})
	offer := s.offer()
	agent, _, err := s.join(s.own, offer.GetSeat(), offer.GetTicket())
	must(t, err)
	must(t, agent.Send(&apipb.JoinSessionRequest{Output: &apipb.SessionOutput{Output: &apipb.SessionOutput_Started{Started: &apipb.SessionStarted{}}}}))
	m, err := user.Recv()
	must(t, err)
	if begin := s.l.one(t, "the begin"); m.GetOutput().GetStarted().GetRecorded() || begin.Detail != "begin of exec in rank 0" {
		t.Errorf("a session without a terminal is recorded: %v, %q", m, begin.Detail)
	}
	must(t, agent.Send(&apipb.JoinSessionRequest{Output: &apipb.SessionOutput{Output: &apipb.SessionOutput_End{End: &apipb.SessionEnd{}}}}))
	_ = failure(user)
	s.awaitEnd()

	r.Mode = sessionrecording.All
	must(t, r.Objects.Close()) // as if the disk had failed
	err = failure(s.begin(t.Context(), s.alice, &apipb.RunSessionRequest{JobId: s.id, Start: execStart("true")}))
	s.wants("a session whose recording cannot be begun", err, ares.Unavailable, "the session was refused")
	select {
	case <-s.offers:
		t.Error("the command was started without a recording")
	default:
	}
}
