package api

import (
	"cmp"
	"context"
	"hash/fnv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/store"
)

// AgentDoor is where node agents come in. It translates their calls into the
// store's verbs and sends each node its seats as the view shows them.
type AgentDoor struct {
	apipb.UnimplementedAgentServiceServer

	Store  *store.Store
	View   *control.View
	Files  *Files
	Server string // the address this server is reached at
	// TTL of a session that is opened in a fleet of so many nodes.
	TTL func(nodes int) time.Duration
	Now func() time.Time
	// Claimed is told each claim that succeeded. May be nil.
	Claimed func()
	// Outrun is told when an agent has seen more of this store than there is.
	Outrun func(*ares.Error)
}

// resendEvery is how often a node with unclaimed seats is told of them again.
const resendEvery = 3 * time.Second

// maxAgeMS bounds how long ago a checkpoint may have been: a year.
const maxAgeMS = 366 * 24 * 3600 * 1000

// maxSeatsBytes bounds the unclaimed seats in one message to an agent.
const maxSeatsBytes = 8 << 20

// OpenSession proves that a node is there.
func (d *AgentDoor) OpenSession(ctx context.Context, req *apipb.OpenSessionRequest) (*apipb.OpenSessionResponse, error) {
	node := req.GetNode().Node()
	known := d.View.NodeCount()
	ttl := d.TTL(known)
	node.SessionTTL = ttl
	if err := checkNode(&node); err != nil {
		return nil, err
	}
	if known >= maxNodes && d.View.Node(node.ID) == nil {
		return nil, ares.Errorf(ares.Refused, "%d nodes are known, the most there may be: use the name of one that is gone", known)
	}
	if n := len(req.GetInstance()); n < 16 || n > 64 {
		return nil, ares.Errorf(ares.Invalid, "instance: 16 to 64 characters, got %d", n).At("instance")
	}
	id, err := d.lineage(ctx, req)
	if err != nil {
		return nil, err
	}
	node.ClockAhead = clockAhead(req, d.Now())
	certified, err := certifiedAt(ctx)
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

func checkNode(n *ares.Node) error {
	var p ares.Problems
	if !ares.ValidName(n.ID) {
		p.Add("node.node_id", "%q is not a name", n.ID)
	}
	if len(n.Devices) > ares.MaxGPUsPerMember {
		p.Add("node.devices", "at most %d, got %d", ares.MaxGPUsPerMember, len(n.Devices))
	}
	if len(n.Links) > len(n.Devices) {
		p.Add("node.links", "at most a row for each of the %d devices, got %d", len(n.Devices), len(n.Links))
	}
	if len(n.Address) > ares.MaxNameBytes {
		p.Add("node.address", "at most %d bytes, got %d", ares.MaxNameBytes, len(n.Address))
	}
	if len(n.Labels) > ares.MaxLabels {
		p.Add("node.labels", "at most %d, got %d", ares.MaxLabels, len(n.Labels))
	}
	for k, v := range n.Labels {
		if len(k) > ares.MaxNameBytes || len(v) > ares.MaxNameBytes {
			p.Add("node.labels", "names and values of at most %d bytes", ares.MaxNameBytes)
		}
	}
	if len(n.NUMA) > ares.MaxNUMANodes {
		p.Add("node.numa", "at most %d, got %d", ares.MaxNUMANodes, len(n.NUMA))
	}
	if len(n.Taints) > ares.MaxTaints {
		p.Add("node.taints", "at most %d, got %d", ares.MaxTaints, len(n.Taints))
		return p.Err()
	}
	for _, t := range n.Taints {
		if err := t.Check(); err != nil {
			p.Add("node.taints", "%s", err)
		}
	}
	return p.Err()
}

// RenewSession answers after the store has extended the session.
func (d *AgentDoor) RenewSession(ctx context.Context, req *apipb.RenewSessionRequest) (*apipb.RenewSessionResponse, error) {
	// gofail: var doorBeforeRenew string
	// return nil, ares.Errorf(ares.Unavailable, "%s", doorBeforeRenew)
	if err := d.Store.RenewSession(ctx, req.GetRef().GetNodeId(), req.GetRef().GetSession()); err != nil {
		return nil, err
	}
	// gofail: var doorAfterRenew string
	// return nil, ares.Errorf(ares.Unavailable, "%s", doorAfterRenew)
	return &apipb.RenewSessionResponse{}, nil
}

// UpdateNode changes what a node offers.
func (d *AgentDoor) UpdateNode(ctx context.Context, req *apipb.UpdateNodeRequest) (*apipb.UpdateNodeResponse, error) {
	node, ref := req.GetNode().Node(), req.GetRef()
	node.ID = ref.GetNodeId()
	if err := checkNode(&node); err != nil {
		return nil, err
	}
	// The TTL is the session's own, written with it: by a longer one the Reaper
	// would believe the node silent for longer than it was. So is what was seen
	// of the node's clock.
	waiting, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	if err := d.View.WaitFor(waiting, ref.GetSession()); err != nil {
		return nil, err
	}
	if was := d.View.Node(node.ID); was != nil {
		node.SessionTTL, node.ClockAhead = was.Node.SessionTTL, was.Node.ClockAhead
	}
	return &apipb.UpdateNodeResponse{}, d.Store.UpdateNode(ctx, node, ref.GetSession())
}

// CloseSession ends the session of a node that holds nothing. One that does is
// refused: its seats would be taken back before its processes must be dead.
func (d *AgentDoor) CloseSession(ctx context.Context, req *apipb.CloseSessionRequest) (*apipb.CloseSessionResponse, error) {
	ref := req.GetRef()
	entries, _, _ := d.View.SeatsOn(ref.GetNodeId())
	for _, e := range entries {
		for _, o := range d.orders(e, ref.GetNodeId()) {
			if o.State == string(ares.SeatClaimed) || o.State == string(ares.SeatFinished) {
				return nil, ares.Errorf(ares.Conflict, "node %s still holds a seat of %s", ref.GetNodeId(), e.Job.ID)
			}
		}
	}
	return &apipb.CloseSessionResponse{}, d.Store.CloseSession(ctx, ref.GetNodeId(), ref.GetSession())
}

// ClaimSeat takes a seat before anything is spawned.
func (d *AgentDoor) ClaimSeat(ctx context.Context, req *apipb.ClaimSeatRequest) (*apipb.ClaimSeatResponse, error) {
	err := d.Store.Claim(ctx, seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession(), d.Now())
	if err == nil && d.Claimed != nil {
		d.Claimed()
	}
	return &apipb.ClaimSeatResponse{}, err
}

// FinishSeat reports the end of a rank.
func (d *AgentDoor) FinishSeat(ctx context.Context, req *apipb.FinishSeatRequest) (*apipb.FinishSeatResponse, error) {
	m := req.GetResult()
	_, err := d.Store.Finish(ctx, seatRef(req.GetSeat(), req.GetRef()), ares.RankResult{
		Outcome: ares.Outcome(m.GetOutcome()), ExitCode: int(m.GetExitCode()), Signal: int(m.GetSignal()),
		Reason: atMost(m.GetReason(), 512), StartedAt: reported(m.GetStartedAt()), EndedAt: reported(m.GetEndedAt()),
	}, d.Now())
	return &apipb.FinishSeatResponse{}, err
}

// reported is a time by a node's clock, zero when JSON could not hold it: one
// such result would keep every job behind it out of the archive.
func reported(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

// DeclineSeat answers a stop intent on a seat that was never claimed.
func (d *AgentDoor) DeclineSeat(ctx context.Context, req *apipb.DeclineSeatRequest) (*apipb.DeclineSeatResponse, error) {
	return &apipb.DeclineSeatResponse{}, d.Store.Decline(ctx, seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession(), d.Now())
}

// ReleaseSeat frees a seat's devices after verified death.
func (d *AgentDoor) ReleaseSeat(ctx context.Context, req *apipb.ReleaseSeatRequest) (*apipb.ReleaseSeatResponse, error) {
	return &apipb.ReleaseSeatResponse{}, d.Store.Release(ctx, seatRef(req.GetSeat(), req.GetRef()))
}

// ReportClean frees what earlier attempts held on the node and is dead.
func (d *AgentDoor) ReportClean(ctx context.Context, req *apipb.ReportCleanRequest) (*apipb.ReportCleanResponse, error) {
	held := map[ares.Fence]bool{}
	for _, f := range req.GetHeld() {
		held[ares.Fence(f)] = true
	}
	ref := req.GetRef()
	entries, _, _ := d.View.SeatsOn(ref.GetNodeId())
	for _, e := range entries {
		if err := d.Store.Clear(ctx, e.Job.ID, ref.GetNodeId(), ref.GetSession(), held); err != nil {
			return nil, err
		}
	}
	return &apipb.ReportCleanResponse{}, nil
}

// ReportProgress keeps what a running job says of itself.
func (d *AgentDoor) ReportProgress(ctx context.Context, req *apipb.ReportProgressRequest) (*apipb.ReportProgressResponse, error) {
	return &apipb.ReportProgressResponse{}, d.Store.ReportProgress(ctx, seatRef(req.GetSeat(), req.GetRef()), ares.Progress{
		Percent: min(max(req.GetPercent(), 0), 100), Message: atMost(req.GetMessage(), 256), At: d.Now(),
	})
}

// ReportCheckpoint notes that a job has saved its progress.
func (d *AgentDoor) ReportCheckpoint(ctx context.Context, req *apipb.ReportCheckpointRequest) (*apipb.ReportCheckpointResponse, error) {
	if rank := req.GetSeat().GetRank(); rank != 0 {
		return nil, ares.Errorf(ares.Invalid, "seat.rank: rank 0 tells of its job's checkpoints, not rank %d", rank).At("seat.rank")
	}
	age := time.Duration(min(req.GetAgeMs(), maxAgeMS)) * time.Millisecond
	return &apipb.ReportCheckpointResponse{}, d.Store.Checkpointed(ctx, seatRef(req.GetSeat(), req.GetRef()), d.Now().Add(-age))
}

// WatchSeats sends every seat of the node, whole, whenever one changes, and
// again now and then while one is not claimed.
func (d *AgentDoor) WatchSeats(req *apipb.WatchSeatsRequest, stream apipb.AgentService_WatchSeatsServer) error {
	ctx := stream.Context()
	ref := req.GetRef()
	// The view must know of the session, or a seat just freed might be sent.
	waiting, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	if err := d.View.WaitFor(waiting, ref.GetSession()); err != nil {
		return err
	}
	resend := time.NewTicker(resendEvery)
	defer resend.Stop()
	for {
		entries, revision, changed := d.View.SeatsOn(ref.GetNodeId())
		resp := &apipb.WatchSeatsResponse{Revision: revision}
		size := 0
		for _, e := range entries {
			for _, o := range d.orders(e, ref.GetNodeId()) {
				// A seat nobody claimed yet can be told with the next message; this
				// one must arrive.
				if size += proto.Size(o); size < maxSeatsBytes || o.State != string(ares.SeatPlaced) {
					resp.Seats = append(resp.Seats, o)
				}
			}
		}
		// gofail: var doorBeforeDispatch struct{}
		if err := stream.Send(resp); err != nil {
			return err
		}
		if n := d.View.Node(ref.GetNodeId()); n != nil && n.Session != nil && n.Session.Revision > ref.GetSession() {
			return ares.Errorf(ares.Fenced, "node %s has opened a newer session", ref.GetNodeId())
		}
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

// orders are the seats of one job on a node that are not free.
func (d *AgentDoor) orders(e *control.Entry, node string) []*apipb.SeatOrder {
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
				CpuCores: int32(h.CPUs), MemoryMb: int32(h.Memory), LostAfterSeconds: int32(e.Job.LostAfterSeconds),
				ArrayJobId: string(e.Job.ArrayOf), ArrayIndex: int32(e.Job.ArrayIndex), ArrayCount: int32(e.Job.ArrayCount),
			}
			for _, sh := range h.Shares {
				o.Shares = append(o.Shares, &apipb.DeviceShare{DeviceId: sh.Device, Index: int32(sh.Index), Milli: int32(sh.Milli)})
			}
			if s := e.Run.Stop; s != nil && !a.Ended() {
				o.Stop, o.StopGraceSeconds = string(s.Why), int32(cmp.Or(s.Grace, e.Job.Grace())/time.Second)
			}
			if h.State == ares.SeatPlaced {
				o.Spec, o.CheckpointedAt = apipb.NewJobSpec(&e.Job.Spec), apipb.Timestamp(saved)
			}
			out = append(out, o)
		}
	}
	return out
}

func (d *AgentDoor) address(node string) string {
	if n := d.View.Node(node); n != nil && n.Node.Address != "" {
		return n.Node.Address
	}
	return "127.0.0.1"
}

// masterPort is where rank 0 of an attempt listens: the same for all its ranks
// and unlikely to be another attempt's.
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

func atMost(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") // the cut may go through a rune
	}
	return s
}
