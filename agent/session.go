package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

const (
	// maxCommands is the maximum number of commands of users on this node, and run.MaxExecs that of one job.
	maxCommands = 64
	// maxConnections is the maximum number of connections of users to jobs on this node, and maxJobConnections that to one job. A page in a
	// browser opens several.
	maxConnections    = 128
	maxJobConnections = 64
	// maxRankCommands is the maximum number of commands that processes of jobs run in the ranks of this node, and maxRankExecs that in one
	// rank, which must leave some of run.MaxExecs to users. A server allows 256 streams on one connection, so all that runs on the node must
	// be fewer. maxCallers is the maximum number of commands that processes of this node run in
	// other ranks, and run.JobCallers that of one rank.
	maxRankCommands = 48
	maxRankExecs    = 4
	maxCallers      = 128
	// joinTime is how long the agent tries to join a session. The server waits no longer.
	joinTime = 10 * time.Second
	// startTime is how long a session waits for the process of its rank to start, and startPause how often it looks.
	startTime  = 5 * time.Second
	startPause = 20 * time.Millisecond
	// dialTime is how long the agent tries to connect to a port of a job.
	dialTime = 10 * time.Second
)

// A `session` is one session of a user with a job on this node. Its data flows between the server's stream and the files of the command,
// or the connection.
type session struct {
	agent  *Agent
	key    run.Key
	byJob  bool // a process of the job has begun it, and no user
	stream apipb.AgentService_JoinSessionClient
	send   sync.Mutex // a gRPC stream allows only one sender at a time
	window *apipb.SendWindow
	input  inputQueue

	mu      sync.Mutex
	control func(*apipb.SessionInput) // handles what is neither data nor a confirmation; nil before the session has started
}

// joinSession joins a session that a server has offered, and serves it until it ends.
func (a *Agent) joinSession(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef, offer *apipb.SessionOffer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // this ends the stream
	late := time.AfterFunc(joinTime, cancel)
	key := keyOf(offer.GetSeat())
	s := &session{agent: a, key: key, byJob: offer.GetByJob(), window: apipb.NewSendWindow(), input: inputQueue{more: make(chan struct{}, 1)}}
	var start *apipb.SessionStart
	var err error
	if s.stream, err = c.JoinSession(ctx); err == nil {
		if err = s.stream.Send(&apipb.JoinSessionRequest{Ref: ref, Seat: offer.GetSeat(), Ticket: offer.GetTicket()}); err == nil {
			var m *apipb.JoinSessionResponse
			m, err = s.stream.Recv()
			start = m.GetStart()
		}
	}
	if err != nil || !late.Stop() {
		a.log.Info("a session was not joined", "seat", key, "error", apipb.FromStatus(err))
		return
	}
	began, level := time.Now(), slog.LevelInfo
	if s.byJob {
		level = slog.LevelDebug // a launcher makes thousands of them
	}
	a.log.Log(ctx, level, "session began", "seat", key, "user", offer.GetUser())
	serving, leave := context.WithCancelCause(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer cancel()
	receiving.Go(func() { s.receive(leave) })
	end, err := s.run(serving, start)
	if err != nil {
		end = &apipb.SessionEnd{Error: err.Error(), ErrorCode: string(ares.CodeOf(err))}
	}
	if serving.Err() == nil {
		_ = s.tell(&apipb.SessionOutput{Output: &apipb.SessionOutput_End{End: end}})
		_ = s.stream.CloseSend()
		<-serving.Done() // the server ends the stream when it has received everything
	}
	a.log.Log(ctx, level, "session ended", "seat", key, "user", offer.GetUser(), "after", time.Since(began).Round(time.Millisecond))
}

// run serves the session, and returns how it ended.
func (s *session) run(ctx context.Context, start *apipb.SessionStart) (*apipb.SessionEnd, error) {
	leave, err := s.agent.enterSession(s.kind(start))
	if err != nil {
		return nil, err
	}
	defer leave()
	proc, err := s.agent.startedProc(ctx, s.key)
	if err != nil {
		return nil, err
	}
	switch {
	case start.GetExec() != nil:
		return s.exec(ctx, proc, start.GetExec())
	case start.GetForward() != nil:
		return s.forward(ctx, proc, start.GetForward())
	case start.GetAttach() != nil:
		return s.attach(ctx, proc, start.GetAttach())
	}
	return nil, ares.Errorf(ares.FeatureDisabled, "node %s runs an earlier version of the agent, which has no such sessions: update it", s.agent.cfg.Node)
}

// A sessionKind is what the limits of sessions count apart: the commands and the connections of users with each job, and the commands of
// jobs in each rank, and from each rank. The job is then that rank. It is "" for all jobs of the node together.
type sessionKind struct {
	job  string
	from origin
}

// origin says who has begun a session, and how.
type origin int

const (
	byUser    origin = iota // a command of a user
	byForward               // a connection of a user
	byJob                   // a command that a process of the job runs in a rank of this node
	byCaller                // the same, in the count of the node with that process
	origins                 // the number of origins
)

// sessionLimits are the maximum numbers of sessions of each origin: of a node, and of a job or rank.
var sessionLimits = [origins]struct {
	node, each int
	what       string
}{
	byUser:    {maxCommands, run.MaxExecs, "commands of sessions"},
	byForward: {maxConnections, maxJobConnections, "connections of ares forward"},
	byJob:     {maxRankCommands, maxRankExecs, "commands of ares rank exec that run in it"},
	byCaller:  {maxCallers, run.JobCallers, "commands of ares rank exec that it has begun"},
}

func (s *session) kind(start *apipb.SessionStart) sessionKind {
	switch {
	case s.byJob:
		return sessionKind{s.key.String(), byJob}
	case start.GetForward() != nil:
		return sessionKind{s.key.Job, byForward}
	}
	return sessionKind{s.key.Job, byUser}
}

// enterSession counts a session of a job or rank.
func (a *Agent) enterSession(k sessionKind) (leave func(), err error) {
	limit := sessionLimits[k.from]
	all := sessionKind{from: k.from}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.sessions[k] >= limit.each && k.from >= byJob:
		key, _ := run.ParseKey(k.job)
		return nil, ares.Errorf(ares.LimitReached, "rank %d has %d %s, which is the limit: end one of them first", key.Rank, limit.each, limit.what)
	case a.sessions[k] >= limit.each:
		return nil, ares.Errorf(ares.LimitReached, "job %s has %d %s on node %s, which is the limit: end one of them first", k.job, limit.each, limit.what, a.cfg.Node)
	case a.sessions[all] >= limit.node:
		return nil, ares.Errorf(ares.Exhausted, "node %s has %d %s, which is the limit: try again later", a.cfg.Node, limit.node, limit.what)
	}
	a.sessions[all]++
	a.sessions[k]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.sessions[all]--
		if a.sessions[k]--; a.sessions[k] == 0 {
			delete(a.sessions, k)
		}
	}, nil
}

// errStarting means that the process of a seat does not run yet.
var errStarting = errors.New("still starting")

// startedProc waits a little for the process of a seat. A job is running when its ranks are claimed, which is a moment before their
// processes start.
func (a *Agent) startedProc(ctx context.Context, key run.Key) (*run.Proc, error) {
	waiting, done := context.WithTimeout(ctx, startTime)
	defer done()
	for {
		proc, err := a.runningProc(key)
		if !errors.Is(err, errStarting) {
			return proc, err
		}
		if !pause.For(waiting, startPause) {
			return nil, ares.Errorf(ares.Conflict, "rank %d of job %s is still starting on node %s: try again in a moment", key.Rank, key.Job, a.cfg.Node)
		}
	}
}

// runningProc returns the process of a seat that may have a session, or errStarting.
func (a *Agent) runningProc(key run.Key) (*run.Proc, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch s := a.seats[key]; {
	case s == nil || s.result != nil || s.foreign:
		return nil, ares.Errorf(ares.Conflict, "rank %d of job %s has ended on node %s: see `ares job get %s`", key.Rank, key.Job, a.cfg.Node, key.Job)
	case s.proc == nil:
		return nil, errStarting
	default:
		return s.proc, nil
	}
}

// exec runs a command beside the job.
func (s *session) exec(ctx context.Context, proc *run.Proc, start *apipb.ExecStart) (*apipb.SessionEnd, error) {
	cmd, size := run.Command{Argv: start.GetArgv()}, run.TerminalSize{}
	if t := start.GetTerminal(); t != nil {
		cmd.Terminal, size = true, sizeOf(t)
		if start.GetTerm() != "" {
			cmd.Env = []string{"TERM=" + start.GetTerm()}
		}
	}
	x, err := proc.Exec(ctx, cmd, size)
	if err != nil {
		return nil, s.problem(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		cancel()
		_ = x.Close()
	}()
	s.controlBy(func(m *apipb.SessionInput) {
		switch in := m.GetInput().(type) {
		case *apipb.SessionInput_Resize:
			_ = x.Resize(sizeOf(in.Resize)) // the command may just have ended
		case *apipb.SessionInput_Signal:
			_ = x.Signal(syscall.Signal(in.Signal))
		}
	})
	if err = s.tell(&apipb.SessionOutput{Output: &apipb.SessionOutput_Started{Started: &apipb.SessionStarted{}}}); err != nil {
		return nil, err
	}
	var outputs sync.WaitGroup
	outputs.Go(func() { s.copyOut(ctx, x.Output, dataOutput) })
	if x.Errors != nil {
		outputs.Go(func() { s.copyOut(ctx, x.Errors, errorOutput) })
	}
	wg.Go(func() { s.copyIn(ctx, x.Input, x.EndInput) })
	code, sig, err := x.Wait(ctx)
	if err != nil {
		return nil, s.problem(errors.Join(err, context.Cause(ctx)))
	}
	x.EndOutput()
	outputs.Wait()
	return &apipb.SessionEnd{ExitCode: int32(code), Signal: int32(sig)}, context.Cause(ctx)
}

func sizeOf(t *apipb.TerminalSize) run.TerminalSize {
	return run.TerminalSize{Columns: uint16(min(t.GetColumns(), 10_000)), Rows: uint16(min(t.GetRows(), 10_000))}
}

// problem returns the error for the user.
func (s *session) problem(err error) error {
	if errors.Is(err, run.ErrEnded) {
		return ares.Errorf(ares.Conflict, "rank %d of job %s has ended, and the session with it", s.key.Rank, s.key.Job)
	}
	if ares.CodeOf(err) != ares.Internal {
		return err
	}
	return ares.Errorf(ares.Conflict, "node %s: rank %d of job %s: %v", s.agent.cfg.Node, s.key.Rank, s.key.Job, err)
}

// forward connects to a port of the job.
func (s *session) forward(ctx context.Context, proc *run.Proc, start *apipb.ForwardStart) (*apipb.SessionEnd, error) {
	dialing, done := context.WithTimeout(ctx, dialTime)
	conn, err := proc.Dial(dialing, uint16(start.GetPort()))
	done()
	if err != nil {
		return nil, s.problem(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		cancel()
		_ = conn.Close()
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err = s.tell(&apipb.SessionOutput{Output: &apipb.SessionOutput_Started{Started: &apipb.SessionStarted{}}}); err != nil {
		return nil, err
	}
	wg.Go(func() { s.copyIn(ctx, conn, conn.(*net.TCPConn).CloseWrite) })
	s.copyOut(ctx, conn, dataOutput)
	return &apipb.SessionEnd{}, context.Cause(ctx)
}

func dataOutput(b []byte) *apipb.SessionOutput {
	return &apipb.SessionOutput{Output: &apipb.SessionOutput_Data{Data: b}}
}

func errorOutput(b []byte) *apipb.SessionOutput {
	return &apipb.SessionOutput{Output: &apipb.SessionOutput_ErrorData{ErrorData: b}}
}

// receive handles what the user sends until the stream ends, which ends the session. It never waits for the command.
func (s *session) receive(leave context.CancelCauseFunc) {
	defer s.input.close()
	for {
		m, err := s.stream.Recv()
		if err != nil {
			leave(ares.Errorf(ares.Unavailable, "the user left the session"))
			return
		}
		switch in := m.GetInput().GetInput().(type) {
		case *apipb.SessionInput_Data:
			if !s.input.put(in.Data) {
				leave(ares.Errorf(ares.Invalid, "the client sent more than %d bytes that the command has not consumed: update the client", apipb.SessionWindow))
				return
			}
		case *apipb.SessionInput_End:
			s.input.close()
		case *apipb.SessionInput_Consumed:
			s.window.Consumed(in.Consumed)
		default:
			s.mu.Lock()
			control := s.control
			s.mu.Unlock()
			if control != nil {
				control(m.GetInput())
			}
		}
	}
}

func (s *session) controlBy(f func(*apipb.SessionInput)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control = f
}

// copyIn writes the user's data to the command until there is no more. If the command does not read any more, the data is dropped.
func (s *session) copyIn(ctx context.Context, w io.Writer, end func() error) {
	gone, consumed := false, 0
	for {
		data, ok := s.input.take(ctx)
		if !ok {
			if ctx.Err() == nil && !gone {
				_ = end()
			}
			return
		}
		if !gone {
			_, err := w.Write(data)
			gone = err != nil
		}
		if consumed += len(data); consumed < apipb.SessionConfirm {
			continue
		}
		if s.tell(&apipb.SessionOutput{Output: &apipb.SessionOutput_Consumed{Consumed: uint32(consumed)}}) != nil {
			return
		}
		consumed = 0
	}
}

// copyOut sends what the command prints, as far as the user consumes it.
func (s *session) copyOut(ctx context.Context, r io.Reader, as func([]byte) *apipb.SessionOutput) {
	buf := make([]byte, apipb.SessionChunk)
	for {
		n, err := r.Read(buf)
		for part := buf[:n]; len(part) > 0; {
			k, stopped := s.window.Take(ctx, len(part))
			if stopped != nil || s.tell(as(bytes.Clone(part[:k]))) != nil {
				return
			}
			part = part[k:]
		}
		if err != nil {
			return
		}
	}
}

// tell sends a message to the server.
func (s *session) tell(m *apipb.SessionOutput) error {
	s.send.Lock()
	defer s.send.Unlock()
	return s.stream.Send(&apipb.JoinSessionRequest{Output: m})
}

// The type `inputQueue` holds data of the user that the command has not consumed.
type inputQueue struct {
	mu     sync.Mutex
	parts  [][]byte
	size   int
	closed bool
	more   chan struct{} // has a value when there is something new
}

// put adds data. It returns false if the user has sent more than allowed.
func (q *inputQueue) put(data []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size+len(data) > apipb.SessionWindow {
		return false
	}
	if !q.closed && len(data) > 0 {
		q.parts, q.size = append(q.parts, data), q.size+len(data)
		q.wake()
	}
	return true
}

// close says that no more data comes.
func (q *inputQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

func (q *inputQueue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take waits for data. It returns false at its end.
func (q *inputQueue) take(ctx context.Context) ([]byte, bool) {
	for {
		q.mu.Lock()
		if len(q.parts) > 0 {
			data := q.parts[0]
			q.parts, q.size = q.parts[1:], q.size-len(data)
			q.mu.Unlock()
			return data, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil, false
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			return nil, false
		}
	}
}
