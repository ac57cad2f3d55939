package service

import (
	"context"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// RunRankSession runs a command in a rank for a process of the same attempt. Job, attempt and user are those of the seat that the node has
// claimed; only the rank and the command are the caller's choice.
func (d *AgentService) RunRankSession(stream apipb.AgentService_RunRankSessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx := stream.Context()
	to, err := d.rankTarget(ctx, first)
	switch {
	case err != nil:
		return err
	case d.Sessions == nil:
		return ares.Errorf(ares.Unavailable, "this server has no sessions")
	case first.GetExec() == nil || first.GetExec().GetTerminal() != nil:
		return ares.Errorf(ares.Invalid, "exec: must be a command without a terminal").At("exec")
	}
	node := d.Files.connected(to.node)
	if node == nil {
		n := d.View.Node(to.node)
		if n == nil || n.Session == nil || n.Session.Server == d.Server {
			return sessionAway(to.node)
		}
		return stream.Send(&apipb.RunRankSessionResponse{Server: n.Session.Server})
	}
	leave, err := d.Sessions.enter(sessionKind{job: to.job, byJob: true})
	if err != nil {
		return err
	}
	defer leave()
	offer := &apipb.SessionOffer{User: "rank of the job on node " + first.GetRef().GetNodeId(), ByJob: true}
	_, err = d.Sessions.connect(ctx, to, node, offer, &apipb.SessionStart{Action: &apipb.SessionStart_Exec{Exec: first.GetExec()}}, rankUser{stream})
	return err
}

const (
	// maxRankWait is how long a command waits until the agent of its rank has claimed it: the ranks of an attempt start one by one.
	maxRankWait = 10 * time.Second
	rankPause   = 50 * time.Millisecond
)

// rankTarget checks that the node has a current session and holds the caller's rank under its fence, and returns the rank of the same
// attempt in which the command runs.
func (d *AgentService) rankTarget(ctx context.Context, req *apipb.RunRankSessionRequest) (to sessionTarget, err error) {
	ref, rank := seatRef(req.GetSeat(), req.GetRef()), int(req.GetRank())
	waiting, done := context.WithTimeout(ctx, maxRankWait)
	defer done()
	for {
		job, attempt, err := d.Store.HeldJob(ctx, ref, req.GetRef().GetSession())
		if err != nil {
			return to, err
		}
		i := slices.IndexFunc(attempt.Seats, func(h ares.SeatStatus) bool { return h.Rank == rank })
		if i < 0 {
			return to, ares.Errorf(ares.NotFound, "rank: job %s has ranks 0 to %d, but rank %d was requested", job.ID, len(attempt.Seats)-1, rank).At("rank")
		}
		h := &attempt.Seats[i]
		if h.State == ares.SeatClaimed {
			return sessionTarget{
				job: job.ID, tenant: job.Tenant, name: job.Name, node: h.Node, byJob: true,
				seat: &apipb.SeatRef{JobId: string(job.ID), Fence: int64(attempt.Fence), Rank: int32(rank)},
			}, nil
		}
		if h.State != ares.SeatPlaced || !pause.For(waiting, rankPause) {
			return to, ares.Errorf(ares.Conflict, "rank %d is not running (%s): ares rank list shows the state of each rank", rank, h.State)
		}
	}
}

// ListRanks returns the ranks of an attempt for its processes.
func (d *AgentService) ListRanks(ctx context.Context, req *apipb.ListRanksRequest) (*apipb.ListRanksResponse, error) {
	_, attempt, err := d.Store.HeldJob(ctx, seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession())
	if err != nil {
		return nil, err
	}
	out := &apipb.ListRanksResponse{}
	for i := range attempt.Seats {
		h := &attempt.Seats[i]
		info := &apipb.RankInfo{Rank: int32(h.Rank), NodeId: h.Node, State: string(h.State)}
		if n := d.View.Node(h.Node); n != nil {
			info.Address = n.Node.Address
		}
		out.Ranks = append(out.Ranks, info)
	}
	slices.SortFunc(out.Ranks, func(a, b *apipb.RankInfo) int { return int(a.GetRank() - b.GetRank()) })
	return out, nil
}

// rankUser is the agent of the caller, in place of a user.
type rankUser struct {
	stream apipb.AgentService_RunRankSessionServer
}

func (u rankUser) Send(m *apipb.RunSessionResponse) error {
	return u.stream.Send(&apipb.RunRankSessionResponse{Output: m.GetOutput()})
}

func (u rankUser) Recv() (*apipb.RunSessionRequest, error) {
	m, err := u.stream.Recv()
	return &apipb.RunSessionRequest{Input: m.GetInput()}, err
}
