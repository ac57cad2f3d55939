package service

import (
	"context"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
)

// LogSource reads the output of jobs.
type LogSource interface {
	// Logs calls the function `send` with the requested output, in order, and
	// returns when there is no more output. Logs returns early when `send`
	// returns an error.
	Logs(ctx context.Context, q LogQuery, send func([]byte) error) error
}

// LogQuery is a request for the output of one rank of one attempt.
type LogQuery struct {
	Job       ares.JobID
	Entry     cache.Entry // the job and its run when the query arrived, including the attempt
	Rank      int
	Attempt   int   // from 1
	Follow    bool  // continue until the attempt has ended
	TailBytes int64 // only the last bytes; 0 for all stored output
}

// StreamLogs implements apipb.JobServiceServer.
func (d *jobService) StreamLogs(req *apipb.StreamLogsRequest, stream grpc.ServerStreamingServer[apipb.StreamLogsResponse]) error {
	return d.ReadLogs(stream.Context(), req, func(data []byte) error {
		return stream.Send(&apipb.StreamLogsResponse{Data: data})
	})
}

func (d *Services) ReadLogs(ctx context.Context, req *apipb.StreamLogsRequest, send func([]byte) error) error {
	if d.Cfg.Logs == nil {
		return ares.Errorf(ares.Unavailable, "this server cannot read logs of jobs")
	}
	q, err := d.logQuery(ctx, req)
	if err != nil {
		return err
	}
	return d.Cfg.Logs.Logs(ctx, q, send)
}

// logQuery finds the attempt that a request is about. If the request's field
// `follow` is set, logQuery waits for the first attempt of a job that has not
// been placed yet.
func (d *Services) logQuery(ctx context.Context, req *apipb.StreamLogsRequest) (LogQuery, error) {
	q := LogQuery{
		Job: ares.JobID(req.GetJobId()), Rank: int(req.GetRank()), Attempt: int(req.GetAttempt()),
		Follow: req.GetFollow(), TailBytes: int64(req.GetTailBytes()),
	}
	snap, err := d.snapshot(ctx, req.GetJobId())
	if err != nil {
		return q, err
	}
	if snap.Tombstone != nil {
		return q, ares.Errorf(ares.NotFound, "job %s is archived: its output was deleted", q.Job)
	}
	if snap.Job.IsArray() {
		return q, ares.Errorf(ares.NotFound, "job %s is an array and has no output of its own: read the output of one of its elements (list them with array_of=%s)", q.Job, q.Job)
	}
	q.Entry = cache.Entry{Job: snap.Job, Run: snap.Run, Progress: snap.Progress}
	for q.Follow && !q.begun() && !q.Entry.Run.Phase.Final() {
		next := d.Cfg.View.Revision() + 1
		if e := d.Cfg.View.Job(q.Job); e != nil && e.Run.Revision > q.Entry.Run.Revision {
			q.Entry = *e
			continue
		}
		if err := d.Cfg.View.WaitFor(ctx, next); err != nil {
			return q, err
		}
	}
	if q.Rank >= max(q.Entry.Job.Members, 1) {
		return q, ares.Errorf(ares.NotFound, "rank: job %s has ranks 0 to %d, but rank %d was requested", q.Job, max(q.Entry.Job.Members, 1)-1, q.Rank).At("rank")
	}
	if !q.begun() {
		return q, ares.Errorf(ares.NotFound, "the requested attempt of job %s does not exist (state: %s, attempts so far: %d): use --follow to wait for output", q.Job, q.Entry.Run.Phase, q.Entry.Run.Placed).At("attempt")
	}
	if q.Attempt == 0 {
		q.Attempt = q.Entry.Run.Last().Number
	}
	if a, h := q.Seat(); h != nil {
		return q, nil
	} else if a != nil {
		return q, ares.Errorf(ares.NotFound, "rank: attempt %d of job %s has ranks 0 to %d, but rank %d was requested", a.Number, q.Job, len(a.Seats)-1, q.Rank).At("rank")
	}
	return q, ares.Errorf(ares.NotFound, "attempt: the record of attempt %d of job %s was deleted", q.Attempt, q.Job).At("attempt")
}

// The method `begun` reports whether the requested attempt has been placed, even if its record has
// been deleted since.
func (q *LogQuery) begun() bool {
	return len(q.Entry.Run.Attempts) > 0 && q.Attempt <= q.Entry.Run.Placed
}

// Seat returns the attempt and the seat whose output the query requests, or nil
// if there is none.
func (q *LogQuery) Seat() (*ares.Attempt, *ares.SeatStatus) {
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
