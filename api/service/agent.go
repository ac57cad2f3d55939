package service

import (
	"cmp"
	"context"
	"hash/fnv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/control/secrets"
	"github.com/ares-scheduler/ares/objects/logs"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// AgentService serves node agents. AgentService translates the agents' calls into store
// operations. It sends each agent the seats that this server's view has for the agent's node.
type AgentService struct {
	apipb.UnimplementedAgentServiceServer

	Store *store.Store
	View  *cache.View
	Files *Files
	// Sessions passes the agents' sessions on to users. If Sessions is nil, there are none.
	Sessions *Sessions
	Server   string // the address of this server
	// TTL returns the time to live of a new session in a cluster with the given
	// number of nodes.
	TTL func(nodes int) time.Duration
	Now func() time.Time
	// Secrets decrypts the secrets of jobs. If Secrets is nil, jobs cannot use secrets.
	Secrets *secrets.Secrets
	// Code sends the code of jobs. If Code is nil, jobs cannot bring their code.
	Code *code.Code
	// Logs stores the output of ended ranks. If Logs is nil, NoLogs says why it is not stored.
	Logs   *logs.Store
	NoLogs string
	// The function Claimed is called each time an agent has claimed a seat. This function may
	// be nil.
	Claimed func()
	// The function RevisionClaimed is called each time an agent opens a session. The error is not
	// nil if the agent claims to have seen a revision that the store has not reached. The claim
	// only raises an alert. This function may be nil.
	RevisionClaimed func(node string, refused *ares.Error)
}

// resendEvery is the interval at which a node's agent receives the node's
// unclaimed seats again.
const resendEvery = 3 * time.Second

// maxAgeMS is the maximum age of a checkpoint that an agent may report: one
// year in milliseconds.
const maxAgeMS = 366 * 24 * 3600 * 1000

// sendGap is the shortest time between two messages with a node's seats. A node that runs many short jobs would
// otherwise get all of its seats again for each step of each of them. A change after a quiet time is sent at once.
const sendGap = 5 * time.Millisecond

// maxSeatsBytes limits the total size of the unclaimed seats in one message to
// an agent.
const maxSeatsBytes = 8 << 20

// OpenSession opens a session for a node. An open session proves that the node
// is alive.
func (d *AgentService) OpenSession(ctx context.Context, req *apipb.OpenSessionRequest) (*apipb.OpenSessionResponse, error) {
	node := req.GetNode().Node()
	known := d.View.NodeCount()
	ttl := d.TTL(known)
	node.SessionTTL = ttl
	if err := checkNode(&node); err != nil {
		return nil, err
	}
	if known >= maxNodes && d.View.Node(node.ID) == nil {
		return nil, ares.Errorf(ares.LimitReached, "the cluster has %d nodes, which is the limit: use `ares node remove` to remove nodes that no longer exist", known)
	}
	if n := len(req.GetInstance()); n < 16 || n > 64 {
		return nil, ares.Errorf(ares.Invalid, "instance: must have 16 to 64 characters, got %d", n).At("instance")
	}
	id, err := d.lineage(ctx, req)
	if err != nil {
		return nil, err
	}
	node.ClockAhead = clockAhead(req, d.Now())
	certified, err := pipeline.CertifiedAt(ctx)
	if err != nil {
		return nil, err
	}
	s, err := d.Store.OpenSession(ctx, node, req.GetInstance(), d.Server, ttl, certified)
	if err != nil {
		return nil, err
	}
	return &apipb.OpenSessionResponse{
		Session: s.Revision, TtlSeconds: int32(ttl / time.Second), Server: d.Server, StoreId: id.Store, RestoreId: id.Restore,
	}, nil
}

// checkNode removes or refuses what cannot be printed in what a node says of itself, and refuses what no machine can be.
func checkNode(n *ares.Node) error {
	var p ares.Problems
	cleanNode(n, &p)
	if err := p.Err(); err != nil {
		return err
	}
	return n.Check()
}

// RenewSession answers after the store has extended the session.
func (d *AgentService) RenewSession(ctx context.Context, req *apipb.RenewSessionRequest) (*apipb.RenewSessionResponse, error) {
	// gofail: var doorBeforeRenew string
	// return nil, ares.Errorf(ares.Unavailable, "%s", doorBeforeRenew)
	if err := d.Store.RenewSession(ctx, req.GetRef().GetNodeId(), req.GetRef().GetSession()); err != nil {
		return nil, err
	}
	// gofail: var doorAfterRenew string
	// return nil, ares.Errorf(ares.Unavailable, "%s", doorAfterRenew)
	return &apipb.RenewSessionResponse{}, nil
}

// UpdateNode changes the resources and properties that a node offers.
func (d *AgentService) UpdateNode(ctx context.Context, req *apipb.UpdateNodeRequest) (*apipb.UpdateNodeResponse, error) {
	node, ref := req.GetNode().Node(), req.GetRef()
	node.ID = ref.GetNodeId()
	if err := checkNode(&node); err != nil {
		return nil, err
	}
	// Use the TTL that was written with the session. If a longer TTL were
	// stored, the Reaper would overestimate how long the node has been
	// silent. Keep the clock difference that was measured when the session
	// was opened.
	if err := d.awaitSession(ctx, ref); err != nil {
		return nil, err
	}
	if was := d.View.Node(node.ID); was != nil {
		node.SessionTTL, node.ClockAhead = was.Node.SessionTTL, was.Node.ClockAhead
	}
	return &apipb.UpdateNodeResponse{}, d.Store.UpdateNode(ctx, node, ref.GetSession())
}

// CloseSession ends the session of a node that holds no seats. If the node holds seats, the
// request is rejected. Otherwise the seats would be freed before it is certain that their
// processes are dead.
func (d *AgentService) CloseSession(ctx context.Context, req *apipb.CloseSessionRequest) (*apipb.CloseSessionResponse, error) {
	ref := req.GetRef()
	if err := d.Store.CheckSession(ctx, ref.GetNodeId(), ref.GetSession()); err != nil {
		return nil, err
	}
	entries, _, _ := d.View.SeatsOn(ref.GetNodeId())
	for _, e := range entries {
		for _, o := range d.Orders(e, ref.GetNodeId()) {
			if o.State == string(ares.SeatClaimed) || o.State == string(ares.SeatFinished) {
				return nil, ares.Errorf(ares.Conflict, "the session of node %s cannot be closed: the node still holds an allocation of job %s", ref.GetNodeId(), e.Job.ID)
			}
		}
	}
	return &apipb.CloseSessionResponse{}, d.Store.CloseSession(ctx, ref.GetNodeId(), ref.GetSession())
}

// ClaimSeat claims a seat before the agent starts any process.
func (d *AgentService) ClaimSeat(ctx context.Context, req *apipb.ClaimSeatRequest) (*apipb.ClaimSeatResponse, error) {
	ref, session := seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession()
	resp := &apipb.ClaimSeatResponse{}
	err := d.awaitSession(ctx, req.GetRef())
	if err == nil {
		resp.ImageDigest, err = d.Store.ClaimWithImage(ctx, ref, session, req.GetImageDigest(), d.Now(), d.mayRun(ref.Node))
	}
	if ares.CodeOf(err) == ares.Forbidden {
		// The node would claim the rank again and again, and the job would wait for it. If this fails, the next claim tries again.
		_ = d.Store.RejectClaim(ctx, ref, session, "the server, because node "+ref.Node+" does not isolate jobs", d.Now())
	}
	if err == nil && d.Claimed != nil {
		d.Claimed()
	}
	return resp, err
}

// mayRun returns a check of the job that a node claims. The placement checks the same, but the node may have lost its isolation
// since then, for example because its agent was restarted without root. The view must contain the node's session, so that it has
// what the node says in this session.
func (d *AgentService) mayRun(node string) func(*ares.Job) error {
	n := d.View.Node(node)
	return func(job *ares.Job) error {
		if n != nil && job.HasOwnNetwork() && !n.Node.OwnNetwork {
			return ares.Errorf(ares.Forbidden, "job %s may not run on node %s, because the node cannot keep it from the network (network: none): "+
				"update its agent and run it as root", job.ID, node)
		}
		if n != nil && job.IsContainerRoot() && !n.Node.ContainerRoot {
			return ares.Errorf(ares.Forbidden, "job %s may not run on node %s, because the node cannot make a job root in its image (container_root), and ares node get says why", job.ID, node)
		}
		if n != nil && job.IsAttachable() && !n.Node.Attachable {
			return ares.Errorf(ares.Forbidden, "job %s may not run on node %s, because its agent cannot give a job a standard input or a terminal (stdin, tty): update it", job.ID, node)
		}
		if n != nil && (job.Trusted || !n.Node.TrustedOnly) {
			return nil
		}
		return ares.Errorf(ares.Forbidden, "job %s may not run on node %s, because the node does not isolate jobs and no platform administrator submitted the job: "+
			"run the agent as root, or set isolation.allow_untrusted on the node", job.ID, node)
	}
}

// awaitSession waits until this server's view contains what a node said when it opened its session. For a number that the view
// has not reached, awaitSession asks the store first, so that an invented number does not keep a call waiting.
func (d *AgentService) awaitSession(ctx context.Context, ref *apipb.SessionRef) error {
	if session := ref.GetSession(); session <= 0 || session > d.View.Revision() {
		if err := d.Store.CheckSession(ctx, ref.GetNodeId(), session); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	return d.View.WaitFor(waiting, ref.GetSession())
}

// FinishSeat reports the end of a rank, and frees its devices if the agent has already verified that all of its processes are dead.
func (d *AgentService) FinishSeat(ctx context.Context, req *apipb.FinishSeatRequest) (*apipb.FinishSeatResponse, error) {
	m, finish := req.GetResult(), d.Store.Finish
	if req.GetRelease() {
		finish = d.Store.FinishAndRelease
	}
	_, err := finish(ctx, seatRef(req.GetSeat(), req.GetRef()), ares.RankResult{
		Outcome: ares.Outcome(m.GetOutcome()), ExitCode: int(m.GetExitCode()), Signal: int(m.GetSignal()),
		Reason: ares.Truncate(ares.Printable(m.GetReason()), maxReasonText), StartedAt: Reported(m.GetStartedAt()), EndedAt: Reported(m.GetEndedAt()),
	}, d.Now())
	return &apipb.FinishSeatResponse{Released: req.GetRelease()}, err
}

// Reported returns a time that was measured by a node's clock, or zero if JSON cannot represent
// the time. A single time that JSON cannot represent would prevent every later job from being archived.
func Reported(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

// DeclineSeat reports that a stop request reached a seat before the agent
// claimed it.
func (d *AgentService) DeclineSeat(ctx context.Context, req *apipb.DeclineSeatRequest) (*apipb.DeclineSeatResponse, error) {
	return &apipb.DeclineSeatResponse{}, d.Store.Decline(ctx, seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession(), d.Now())
}

// ReleaseSeat frees a seat's devices after the agent has verified that all
// processes of the seat are dead.
func (d *AgentService) ReleaseSeat(ctx context.Context, req *apipb.ReleaseSeatRequest) (*apipb.ReleaseSeatResponse, error) {
	return &apipb.ReleaseSeatResponse{}, d.Store.Release(ctx, seatRef(req.GetSeat(), req.GetRef()))
}

// ReportClean frees the resources that earlier attempts held on a node. The agent calls it
// after it has verified that the processes of these attempts are dead.
func (d *AgentService) ReportClean(ctx context.Context, req *apipb.ReportCleanRequest) (*apipb.ReportCleanResponse, error) {
	held := map[ares.Fence]bool{}
	for _, f := range req.GetHeld() {
		held[ares.Fence(f)] = true
	}
	ref := req.GetRef()
	if err := d.Store.CheckSession(ctx, ref.GetNodeId(), ref.GetSession()); err != nil {
		return nil, err // a node without ranks is not compared below
	}
	entries, _, _ := d.View.SeatsOn(ref.GetNodeId())
	for _, e := range entries {
		if err := d.Store.Clear(ctx, e.Job.ID, ref.GetNodeId(), ref.GetSession(), held); err != nil {
			return nil, err
		}
	}
	return &apipb.ReportCleanResponse{}, nil
}

// ReportProgress stores the progress that a running job reports.
func (d *AgentService) ReportProgress(ctx context.Context, req *apipb.ReportProgressRequest) (*apipb.ReportProgressResponse, error) {
	p, err := progress(req, d.Now())
	if err != nil {
		return nil, err
	}
	return &apipb.ReportProgressResponse{}, d.Store.ReportProgress(ctx, seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession(), p)
}

// ReportCheckpoint records that a job has saved its progress.
func (d *AgentService) ReportCheckpoint(ctx context.Context, req *apipb.ReportCheckpointRequest) (*apipb.ReportCheckpointResponse, error) {
	if rank := req.GetSeat().GetRank(); rank != 0 {
		return nil, ares.Errorf(ares.Invalid, "seat.rank: must be 0 in a checkpoint report, got %d", rank).At("seat.rank")
	}
	age := time.Duration(min(req.GetAgeMs(), maxAgeMS)) * time.Millisecond
	ref := req.GetRef()
	return &apipb.ReportCheckpointResponse{}, d.Store.Checkpointed(ctx, seatRef(req.GetSeat(), ref), ref.GetSession(), d.Now().Add(-age))
}

// WatchSeats sends all seats of the node whenever one changes, and repeats them
// periodically while a seat is unclaimed.
func (d *AgentService) WatchSeats(req *apipb.WatchSeatsRequest, stream apipb.AgentService_WatchSeatsServer) error {
	ctx := stream.Context()
	ref := req.GetRef()
	// Wait until the view contains the session; otherwise a seat that was just
	// freed might be sent.
	if err := d.awaitSession(ctx, ref); err != nil {
		return err
	}
	resend := time.NewTicker(resendEvery)
	defer resend.Stop()
	for {
		entries, revision, changed := d.View.SeatsOn(ref.GetNodeId())
		// Orders contain the commands of jobs. They are only for the session in which the node can claim them.
		if n := d.View.Node(ref.GetNodeId()); n == nil || n.Session == nil || n.Session.Revision != ref.GetSession() {
			return ares.Errorf(ares.Fenced, "the session of node %s has ended, or a newer one was opened: open a new session", ref.GetNodeId())
		}
		resp := &apipb.WatchSeatsResponse{Revision: revision}
		size := 0
		for _, e := range entries {
			for _, o := range d.Orders(e, ref.GetNodeId()) {
				// If the message is full, an unclaimed seat can wait for the next message.
				// Claimed seats must be sent now, even if the message becomes
				// too large.
				if size += proto.Size(o); size < maxSeatsBytes || o.State != string(ares.SeatPlaced) {
					resp.Seats = append(resp.Seats, o)
				}
			}
		}
		// gofail: var doorBeforeDispatch struct{}
		if err := stream.Send(resp); err != nil {
			return err
		}
		sent := time.Now()
		for open := true; open; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
				open = false
			case <-resend.C:
				open = !unclaimed(resp)
			}
		}
		if !pause.For(ctx, sendGap-time.Since(sent)) {
			return ctx.Err()
		}
	}
}

func unclaimed(resp *apipb.WatchSeatsResponse) bool {
	for _, s := range resp.Seats {
		if s.State == string(ares.SeatPlaced) {
			return true
		}
	}
	return false
}

// Orders returns the seats that one job still holds on a node, in the form that
// the agent receives.
func (d *AgentService) Orders(e *cache.Entry, node string) []*apipb.SeatOrder {
	var out []*apipb.SeatOrder
	saved := e.Run.Checkpoint()
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			if h.Node != node || h.State.Free() {
				continue
			}
			o := &apipb.SeatOrder{
				Seat:    &apipb.SeatRef{JobId: string(e.Job.ID), Fence: int64(a.Fence), Rank: int32(h.Rank)},
				Attempt: int32(a.Number), State: string(h.State), Current: !a.Ended(), WorldSize: int32(len(a.Seats)),
				MasterAddress: d.address(a.Seats[0].Node), MasterPort: masterPort(a.Fence),
				CpuCores: int32(h.CPUs), CpuMilli: int32(h.CPUMilli), MemoryMb: int32(h.Memory), LostAfterSeconds: int32(e.Job.LostAfterSeconds),
				ArrayJobId: string(e.Job.ArrayOf), ArrayIndex: e.Job.ArrayIndex, ArrayCount: e.Job.ArrayCount,
				Trusted: e.Job.Trusted, ImageDigest: e.Run.ImageDigest,
			}
			for _, sh := range h.Shares {
				o.Shares = append(o.Shares, &apipb.DeviceShare{DeviceId: sh.Device, Index: int32(sh.Index), Milli: int32(sh.Milli)})
			}
			if s := e.Run.Stop; s != nil && !a.Ended() {
				o.Stop, o.StopGraceSeconds = string(s.Why), int32(cmp.Or(s.Grace, e.Job.Grace())/time.Second)
			}
			if e.Job.Origin != nil {
				o.FencingToken = e.Run.FencingToken(e.Job, a)
			}
			if h.State == ares.SeatPlaced {
				o.Spec, o.CheckpointedAt = apipb.NewJobSpec(&e.Job.Spec), apipb.Timestamp(saved)
			}
			out = append(out, o)
		}
	}
	return out
}

func (d *AgentService) address(node string) string {
	if n := d.View.Node(node); n != nil && n.Node.Address != "" {
		return n.Node.Address
	}
	return "127.0.0.1"
}

// masterPort is the port on which rank 0 of an attempt listens. All ranks of an
// attempt get the same port, and two attempts are unlikely to get the same
// port.
func masterPort(f ares.Fence) int32 {
	h := fnv.New32a()
	for i := range 8 {
		_, _ = h.Write([]byte{byte(f >> (8 * i))}) // a hash never fails
	}
	return int32(20_000 + h.Sum32()%10_000)
}

func seatRef(s *apipb.SeatRef, ref *apipb.SessionRef) store.SeatRef {
	return store.SeatRef{
		Job: ares.JobID(s.GetJobId()), Fence: ares.Fence(s.GetFence()), Rank: int(s.GetRank()), Node: ref.GetNodeId(),
	}
}
