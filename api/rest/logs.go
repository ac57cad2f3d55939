package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// serveLogs handles GET /api/v1/jobs/{job_id}/logs: it sends the output as
// plain text while the job prints it, in the form of "ares logs". serveLogs aborts the connection if the
// output is incomplete.
func (d *Handler) serveLogs(w http.ResponseWriter, r *http.Request, params map[string]string) {
	req := &apipb.StreamLogsRequest{}
	out := &textStream{w: w, control: http.NewResponseController(w)}
	// Send the same metadata as a gRPC caller does, because the request may be
	// forwarded to another server.
	in := metadata.NewIncomingContext(r.Context(), metadata.Pairs("authorization", "Bearer "+Token(r)))
	err := d.Stream(in, apipb.JobService_StreamLogs_FullMethodName, func(ctx context.Context) error {
		if err := ReadQuery(req, r.URL.RawQuery, "job_id"); err != nil {
			return err
		}
		req.JobId = params["job_id"]
		if err := d.Check(ctx, req); err != nil {
			return err
		}
		out.text.Timestamps, out.text.Grep = req.GetTimestamps(), req.GetGrep() != ""
		return d.ReadLogs(ctx, req, out.sendLogs)
	})
	switch {
	case err == nil:
		out.begin() // for a job that printed nothing
	case !out.begun:
		d.fail(w, err)
	default:
		panic(http.ErrAbortHandler) // the only way to tell the client that the output is incomplete
	}
}

// textStream writes chunks of output as they arrive.
type textStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
	text    apipb.LogText
}

func (s *textStream) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		s.w.Header().Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
}

// sendLogs writes the output of one message. A reader of text cannot continue after a broken stream, so the offsets are left
// out. A rank whose output is missing is named in the text.
func (s *textStream) sendLogs(m *apipb.StreamLogsResponse) error {
	s.text.Ranks = m.GetRanks()
	out := m.GetData()
	for _, n := range m.GetNotices() {
		out = s.text.Append(out, &apipb.LogLine{Rank: n.GetRank()}, []byte("[ares: "+n.GetMessage()+"]"))
	}
	for _, line := range m.GetLines() {
		out = s.text.Append(out, line, line.GetData())
	}
	if len(out) == 0 {
		return nil
	}
	return s.send(out)
}

func (s *textStream) send(data []byte) error {
	s.begin()
	return push(s.w, s.control, data)
}

// The function `push` writes data to the client and flushes it. It returns an
// error if the client does not read in time.
func push(w http.ResponseWriter, control *http.ResponseController, data []byte) error {
	err := control.SetWriteDeadline(time.Now().Add(pipeline.MaxWriteWait))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return pipeline.ErrUnread(pipeline.MaxWriteWait, err)
	}
	if _, err := w.Write(data); err != nil {
		return pipeline.ErrUnread(pipeline.MaxWriteWait, err)
	}
	return pipeline.ErrUnread(pipeline.MaxWriteWait, control.Flush())
}
