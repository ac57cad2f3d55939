package agent

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

const (
	// maxJobMessage is the maximum size of a message from a process of a job.
	maxJobMessage = 1 << 20
	// maxJobStreams is the maximum number of calls at once on one connection of such a process.
	maxJobStreams = 16
	// jobSocketDelay is the time between the start of a seat and its socket. Many jobs end before that, and cost nothing more. A process of a
	// job waits for the socket.
	jobSocketDelay = 100 * time.Millisecond
)

// jobService serves the processes of the node's jobs on the sockets of their seats: they can list the ranks of their attempt, and run
// commands in them. The socket says which seat the caller belongs to. Nothing that the caller says about itself is used.
type jobService struct {
	apipb.UnimplementedSessionServiceServer
	apipb.UnimplementedAgentServiceServer
	agent *Agent
}

// newJobServer returns the server of all sockets. It has two methods, of services that have others at a server.
func (a *Agent) newJobServer() *grpc.Server {
	s := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxJobMessage), grpc.MaxConcurrentStreams(maxJobStreams), grpc.WaitForHandlers(true),
		grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10), // one node may have many idle connections
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	j := &jobService{agent: a}
	apipb.RegisterSessionServiceServer(s, j)
	ranks := apipb.AgentService_ServiceDesc
	ranks.Methods = slices.DeleteFunc(slices.Clone(ranks.Methods), func(m grpc.MethodDesc) bool { return m.MethodName != "ListRanks" })
	ranks.Streams = nil
	s.RegisterService(&ranks, j)
	return s
}

// serveJob serves the processes of a seat until the returned function is called, which ends their commands in other ranks.
func (s *seat) serveJob(ctx context.Context) (end func()) {
	s.agent.mu.Lock()
	proc := s.proc
	if s.result != nil || s.foreign {
		proc = nil
	}
	s.agent.mu.Unlock()
	if proc == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if !pause.For(ctx, jobSocketDelay) {
			return
		}
		socket, err := proc.ListenJob()
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			s.agent.log.Warn("the processes of a seat have no socket", "seat", s.key, "error", err)
			return
		}
		defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
		_ = s.agent.jobs.Serve(socket) // it ends with the socket
	}()
	return func() {
		cancel()
		<-served
	}
}

// callerOf returns the seat of the calling process.
func (j *jobService) callerOf(ctx context.Context) (run.Key, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return run.Key{}, ares.Errorf(ares.Internal, "the connection has no address")
	}
	key, ok := run.CallerOf(p.Addr)
	if !ok {
		return run.Key{}, ares.Errorf(ares.Internal, "the connection is of no job")
	}
	_, err := j.agent.runningProc(key)
	return key, err
}

// ListRanks implements apipb.AgentServiceServer.
func (j *jobService) ListRanks(ctx context.Context, _ *apipb.ListRanksRequest) (*apipb.ListRanksResponse, error) {
	resp, err := j.listRanks(ctx)
	return resp, apipb.ToStatus(err)
}

func (j *jobService) listRanks(ctx context.Context) (*apipb.ListRanksResponse, error) {
	key, err := j.callerOf(ctx)
	if err != nil {
		return nil, err
	}
	ref, err := j.agent.currentSession()
	if err != nil {
		return nil, err
	}
	c, release, err := j.agent.link.ranksAt("")
	if err != nil {
		return nil, err
	}
	defer release()
	resp, err := c.ListRanks(ctx, &apipb.ListRanksRequest{Ref: ref, Seat: refOf(key)})
	return resp, apipb.FromStatus(err)
}

// currentSession returns the session of the node.
func (a *Agent) currentSession() (*apipb.SessionRef, error) {
	session := a.session.Load()
	if session == 0 {
		return nil, ares.Errorf(ares.Unavailable, "node %s has no connection to a server: try again in a moment", a.cfg.Node)
	}
	return &apipb.SessionRef{NodeId: a.cfg.Node, Session: session}, nil
}

// RunSession implements apipb.SessionServiceServer.
func (j *jobService) RunSession(stream grpc.BidiStreamingServer[apipb.RunSessionRequest, apipb.RunSessionResponse]) error {
	return apipb.ToStatus(j.runSession(stream))
}

func (j *jobService) runSession(stream grpc.BidiStreamingServer[apipb.RunSessionRequest, apipb.RunSessionResponse]) error {
	key, err := j.callerOf(stream.Context())
	if err != nil {
		return err
	}
	leave, err := j.agent.enterSession(sessionKind{job: key.String(), from: byCaller})
	if err != nil {
		return err
	}
	defer leave()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	exec := first.GetStart().GetExec()
	if exec == nil || exec.GetTerminal() != nil {
		return ares.Errorf(ares.Invalid, "start: at the socket of a job, it must be a command without a terminal").At("start")
	}
	// The node of the rank may be connected to another server, which the first one names.
	server := ""
	for range 2 {
		server, err = j.runAt(server, &apipb.RunRankSessionRequest{Seat: refOf(key), Rank: first.GetRank(), Exec: exec}, stream)
		if err != nil || server == "" {
			return err
		}
	}
	return ares.Errorf(ares.Unavailable, "the node of rank %d is connecting to another server: try again in a moment", first.GetRank())
}

// runAt runs a command through a server, or through the one to which this node is connected. It returns the address of another server if
// the command must be run there.
func (j *jobService) runAt(server string, req *apipb.RunRankSessionRequest, caller grpc.BidiStreamingServer[apipb.RunSessionRequest, apipb.RunSessionResponse]) (elsewhere string, err error) {
	ctx, cancel := context.WithCancel(caller.Context())
	defer cancel() // this ends the stream, and the command with it
	if req.Ref, err = j.agent.currentSession(); err != nil {
		return "", err
	}
	c, release, err := j.agent.link.ranksAt(server)
	if err != nil {
		return "", err
	}
	defer release()
	stream, err := c.RunRankSession(ctx)
	if err == nil {
		err = stream.Send(req)
	}
	begun := false
	for err == nil {
		var m *apipb.RunRankSessionResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		if m.GetServer() != "" && !begun && server == "" {
			return m.GetServer(), nil
		}
		if !begun {
			begun = true
			go func() { // it ends with the caller's stream
				defer cancel()
				passInput(caller, stream)
			}()
		}
		if err = caller.Send(&apipb.RunSessionResponse{Output: m.GetOutput()}); err != nil {
			return "", err
		}
		if m.GetOutput().GetEnd() != nil {
			return "", nil
		}
	}
	err = apipb.FromStatus(err)
	if ares.CodeOf(err) == ares.Unavailable && begun {
		return "", ares.Errorf(ares.Unavailable, "node %s lost its connection to the server, and the command ended with it: %v", j.agent.cfg.Node, err)
	}
	return "", err
}

// passInput passes the input of a command on until one side ends.
func passInput(from grpc.BidiStreamingServer[apipb.RunSessionRequest, apipb.RunSessionResponse], to apipb.AgentService_RunRankSessionClient) {
	for {
		m, err := from.Recv()
		if err != nil || to.Send(&apipb.RunRankSessionRequest{Input: m.GetInput()}) != nil {
			return
		}
	}
}
