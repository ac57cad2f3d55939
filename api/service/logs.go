package service

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
)

// LogSource reads the output of jobs.
type LogSource interface {
	// Logs calls the function `send` with the requested output, in order, and
	// returns when there is no more output. Logs returns early when `send`
	// returns an error.
	Logs(ctx context.Context, q LogQuery, send func(LogPart) error) error
}

// LogPart is a part of the output of one rank: bytes, or lines.
type LogPart struct {
	Data          []byte
	Offset        *int64 // of the byte after the part; nil if unknown
	Lines         []*apipb.LogLine
	CompleteUntil *timestamppb.Timestamp // every line that was completed before has been sent; nil if unknown
	Notice        string                 // what the reader has to know about the output, such as that its beginning was deleted
}

// LogQuery is a request for the output of one rank of one attempt.
type LogQuery struct {
	Job       ares.JobID
	Entry     cache.Entry // the job and its run when the query arrived, including the attempt
	Rank      int
	Attempt   int                    // from 1
	Follow    bool                   // continue until the attempt has ended
	TailBytes int64                  // only the last bytes; 0 for all stored output
	TailLines *int32                 // only the last lines; nil for all
	Since     *timestamppb.Timestamp // only lines that were completed at this time or later; may be nil
	Grep      string                 // only lines that match
	Lines     bool                   // send lines instead of bytes
	Merge     bool                   // the lines are merged with those of other ranks
	Offset    *int64                 // continue here; nil for a new reader
}

const (
	// maxMatchingTail limits tail_lines together with grep, because the node needs memory for each of these lines.
	maxMatchingTail = 10_000
	// maxSkew is by how much a caller's clock may be ahead of the server's.
	maxSkew = time.Minute
)

// StreamLogs implements apipb.JobServiceServer.
func (d *jobService) StreamLogs(req *apipb.StreamLogsRequest, stream grpc.ServerStreamingServer[apipb.StreamLogsResponse]) error {
	return d.ReadLogs(stream.Context(), req, stream.Send)
}

// ReadLogs sends the output that a request selects.
func (d *Services) ReadLogs(ctx context.Context, req *apipb.StreamLogsRequest, send func(*apipb.StreamLogsResponse) error) error {
	if d.Cfg.Logs == nil && d.Cfg.Federation.Owners == nil {
		return ares.Errorf(ares.Unavailable, "this server cannot read logs of jobs")
	}
	if err := d.checkLogSelection(req); err != nil {
		return err
	}
	q, err := d.logQuery(ctx, req)
	if err != nil {
		return err
	}
	if d.Cfg.Federation.Owners != nil {
		return d.ownerLogs(ctx, &q, req, send)
	}
	if req.GetAllRanks() {
		return d.mergeLogs(ctx, q, req.GetPositions(), send)
	}
	return d.Cfg.Logs.Logs(ctx, q, func(p LogPart) error {
		out := &apipb.StreamLogsResponse{Data: p.Data, Offset: p.Offset, Lines: p.Lines, CompleteUntil: p.CompleteUntil, Attempt: int32(q.Attempt)}
		if p.Notice != "" {
			out.Notices = []*apipb.LogNotice{{Rank: int32(q.Rank), Message: p.Notice}}
		}
		return send(out)
	})
}

// checkLogSelection rejects a request whose selection of lines is wrong.
func (d *Services) checkLogSelection(req *apipb.StreamLogsRequest) error {
	var p ares.Problems
	if _, err := apipb.CompileGrep(req.GetGrep()); err != nil {
		p.Add("grep", "is not a regular expression: %s: use the syntax of RE2", ares.Clip(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	if since := req.GetSince(); since != nil && since.AsTime().After(d.Cfg.Now().Add(maxSkew)) {
		p.Add("since", "%s is in the future", since.AsTime().Format(time.RFC3339))
	}
	if req.TailLines != nil && req.GetTailBytes() > 0 {
		p.Add("tail_bytes", "cannot be combined with tail_lines: use one of them")
	}
	if req.GetGrep() != "" && req.GetTailLines() > maxMatchingTail {
		p.Add("tail_lines", "is at most %d together with grep, not %d", maxMatchingTail, req.GetTailLines())
	}
	return p.Err()
}

// The method `selects` reports whether the query needs an agent that can select lines.
func (q *LogQuery) selects() bool {
	return q.TailLines != nil || q.Since != nil || q.Grep != "" || q.Lines || q.Offset != nil
}

func (q *LogQuery) window() int32 {
	if q.Merge {
		return mergeWindow
	}
	return window
}

// forAgent returns the query for the agent of a seat.
func (q *LogQuery) forAgent(a *ares.Attempt, h *ares.SeatStatus) *apipb.LogQuery {
	out := &apipb.LogQuery{
		JobId: string(q.Job), Fence: int64(a.Fence), Rank: int32(h.Rank), Follow: q.Follow && !a.Ended(), TailBytes: q.TailBytes,
		Since: q.Since, Grep: q.Grep, Lines: q.Lines, Merge: q.Merge, Offset: q.Offset,
	}
	if q.TailLines != nil {
		out.TailLines = new(int64(*q.TailLines))
	}
	return out
}

// forServer returns the query for the server to which the rank's node is connected.
func (q *LogQuery) forServer() *apipb.StreamLogsRequest {
	return &apipb.StreamLogsRequest{
		JobId: string(q.Job), Rank: int32(q.Rank), Attempt: int32(q.Attempt), Follow: q.Follow, TailBytes: int32(q.TailBytes),
		TailLines: q.TailLines, Since: q.Since, Grep: q.Grep, Timestamps: q.Lines, Offset: q.Offset,
	}
}

// logQuery finds the attempt that a request is about. If the request's field
// `follow` is set, logQuery waits for the first attempt of a job that has not
// been placed yet.
func (d *Services) logQuery(ctx context.Context, req *apipb.StreamLogsRequest) (q LogQuery, err error) {
	q = LogQuery{
		Job: ares.JobID(req.GetJobId()), Rank: int(req.GetRank()), Attempt: int(req.GetAttempt()),
		Follow: req.GetFollow(), TailBytes: int64(req.GetTailBytes()), TailLines: req.TailLines, Since: req.GetSince(), Grep: req.GetGrep(),
		Lines: req.GetTimestamps() || req.GetAllRanks() || req.GetGrep() != "", Offset: req.Offset,
		Merge: req.GetAllRanks() || isForwarded(ctx),
	}
	if req.GetAllRanks() {
		q.Rank, q.Offset = 0, nil
	}
	if q.Entry, err = d.logEntry(ctx, req.GetJobId()); err != nil {
		return q, err
	}
	if q.Entry.Job.IsArray() {
		return q, ares.Errorf(ares.NotFound, "job %s is an array and has no output of its own: read the output of one of its elements (list them with array_of=%s)", q.Job, q.Job)
	}
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

// logEntry returns a job for a reader of its output. An archived job comes from history, because its output may still be stored.
func (d *Services) logEntry(ctx context.Context, id string) (cache.Entry, error) {
	snap, err := d.snapshot(ctx, id)
	if err == nil && snap.Tombstone == nil {
		return cache.Entry{Job: snap.Job, Run: snap.Run, Progress: snap.Progress}, nil
	}
	if err != nil && (ares.CodeOf(err) != ares.NotFound || pipeline.CheckJobID(id) != nil) {
		return cache.Entry{}, err
	}
	found, missing := d.ArchivedJob(ctx, ares.JobID(id))
	switch {
	case missing == nil:
		return cache.Entry{Job: found.Job, Run: found.Run}, nil
	case err != nil:
		return cache.Entry{}, err
	}
	return cache.Entry{}, ares.Errorf(ares.NotFound, "job %s is archived, and history does not have it: its output cannot be found", id)
}

// The method `begun` reports whether the requested attempt has been placed, even if its record has
// been deleted since. At a hub, the last attempt is the last one in the cluster that has the job now.
func (q *LogQuery) begun() bool {
	r := &q.Entry.Run
	last := r.Last()
	if last == nil || q.Attempt > r.Placed {
		return false
	}
	return q.Attempt > 0 || last.Cluster == "" || last.Cluster == r.Cluster
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
