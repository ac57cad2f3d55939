package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// LogOptions say which output of a job to read.
type LogOptions struct {
	Rank      int  // which member, from 0
	Attempt   int  // from 1; 0 for the latest
	Follow    bool // go on until the attempt has ended
	TailBytes int  // only the last bytes; 0 for all that is kept
}

// Logs writes what one rank of a job printed to w. A stream that breaks before
// anything came is opened again; later it is an error, since what was missed
// is not known.
func (c *Client) Logs(ctx context.Context, id string, o LogOptions, w io.Writer) error {
	req := &apipb.StreamLogsRequest{
		JobId: id, Rank: int32(o.Rank), Attempt: int32(o.Attempt), Follow: o.Follow, TailBytes: int32(o.TailBytes),
	}
	for n := 1; ; n++ {
		at := c.current.Load()
		got, err := c.logsOnce(ctx, at, req, w)
		if err == nil {
			return nil
		}
		if got > 0 || ctx.Err() != nil || n >= c.opts.Attempts || !passing(err) {
			return apipb.FromStatus(err)
		}
		if err = c.pause(ctx, at, n, err); err != nil {
			return err
		}
	}
}

func (c *Client) logsOnce(ctx context.Context, at int64, req *apipb.StreamLogsRequest, w io.Writer) (got int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apipb.NewJobServiceClient(c.conns[at]).StreamLogs(ctx, req)
	if err != nil {
		return 0, err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got += int64(len(part.GetData()))
		if _, err := w.Write(part.GetData()); err != nil {
			return max(got, 1), fmt.Errorf("write logs: %w", err)
		}
	}
}

// Follow writes the output of one rank of a job to w, attempt after attempt,
// until the job has ended, and returns the job. begin is called before the
// output of each attempt with its number; it may be nil.
func (c *Client) Follow(ctx context.Context, id string, rank int, w io.Writer, begin func(attempt int)) (*apipb.Job, error) {
	shown := 0
	for {
		job, err := c.WaitUntil(ctx, id, func(j *apipb.Job) bool {
			return ares.Phase(j.GetState()).Final() || under(j, shown+1) != nil
		})
		if err != nil {
			return nil, err
		}
		next := under(job, shown+1)
		if next == nil {
			return job, nil
		}
		shown = int(next.GetNumber())
		if begin != nil {
			begin(shown)
		}
		err = c.Logs(ctx, id, LogOptions{Rank: rank, Attempt: shown, Follow: true}, w)
		if err != nil && ares.CodeOf(err) != ares.NotFound { // an attempt that never ran printed nothing
			return nil, err
		}
	}
}

// under is the first attempt from number on that has begun to run or has
// ended, nil when there is none.
func under(j *apipb.Job, number int) *apipb.Attempt {
	i := slices.IndexFunc(j.GetAttempts(), func(a *apipb.Attempt) bool {
		return int(a.GetNumber()) >= number && (a.GetStartedAt() != nil || a.GetEndedAt() != nil)
	})
	if i < 0 {
		return nil
	}
	return j.GetAttempts()[i]
}

// WatchEvents goes over what happens to jobs and nodes, from req's revision
// on, or from now on. A broken stream is opened again where it broke: no event
// is missed and none comes twice. An error ends it, as does ctx.
func (c *Client) WatchEvents(ctx context.Context, req *apipb.WatchEventsRequest) iter.Seq2[*apipb.WatchEventsResponse, error] {
	return func(yield func(*apipb.WatchEventsResponse, error) bool) {
		w := watch{c: c, req: &apipb.WatchEventsRequest{}}
		proto.Merge(w.req, req)
		if w.req.GetRevision() == "" { // fix the beginning, so that a first break misses nothing
			now, err := c.Jobs(ctx, &apipb.ListJobsRequest{PageSize: 1})
			if err != nil {
				yield(nil, err)
				return
			}
			w.req.Revision = now.GetRevision()
		}
		for {
			at := c.current.Load()
			more, err := w.once(ctx, at, yield)
			if !more {
				return
			}
			w.failed++
			if ctx.Err() != nil || w.failed >= c.opts.Attempts || !passing(err) {
				yield(nil, apipb.FromStatus(err))
				return
			}
			if err = c.pause(ctx, at, w.failed, err); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// watch is one walk over events, perhaps over several streams.
type watch struct {
	c      *Client
	req    *apipb.WatchEventsRequest // its revision is that before the last seen
	last   string                    // revision of the last event
	seen   int                       // how many events of revision last were handed on
	failed int                       // streams in a row that brought nothing
}

// once reads one stream. more is false when the reader wants no more.
func (w *watch) once(ctx context.Context, at int64, yield func(*apipb.WatchEventsResponse, error) bool) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apipb.NewClusterServiceClient(w.c.conns[at]).WatchEvents(ctx, w.req)
	if err != nil {
		return true, err
	}
	skip := w.seen // of revision last, which is sent again whole
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return true, ares.Errorf(ares.Unavailable, "the server ended the stream of events")
		}
		if err != nil {
			return true, err
		}
		w.failed = 0
		if skip > 0 && event.GetRevision() == w.last {
			skip--
			continue
		}
		skip = 0
		w.note(event.GetRevision())
		if !yield(event, nil) {
			return false, nil
		}
	}
}

// note remembers where to go on: one revision may bring several events, so a
// new stream begins before the last and drops those it has already had.
func (w *watch) note(revision string) {
	if revision == w.last {
		w.seen++
		return
	}
	w.last, w.seen = revision, 1
	if n, err := strconv.ParseInt(revision, 10, 64); err == nil && n > 0 {
		w.req.Revision = strconv.FormatInt(n-1, 10)
	}
}

// Backup writes a snapshot of the store to w, for `ares restore`, and returns
// how many bytes it has. The sum at its end is checked. Once something was
// written nothing is repeated, for it cannot be taken back.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	return c.fetch(ctx, w, c.backupOnce)
}

// Record writes what decisions are made from at this moment to w, as a
// recording that package sim reads, and returns how many bytes it has.
func (c *Client) Record(ctx context.Context, w io.Writer) (int64, error) {
	return c.fetch(ctx, w, c.recordOnce)
}

// fetch has a file sent, again after a failure as long as nothing was written.
func (c *Client) fetch(ctx context.Context, w io.Writer, once func(ctx context.Context, at int64, w io.Writer) (int64, error)) (int64, error) {
	for n := 1; ; n++ {
		at := c.current.Load()
		size, err := once(ctx, at, w)
		if err == nil || size > 0 || ctx.Err() != nil || n >= c.opts.Attempts || !passing(err) {
			return size, apipb.FromStatus(err)
		}
		if err = c.pause(ctx, at, n, err); err != nil {
			return 0, err
		}
	}
}

func (c *Client) backupOnce(ctx context.Context, at int64, w io.Writer) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apipb.NewClusterServiceClient(c.conns[at]).BackupStore(ctx, &apipb.BackupStoreRequest{})
	if err != nil {
		return 0, err
	}
	sum := sha256.New()
	var end []byte // the last bytes, which may be the sum
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return size, err
		}
		if _, err = w.Write(part.GetData()); err != nil {
			return max(size, 1), fmt.Errorf("write the backup: %w", err)
		}
		size += int64(len(part.GetData()))
		end = append(end, part.GetData()...)
		if n := len(end) - sha256.Size; n > 0 {
			_, _ = sum.Write(end[:n]) // a hash never fails
			end = append(end[:0], end[n:]...)
		}
	}
	if len(end) != sha256.Size || !bytes.Equal(sum.Sum(nil), end) {
		return max(size, 1), ares.Errorf(ares.Unavailable, "the backup of %d bytes is not whole: its sum does not match; take it again", size)
	}
	return size, nil
}

func (c *Client) recordOnce(ctx context.Context, at int64, w io.Writer) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apipb.NewClusterServiceClient(c.conns[at]).RecordState(ctx, &apipb.RecordStateRequest{})
	if err != nil {
		return 0, err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		if _, err = w.Write(part.GetData()); err != nil {
			return max(size, 1), fmt.Errorf("write the recording: %w", err)
		}
		size += int64(len(part.GetData()))
	}
}
