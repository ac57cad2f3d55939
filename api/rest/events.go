package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// serveEvents handles GET /api/v1/events, as server-sent events or WebSocket.
func (d *Handler) serveEvents(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	if pipeline.IsWebSocket(r) {
		d.serveSocket(w, r)
		return
	}
	out := &sseReader{w: w, control: http.NewResponseController(w), form: wantsForm(r)}
	err := d.Stream(r.Context(), apipb.ClusterService_WatchEvents_FullMethodName, func(ctx context.Context) error {
		req, err := d.eventsRequest(ctx, r)
		if err != nil {
			return err
		}
		return d.Watch(ctx, req, out)
	})
	if !out.begun {
		d.fail(w, err)
		return
	}
	out.end(err)
}

// eventsRequest reads the request of an event stream. When a browser reconnects, its header Last-Event-ID
// holds the ID of the last event that it received.
func (d *Handler) eventsRequest(ctx context.Context, r *http.Request) (*apipb.WatchEventsRequest, error) {
	req := &apipb.WatchEventsRequest{}
	if err := ReadQuery(req, r.URL.RawQuery); err != nil {
		return nil, err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		req.Revision = last
	}
	return req, d.Check(ctx, req)
}

// sseReader writes server-sent events. Only the last event of a revision carries an ID. A client that loses
// its connection within a revision therefore gets the whole revision again.
type sseReader struct {
	w       http.ResponseWriter
	control *http.ResponseController
	form    bool // of the gpu-scheduler
	begun   bool
}

func (s *sseReader) Begin(revision int64) error {
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	return push(s.w, s.control, fmt.Appendf(nil, "retry: 2000\nid: %d\n\n", revision))
}

func (s *sseReader) Send(e *apipb.WatchEventsResponse, last bool) error {
	data, err := eventJSON(e, s.form)
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

func (s *sseReader) Beat(revision int64) error {
	return push(s.w, s.control, fmt.Appendf(nil, ": still here\nid: %d\n\n", revision))
}

// The method `end` sends the client the reason why the stream ended. A client that has disconnected or does
// not read never gets this reason.
func (s *sseReader) end(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	_, body, _ := pipeline.ErrorAnswer(err)
	_ = push(s.w, s.control, fmt.Appendf(nil, "event: error\ndata: %s\n\n", body))
}

// eventJSON formats an event as one line of JSON.
func eventJSON(e *apipb.WatchEventsResponse, form bool) ([]byte, error) {
	if form {
		return formJSON{}.Marshal(e)
	}
	return protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(e)
}
