package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
)

// LogSource reads what jobs printed.
type LogSource interface {
	// Logs calls send with the output a query asks for, in order, and returns
	// when there is no more of it. An error of send ends it.
	Logs(ctx context.Context, q LogQuery, send func([]byte) error) error
}

// LogQuery asks for the output of one rank of one attempt.
type LogQuery struct {
	Job       ares.JobID
	Entry     control.Entry // the job and its run when the query came; the attempt is in it
	Rank      int
	Attempt   int   // from 1
	Follow    bool  // go on until the attempt has ended
	TailBytes int64 // only the last bytes; 0 for all that is kept
}

// StreamLogs implements apipb.JobServiceServer.
func (d *jobDoor) StreamLogs(req *apipb.StreamLogsRequest, stream grpc.ServerStreamingServer[apipb.StreamLogsResponse]) error {
	return d.streamLogs(stream.Context(), req, func(data []byte) error {
		return stream.Send(&apipb.StreamLogsResponse{Data: data})
	})
}

func (d *Doors) streamLogs(ctx context.Context, req *apipb.StreamLogsRequest, send func([]byte) error) error {
	if d.cfg.Logs == nil {
		return ares.Errorf(ares.Unavailable, "this server cannot read logs")
	}
	q, err := d.logQuery(ctx, req)
	if err != nil {
		return err
	}
	return d.cfg.Logs.Logs(ctx, q, send)
}

// logQuery finds the attempt a request is about. Who follows a job that has
// not been placed yet waits for its first attempt.
func (d *Doors) logQuery(ctx context.Context, req *apipb.StreamLogsRequest) (LogQuery, error) {
	q := LogQuery{
		Job: ares.JobID(req.GetJobId()), Rank: int(req.GetRank()), Attempt: int(req.GetAttempt()),
		Follow: req.GetFollow(), TailBytes: int64(req.GetTailBytes()),
	}
	snap, err := d.snapshot(ctx, req.GetJobId())
	if err != nil {
		return q, err
	}
	if snap.Tombstone != nil {
		return q, ares.Errorf(ares.NotFound, "job %s is archived: its output is no longer kept", q.Job)
	}
	if snap.Job.IsArray() {
		return q, ares.Errorf(ares.NotFound, "job %s is an array and prints nothing itself: read the output of one of its elements (list them with array_of=%s)", q.Job, q.Job)
	}
	q.Entry = control.Entry{Job: snap.Job, Run: snap.Run, Progress: snap.Progress}
	for q.Follow && !q.begun() && !q.Entry.Run.Phase.Final() {
		next := d.cfg.View.Revision() + 1
		if e := d.cfg.View.Job(q.Job); e != nil && e.Run.Revision > q.Entry.Run.Revision {
			q.Entry = *e
			continue
		}
		if err := d.cfg.View.WaitFor(ctx, next); err != nil {
			return q, err
		}
	}
	if q.Rank >= max(q.Entry.Job.Members, 1) {
		return q, ares.Errorf(ares.NotFound, "rank: job %s has ranks 0 to %d", q.Job, max(q.Entry.Job.Members, 1)-1).At("rank")
	}
	if !q.begun() {
		return q, ares.Errorf(ares.NotFound, "job %s is %s and has no such attempt (%d so far): follow it to wait for its output", q.Job, q.Entry.Run.Phase, q.Entry.Run.Placed).At("attempt")
	}
	if q.Attempt == 0 {
		q.Attempt = q.Entry.Run.Last().Number
	}
	if a, h := q.seat(); h != nil {
		return q, nil
	} else if a != nil {
		return q, ares.Errorf(ares.NotFound, "rank: attempt %d of job %s has ranks 0 to %d", a.Number, q.Job, len(a.Seats)-1).At("rank")
	}
	return q, ares.Errorf(ares.NotFound, "attempt: attempt %d of job %s is no longer kept", q.Attempt, q.Job).At("attempt")
}

// begun says whether the attempt that is asked for exists or existed.
func (q *LogQuery) begun() bool {
	return len(q.Entry.Run.Attempts) > 0 && q.Attempt <= q.Entry.Run.Placed
}

// seat finds the attempt and the seat the query is about, nil without them.
func (q *LogQuery) seat() (*ares.Attempt, *ares.Held) {
	for i := range q.Entry.Run.Attempts {
		a := &q.Entry.Run.Attempts[i]
		if a.Number != q.Attempt {
			continue
		}
		for k := range a.Seats {
			if a.Seats[k].Rank == q.Rank {
				return a, &a.Seats[k]
			}
		}
		return a, nil
	}
	return nil, nil
}

// serveLogs is GET /api/v1/jobs/{job_id}/logs: the output as plain text, sent
// as it comes. A connection that is cut means that the output is not whole.
func (d *Doors) serveLogs(w http.ResponseWriter, r *http.Request, params map[string]string) {
	req := &apipb.StreamLogsRequest{}
	out := &textStream{w: w, control: http.NewResponseController(w)}
	// What a gRPC caller would have sent: the logs may be at another server.
	in := metadata.NewIncomingContext(r.Context(), metadata.Pairs("authorization", "Bearer "+token(r)))
	err := d.stream(in, apipb.JobService_StreamLogs_FullMethodName, func(ctx context.Context) error {
		if err := readQuery(req, r.URL.RawQuery, "job_id"); err != nil {
			return err
		}
		req.JobId = params["job_id"]
		if err := d.check(ctx, apipb.JobService_StreamLogs_FullMethodName, req); err != nil {
			return err
		}
		return d.streamLogs(ctx, req, out.send)
	})
	switch {
	case err == nil:
		out.begin() // for a job that printed nothing
	case !out.begun:
		d.fail(w, err)
	default:
		panic(http.ErrAbortHandler) // the only way to say that it is not whole
	}
}

// textStream writes chunks as they come.
type textStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (s *textStream) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		s.w.Header().Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
}

func (s *textStream) send(data []byte) error {
	s.begin()
	return push(s.w, s.control, data)
}

// push writes and flushes, and gives up on a reader that does not read.
func push(w http.ResponseWriter, control *http.ResponseController, data []byte) error {
	err := control.SetWriteDeadline(time.Now().Add(maxWriteWait))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return unread(maxWriteWait, err)
	}
	if _, err := w.Write(data); err != nil {
		return unread(maxWriteWait, err)
	}
	return unread(maxWriteWait, control.Flush())
}

// unread is the error of a write that its reader did not take.
func unread(wait time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return ares.Errorf(ares.Unavailable, "the reader has left, or has not read for %s: %s", wait, err)
}
