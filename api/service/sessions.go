package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/sessionrecording"
)

const (
	// maxJobCommands and maxJobConnections are the maximum numbers of open sessions of one job at a server, with a command and with a
	// connection to a port. A node has the same limits.
	maxJobCommands    = 8
	maxJobConnections = 64
	// maxRankCommands is the maximum number of open commands of one job in its own ranks, at a server.
	maxRankCommands = 256
	// ticketLife is how long an agent may take to join a session.
	ticketLife = 10 * time.Second
	// ticketSize is the number of random bytes in a ticket.
	ticketSize = 32
	// maxSessionTime is the longest time of a session, and maxSessionIdle that without any data.
	maxSessionTime = 12 * time.Hour
	maxSessionIdle = time.Hour
)

// Sessions connects users with running jobs, over the connections that the agents opened: it offers the session to the node's agent with a
// ticket, and the agent joins it with a stream of its own.
type Sessions struct {
	Files *Files
	// Recorder records sessions. If it is nil, none is recorded.
	Recorder *sessionrecording.Recorder

	// MaxTime, MaxIdle and TicketLife are constants, except that tests change them. 0 means the constant.
	MaxTime, MaxIdle, TicketLife time.Duration

	mu      sync.Mutex
	tickets map[[sha256.Size]byte]*ticket // by the hash of the ticket, so that a lookup tells nothing about it
	perJob  map[sessionKind]int
}

// A sessionKind is what the limit of open sessions counts: connections, commands of users, or commands of the job in its own ranks.
type sessionKind struct {
	job       ares.JobID
	isForward bool
	byJob     bool
}

// A `ticket` is an offer of a session to an agent.
type ticket struct {
	node   string
	seat   *apipb.SeatRef
	until  time.Time
	start  *apipb.SessionStart
	joined chan apipb.AgentService_JoinSessionServer // has room for the agent's stream; closed if the ticket was misused
	over   chan struct{}                             // closed when the session has ended
}

// sessionTarget is the rank with which a user wants a session.
type sessionTarget struct {
	job    ares.JobID
	tenant string
	name   string // of the job
	node   string
	seat   *apipb.SeatRef
	// byJob means that a process of the job has begun the session, and no user. It may last as long as the attempt, and be silent: a
	// launcher keeps the commands open with which it has started its daemons.
	byJob bool
}

// sessionPeer is the job's side of a session: an agent, or the server to which the agent is connected.
type sessionPeer interface {
	Send(*apipb.SessionInput) error
	Recv() (*apipb.SessionOutput, error)
}

// A `sessionUser` is the user's side of a session.
type sessionUser interface {
	Send(*apipb.RunSessionResponse) error
	Recv() (*apipb.RunSessionRequest, error)
}

// serve runs one session, and returns when it has ended. The result is nil if the user has been told how the session ended.
func (s *Sessions) serve(ctx context.Context, to sessionTarget, route *sessionRoute, first *apipb.RunSessionRequest, user sessionUser) (*apipb.SessionEnd, error) {
	leave, err := s.enter(sessionKind{job: to.job, isForward: first.GetStart().GetForward() != nil})
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(s.MaxTime, maxSessionTime),
		ares.Errorf(ares.LimitReached, "the session has reached the longest time of a session, %s: start a new one", orDefault(s.MaxTime, maxSessionTime)))
	defer cancel()
	if route.node == nil {
		return s.elsewhere(ctx, to, first, user)
	}
	if user, err = route.record(ctx, s.Recorder, first.GetStart(), user); err != nil {
		return nil, err
	}
	return s.connect(ctx, to, route.node, &apipb.SessionOffer{User: pipeline.CallerName(ctx)}, first.GetStart(), user)
}

// connect runs a session at a node that is connected to this server.
func (s *Sessions) connect(ctx context.Context, to sessionTarget, node *bulk, offer *apipb.SessionOffer, start *apipb.SessionStart, user sessionUser) (*apipb.SessionEnd, error) {
	t, forget, err := s.offer(node, to, offer, start)
	if err != nil {
		return nil, err
	}
	defer forget()
	stream, err := s.await(ctx, node, t)
	if err != nil {
		return nil, err
	}
	return s.relay(ctx, agentPeer{stream}, user, to)
}

// enter counts a session of a job.
func (s *Sessions) enter(k sessionKind) (leave func(), err error) {
	limit, what := maxJobCommands, "commands of sessions"
	switch {
	case k.isForward:
		limit, what = maxJobConnections, "connections of ares forward"
	case k.byJob:
		limit, what = maxRankCommands, "commands of ares rank exec"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.perJob == nil {
		s.perJob = map[sessionKind]int{}
	}
	if s.perJob[k] >= limit {
		return nil, ares.Errorf(ares.LimitReached, "job %s has %d %s, which is the limit: end one of them first", k.job, limit, what)
	}
	s.perJob[k]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.perJob[k]--; s.perJob[k] == 0 {
			delete(s.perJob, k)
		}
	}, nil
}

// offer sends a ticket to the agent. It completes the offer.
func (s *Sessions) offer(b *bulk, to sessionTarget, offer *apipb.SessionOffer, start *apipb.SessionStart) (t *ticket, forget func(), err error) {
	secret := make([]byte, ticketSize)
	_, _ = rand.Read(secret) // never fails
	t = &ticket{
		node: to.node, seat: to.seat, start: start, until: time.Now().Add(orDefault(s.TicketLife, ticketLife)),
		joined: make(chan apipb.AgentService_JoinSessionServer, 1), over: make(chan struct{}),
	}
	hash := sha256.Sum256(secret)
	s.mu.Lock()
	if s.tickets == nil {
		s.tickets = map[[sha256.Size]byte]*ticket{}
	}
	s.tickets[hash] = t
	s.mu.Unlock()
	forget = func() {
		s.mu.Lock()
		delete(s.tickets, hash)
		s.mu.Unlock()
		close(t.over)
	}
	offer.Ticket, offer.Seat = secret, to.seat
	if err = b.send(&apipb.ServeFilesResponse{Session: offer}); err != nil {
		forget()
		return nil, nil, sessionAway(to.node)
	}
	return t, forget, nil
}

// await waits until the agent has joined the session.
func (s *Sessions) await(ctx context.Context, b *bulk, t *ticket) (apipb.AgentService_JoinSessionServer, error) {
	timer := time.NewTimer(time.Until(t.until))
	defer timer.Stop()
	select {
	case stream, ok := <-t.joined:
		if !ok {
			return nil, ares.Errorf(ares.Unavailable, "node %s could not join the session, because its ticket was used wrongly: try again, and see the server's log", t.node)
		}
		return stream, nil
	case <-b.gone:
		return nil, sessionAway(t.node)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		version := ""
		if n := s.Files.View.Node(t.node); n != nil {
			version = n.Node.Version
		}
		return nil, ares.Errorf(ares.Unavailable, "node %s (version %q) did not join the session within %s: try again, or update its agent if it has no sessions yet",
			t.node, version, orDefault(s.TicketLife, ticketLife))
	}
}

// redeem uses up a ticket. Whatever is wrong with its use, the ticket is not valid a second time.
func (s *Sessions) redeem(hello *apipb.JoinSessionRequest) (*ticket, error) {
	hash := sha256.Sum256(hello.GetTicket())
	s.mu.Lock()
	t := s.tickets[hash]
	delete(s.tickets, hash)
	s.mu.Unlock()
	if t == nil || !time.Now().Before(t.until) {
		return nil, ares.Errorf(ares.Forbidden, "ticket: is unknown, was used before, or is older than %s: the user must start a new session", orDefault(s.TicketLife, ticketLife)).At("ticket")
	}
	seat := hello.GetSeat()
	if hello.GetRef().GetNodeId() != t.node || seat.GetJobId() != t.seat.GetJobId() || seat.GetFence() != t.seat.GetFence() || seat.GetRank() != t.seat.GetRank() {
		close(t.joined)
		return nil, ares.Errorf(ares.Forbidden, "ticket: is for another node or another rank: the user must start a new session").At("ticket")
	}
	return t, nil
}

// JoinSession implements apipb.AgentServiceServer.
func (d *AgentService) JoinSession(stream apipb.AgentService_JoinSessionServer) error {
	hello, err := stream.Recv()
	if err != nil {
		return err
	}
	if err = d.Store.CheckSession(stream.Context(), hello.GetRef().GetNodeId(), hello.GetRef().GetSession()); err != nil {
		return err
	}
	if d.Sessions == nil {
		return ares.Errorf(ares.Unavailable, "this server has no sessions")
	}
	t, err := d.Sessions.redeem(hello)
	if err != nil {
		return err
	}
	if err = stream.Send(&apipb.JoinSessionResponse{Start: t.start}); err != nil {
		return err
	}
	t.joined <- stream
	select {
	case <-t.over:
		return nil
	case <-stream.Context().Done():
		return context.Cause(stream.Context())
	}
}

// relay passes the messages of a session in both directions until it ends.
func (s *Sessions) relay(ctx context.Context, peer sessionPeer, user sessionUser, to sessionTarget) (*apipb.SessionEnd, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := newIdleTimer(orDefault(s.MaxIdle, maxSessionIdle), cancel)
	defer idle.stop()
	if to.byJob {
		idle.stop()
	}
	type result struct {
		end *apipb.SessionEnd
		err error
	}
	ended := make(chan result, 2)
	go func() {
		for {
			m, err := user.Recv()
			if err == nil && m.GetInput() == nil {
				err = ares.Errorf(ares.Invalid, "input: is required in each message after the first").At("input")
			}
			if err == nil {
				idle.touch()
				if peer.Send(m.GetInput()) != nil {
					err = sessionLost(to.node)
				}
			}
			if err != nil {
				ended <- result{err: err}
				return
			}
		}
	}()
	go func() {
		for {
			out, err := peer.Recv()
			if err != nil || out == nil {
				ended <- result{err: peerError(err, to.node)}
				return
			}
			idle.touch()
			if err := user.Send(&apipb.RunSessionResponse{Output: out}); err != nil {
				ended <- result{err: err}
				return
			}
			if end := out.GetEnd(); end != nil {
				ended <- result{end: end}
				return
			}
		}
	}()
	select {
	case r := <-ended:
		return r.end, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// peerError returns the error for a session whose other side is gone. The message of another server is passed on.
func peerError(err error, node string) error {
	if known := apipb.FromStatus(err); known != nil && ares.CodeOf(known) != ares.Internal && ares.CodeOf(known) != ares.Unavailable {
		return known
	}
	return sessionLost(node)
}

// idleTimer ends a session in which nothing happens.
type idleTimer struct {
	after time.Duration
	last  atomic.Int64 // nanoseconds since began
	began time.Time
	mu    sync.Mutex
	timer *time.Timer
}

func newIdleTimer(after time.Duration, cancel context.CancelCauseFunc) *idleTimer {
	t := &idleTimer{after: after, began: time.Now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(after, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		left := after - (time.Since(t.began) - time.Duration(t.last.Load()))
		if left > 0 {
			t.timer.Reset(left)
			return
		}
		cancel(ares.Errorf(ares.LimitReached, "nothing happened in the session for %s, so it was ended: start a new one", after))
	})
	return t
}

func (t *idleTimer) touch() { t.last.Store(int64(time.Since(t.began))) }

func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

// agentPeer is the agent of the node, which is connected to this server.
type agentPeer struct {
	stream apipb.AgentService_JoinSessionServer
}

func (p agentPeer) Send(m *apipb.SessionInput) error {
	return p.stream.Send(&apipb.JoinSessionResponse{Input: m})
}

func (p agentPeer) Recv() (*apipb.SessionOutput, error) {
	m, err := p.stream.Recv()
	return m.GetOutput(), err
}

// serverPeer is another server.
type serverPeer struct {
	stream apipb.SessionService_RunSessionClient
}

func (p serverPeer) Send(m *apipb.SessionInput) error {
	return p.stream.Send(&apipb.RunSessionRequest{Input: m})
}

func (p serverPeer) Recv() (*apipb.SessionOutput, error) {
	m, err := p.stream.Recv()
	return m.GetOutput(), err
}

// elsewhere forwards a session to the server to which the node is connected, with the caller's own token. That server checks and records
// the session as this one does.
func (s *Sessions) elsewhere(ctx context.Context, to sessionTarget, first *apipb.RunSessionRequest, user sessionUser) (*apipb.SessionEnd, error) {
	f := s.Files
	n := f.View.Node(to.node)
	if n == nil || n.Session == nil || n.Session.Server == f.Server || isForwarded(ctx) {
		return nil, sessionAway(to.node)
	}
	conn, err := f.dial(n.Session.Server)
	if err != nil {
		return nil, sessionAway(to.node)
	}
	defer func() { _ = conn.Close() }()
	stream, err := apipb.NewSessionServiceClient(conn).RunSession(asForwarded(ctx))
	if err == nil {
		err = stream.Send(first)
	}
	if err != nil {
		return nil, sessionAway(to.node)
	}
	return s.relay(ctx, serverPeer{stream}, user, to)
}

func sessionAway(node string) error {
	return ares.Errorf(ares.Unavailable, "node %s is not connected: try again when it has reconnected", node)
}

func sessionLost(node string) error {
	return ares.Errorf(ares.Unavailable, "the connection to node %s was lost: the session has ended, and its command with it", node)
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// resultOf describes the end of a session for the audit log and for its recording.
func resultOf(end *apipb.SessionEnd, err error) string {
	switch {
	case err != nil:
		return ares.Truncate(ares.Printable(err.Error()), maxReasonText)
	case end.GetError() != "":
		return ares.Truncate(ares.Printable(end.GetError()), maxReasonText)
	case end.GetSignal() != 0:
		return fmt.Sprintf("signal %d", end.GetSignal())
	}
	return fmt.Sprintf("exit code %d", end.GetExitCode())
}
