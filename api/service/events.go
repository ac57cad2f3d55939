package service

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
)

// EventReader sends a stream of events to one client.
type EventReader interface {
	// Begin is called once, when the stream is accepted.
	Begin(revision int64) error
	// Send sends an event to the client. The argument `last` is true for the
	// last event of a revision.
	Send(e *apipb.WatchEventsResponse, last bool) error
	// Beat is called with the current revision if there were no events for a
	// while.
	Beat(revision int64) error
}

// Watch sends events to a reader until ctx ends. Watch buffers no events for the reader and stores only
// the reader's position. If the server no longer retains the events that a reader needs, the reader gets
// an error.
func (d *Services) Watch(ctx context.Context, req *apipb.WatchEventsRequest, to EventReader) error {
	rev, err := d.beginning(ctx, req)
	if err != nil {
		return err
	}
	if _, _, _, err = d.Cfg.View.EventsSince(rev); err != nil {
		return err
	}
	if err = to.Begin(rev); err != nil {
		return err
	}
	beat := time.NewTicker(d.Heartbeat)
	defer beat.Stop()
	for {
		hs, upTo, more, err := d.Cfg.View.EventsSince(rev)
		if err != nil {
			return ares.Errorf(ares.NotFound, "events after revision %d were dropped before the client read them: list the jobs again, then watch from the revision of that list", rev).At("revision")
		}
		if err := d.sendAll(ctx, to, matching(visibilityOf(ctx), hs, req)); err != nil {
			return err
		}
		rev = max(rev, upTo)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		case <-beat.C:
			if err := to.Beat(rev); err != nil {
				return err
			}
		}
	}
}

// The method `beginning` returns the revision after which a stream starts. If the client has seen a later
// revision at another server, `beginning` waits briefly until this server's view reaches that revision.
func (d *Services) beginning(ctx context.Context, req *apipb.WatchEventsRequest) (int64, error) {
	if req.GetJobId() != "" {
		if err := pipeline.CheckJobID(req.GetJobId()); err != nil {
			return 0, err
		}
	}
	if req.GetRevision() == "" {
		return d.Cfg.View.Revision(), nil
	}
	rev, err := RevisionOf("revision", req.GetRevision())
	if err != nil {
		return 0, err
	}
	wait, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	return rev, d.Cfg.View.WaitFor(wait, rev)
}

// The function `matching` returns the requested events, without those that the reader may not see.
// Everybody may see events of nodes.
func matching(to Visibility, hs []cache.StreamEvent, req *apipb.WatchEventsRequest) []cache.StreamEvent {
	out := hs[:0]
	for _, h := range hs {
		if (h.Job == "" || to.sees(h.Tenant, h.Queue)) && (req.GetTenantId() == "" || req.GetTenantId() == h.Tenant) && (req.GetJobId() == "" || req.GetJobId() == string(h.Job)) {
			out = append(out, h)
		}
	}
	return out
}

func (d *Services) sendAll(ctx context.Context, to EventReader, hs []cache.StreamEvent) error {
	for i := range hs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		last := i+1 == len(hs) || hs[i+1].Revision != hs[i].Revision
		e := newEvent(&hs[i])
		e.Message = d.StoredText(visibilityOf(ctx), e.Message, hs[i].Job)
		if err := to.Send(e, last); err != nil {
			return err
		}
	}
	return nil
}

// newEvent converts an event to its public form.
func newEvent(h *cache.StreamEvent) *apipb.WatchEventsResponse {
	m := &apipb.WatchEventsResponse{
		Revision: strconv.FormatInt(h.Revision, 10), Kind: "job", JobId: string(h.Job), TenantId: h.Tenant, Name: h.Name,
		State: string(h.Phase), Attempt: int32(h.Attempt), Message: h.Message, At: apipb.Timestamp(h.At), NodeId: h.Node,
	}
	if h.Job == "" {
		m.Kind, m.State = "node", string(h.State)
	}
	return m
}

// WatchEvents implements apipb.ClusterServiceServer.
func (d *clusterService) WatchEvents(req *apipb.WatchEventsRequest, stream grpc.ServerStreamingServer[apipb.WatchEventsResponse]) error {
	return d.Watch(stream.Context(), req, grpcReader{stream})
}

type grpcReader struct {
	stream grpc.ServerStreamingServer[apipb.WatchEventsResponse]
}

func (grpcReader) Begin(int64) error                                 { return nil }
func (r grpcReader) Send(e *apipb.WatchEventsResponse, _ bool) error { return r.stream.Send(e) }
func (grpcReader) Beat(int64) error                                  { return nil }
