package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

type sessionService struct {
	apipb.UnimplementedSessionServiceServer
	*Services
}

// RunSession implements apipb.SessionServiceServer.
func (d *sessionService) RunSession(stream grpc.BidiStreamingServer[apipb.RunSessionRequest, apipb.RunSessionResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx := stream.Context()
	if d.Cfg.Sessions == nil {
		return ares.Errorf(ares.FeatureDisabled, "this server has no nodes of its own, and so no sessions: ask a server of the cluster in which the job runs")
	}
	to, err := d.sessionTarget(ctx, first)
	if err != nil {
		return err
	}
	route := d.Cfg.Sessions.route(ctx, to, first)
	if err := d.AuditBegin(ctx, "begin of "+route.describe(describeSession(first))); err != nil {
		return err
	}
	began := time.Now()
	end, err := d.Cfg.Sessions.serve(ctx, to, route, first, stream)
	if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil && context.Cause(ctx) == ctx.Err() {
		err = ares.Errorf(ares.Unavailable, "the user left the session")
	}
	result := resultOf(end, err)
	pipeline.CallOf(ctx).Entry.Detail = fmt.Sprintf("end after %s: %s", time.Since(began).Round(time.Second), result) + route.finish(result)
	return err
}

// describeSession describes a session without its command, which may contain secrets.
func describeSession(first *apipb.RunSessionRequest) string {
	switch start := first.GetStart(); {
	case start.GetForward() != nil:
		return fmt.Sprintf("forward to port %d of rank %d", start.GetForward().GetPort(), first.GetRank())
	case start.GetAttach() != nil:
		return fmt.Sprintf("attach to rank %d", first.GetRank())
	default:
		return fmt.Sprintf("exec in rank %d", first.GetRank())
	}
}

// sessionTarget finds the running rank that a request names. The pipeline has checked that the caller may have a session with the job.
func (d *Services) sessionTarget(ctx context.Context, req *apipb.RunSessionRequest) (to sessionTarget, err error) {
	if req.GetStart().GetAction() == nil {
		return to, ares.Errorf(ares.Invalid, "start: must say what the session does: exec, forward or attach").At("start")
	}
	snap, err := d.snapshot(ctx, req.GetJobId())
	if err != nil {
		return to, err
	}
	if err = notRunning(&snap); err != nil {
		return to, err
	}
	if req.GetStart().GetAttach() != nil && !snap.Job.IsAttachable() {
		return to, ares.Errorf(ares.Invalid, "job %s has no standard input: submit it with --stdin or --tty, or read its output with `ares logs --follow %s`", snap.Job.ID, snap.Job.ID)
	}
	id, rank := snap.Job.ID, int(req.GetRank())
	a := snap.Run.Current()
	if rank >= len(a.Seats) {
		return to, ares.Errorf(ares.NotFound, "rank: job %s has ranks 0 to %d, but rank %d was requested", id, len(a.Seats)-1, rank).At("rank")
	}
	for i := range a.Seats {
		h := &a.Seats[i]
		if h.Rank != rank {
			continue
		}
		if h.State != ares.SeatClaimed {
			return to, ares.Errorf(ares.Conflict, "rank %d of job %s is not running (%s): see `ares job get %s`", rank, id, h.State, id)
		}
		n := d.Cfg.View.Node(h.Node)
		if n != nil && n.Node.TrustedOnly && !pipeline.IdentityOf(ctx).IsPlatformAdmin() {
			return to, ares.Errorf(ares.Forbidden, "node %s does not isolate jobs, so only platform administrators may have sessions there: run its agent as root, or ask an administrator", h.Node)
		}
		return sessionTarget{job: id, tenant: snap.Job.Tenant, name: snap.Job.Name, node: h.Node, seat: &apipb.SeatRef{JobId: string(id), Fence: int64(a.Fence), Rank: int32(rank)}}, nil
	}
	return to, ares.Errorf(ares.NotFound, "rank: job %s has no rank %d", id, rank).At("rank")
}

// notRunning returns an error that says what to do if a job has no attempt that runs.
func notRunning(snap *store.Snapshot) error {
	if snap.Tombstone != nil {
		return ares.Errorf(ares.Conflict, "job %s has ended: submit it again with `ares job retry %s`", snap.Tombstone.ID, snap.Tombstone.ID)
	}
	id, run := snap.Job.ID, &snap.Run
	switch {
	case snap.Job.IsArray():
		return ares.Errorf(ares.Conflict, "job %s is an array and runs nothing itself: name one of its elements, such as %s[0]", id, id)
	case run.Phase.Final():
		return ares.Errorf(ares.Conflict, "job %s has ended (state: %s): submit it again with `ares job retry %s`", id, run.Phase, id)
	case run.Cluster != "":
		return ares.Errorf(ares.FeatureDisabled, "job %s runs in cluster %s, and a hub has no sessions: use a server of that cluster", id, run.Cluster)
	case run.Phase != ares.Running || run.Current() == nil:
		return ares.Errorf(ares.Conflict, "job %s is not running (state: %s): wait until it runs; `ares job explain %s` says when that is expected", id, run.Phase, id)
	}
	return nil
}
