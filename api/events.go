package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
)

// reader is where a stream of events goes.
type reader interface {
	// begin is called once, when the stream was not refused.
	begin(revision int64) error
	// send passes an event on; last says that its revision is complete.
	send(e *apipb.WatchEventsResponse, last bool) error
	// beat is called when nothing happened for a while, up to a revision.
	beat(revision int64) error
}

// watch sends what happens to a reader until ctx ends. It holds nothing for
// the reader but its place: who is slower than the server forgets is told so.
func (d *Doors) watch(ctx context.Context, req *apipb.WatchEventsRequest, to reader) error {
	rev, err := d.beginning(ctx, req)
	if err != nil {
		return err
	}
	if _, _, _, err = d.cfg.View.EventsSince(rev); err != nil {
		return err
	}
	if err = to.begin(rev); err != nil {
		return err
	}
	beat := time.NewTicker(d.heartbeat)
	defer beat.Stop()
	for {
		hs, upTo, more, err := d.cfg.View.EventsSince(rev)
		if err != nil {
			return ares.Errorf(ares.NotFound, "events after revision %d are gone before they were read: the reader is too slow, or the server had to read its state anew; list the jobs, then watch from the revision of that list", rev).At("revision")
		}
		if err := d.sendAll(ctx, to, matching(eyesOf(ctx), hs, req)); err != nil {
			return err
		}
		rev = max(rev, upTo)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		case <-beat.C:
			if err := to.beat(rev); err != nil {
				return err
			}
		}
	}
}

// beginning is the revision a stream starts after. Another server may have
// been ahead of this one, so a later revision is waited for, but not for long.
func (d *Doors) beginning(ctx context.Context, req *apipb.WatchEventsRequest) (int64, error) {
	if req.GetJobId() != "" {
		if err := jobID(req.GetJobId()); err != nil {
			return 0, err
		}
	}
	if req.GetRevision() == "" {
		return d.cfg.View.Revision(), nil
	}
	rev, err := revisionOf("revision", req.GetRevision())
	if err != nil {
		return 0, err
	}
	wait, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	return rev, d.cfg.View.WaitFor(wait, rev)
}

// matching are those of what happened that were asked for and may be shown. Nodes
// are everybody's.
func matching(to eyes, hs []control.Happening, req *apipb.WatchEventsRequest) []control.Happening {
	out := hs[:0]
	for _, h := range hs {
		if (h.Job == "" || to.sees(h.Tenant, h.Queue)) && (req.GetTenantId() == "" || req.GetTenantId() == h.Tenant) && (req.GetJobId() == "" || req.GetJobId() == string(h.Job)) {
			out = append(out, h)
		}
	}
	return out
}

func (d *Doors) sendAll(ctx context.Context, to reader, hs []control.Happening) error {
	for i := range hs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		last := i+1 == len(hs) || hs[i+1].Revision != hs[i].Revision
		e := newEvent(&hs[i])
		e.Message = d.redact(eyesOf(ctx), e.Message)
		if err := to.send(e, last); err != nil {
			return err
		}
	}
	return nil
}

// newEvent is a happening in its public form.
func newEvent(h *control.Happening) *apipb.WatchEventsResponse {
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
func (d *clusterDoor) WatchEvents(req *apipb.WatchEventsRequest, stream grpc.ServerStreamingServer[apipb.WatchEventsResponse]) error {
	return d.watch(stream.Context(), req, grpcReader{stream})
}

type grpcReader struct {
	stream grpc.ServerStreamingServer[apipb.WatchEventsResponse]
}

func (grpcReader) begin(int64) error                                 { return nil }
func (r grpcReader) send(e *apipb.WatchEventsResponse, _ bool) error { return r.stream.Send(e) }
func (grpcReader) beat(int64) error                                  { return nil }

// serveEvents is GET /api/v1/events, as server-sent events or WebSocket.
func (d *Doors) serveEvents(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	if upgrades(r) {
		d.serveSocket(w, r)
		return
	}
	out := &sseReader{w: w, control: http.NewResponseController(w)}
	err := d.stream(r.Context(), apipb.ClusterService_WatchEvents_FullMethodName, func(ctx context.Context) error {
		req, err := d.eventsRequest(ctx, r)
		if err != nil {
			return err
		}
		return d.watch(ctx, req, out)
	})
	if !out.begun {
		d.fail(w, err)
		return
	}
	out.end(err)
}

// eventsRequest reads the request of an event stream. A browser that connects
// again says in Last-Event-ID how far it came.
func (d *Doors) eventsRequest(ctx context.Context, r *http.Request) (*apipb.WatchEventsRequest, error) {
	req := &apipb.WatchEventsRequest{}
	if err := readQuery(req, r.URL.RawQuery); err != nil {
		return nil, err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		req.Revision = last
	}
	return req, d.check(ctx, apipb.ClusterService_WatchEvents_FullMethodName, req)
}

// sseReader writes server-sent events. Only the last event of a revision
// carries its id, so that who is cut off in between gets the revision again,
// whole.
type sseReader struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (s *sseReader) begin(revision int64) error {
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	return push(s.w, s.control, fmt.Appendf(nil, "retry: 2000\nid: %d\n\n", revision))
}

func (s *sseReader) send(e *apipb.WatchEventsResponse, last bool) error {
	data, err := eventJSON(e)
	if err != nil {
		return err
	}
	var b strings.Builder
	if last {
		fmt.Fprintf(&b, "id: %s\n", e.GetRevision())
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.GetKind(), data)
	return push(s.w, s.control, []byte(b.String()))
}

func (s *sseReader) beat(revision int64) error {
	return push(s.w, s.control, fmt.Appendf(nil, ": still here\nid: %d\n\n", revision))
}

// end tells the reader why there is no more. A reader that has left or is
// stuck does not hear it.
func (s *sseReader) end(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	_, body, _ := refusal(err)
	_ = push(s.w, s.control, fmt.Appendf(nil, "event: error\ndata: %s\n\n", body))
}

// eventJSON is an event as one line.
func eventJSON(e *apipb.WatchEventsResponse) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(e)
}
