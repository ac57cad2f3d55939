package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// WatchEvents iterates over the events of jobs and nodes. WatchEvents starts at the
// revision in the request. If the request has no revision, WatchEvents starts with
// the next event. If an event stream breaks, WatchEvents reopens it at the same
// position, so no event is lost or repeated. The iteration ends after an error or
// when ctx ends.
func (c *Client) WatchEvents(ctx context.Context, req *apipb.WatchEventsRequest) iter.Seq2[*apipb.WatchEventsResponse, error] {
	return func(yield func(*apipb.WatchEventsResponse, error) bool) {
		w := watch{c: c, req: &apipb.WatchEventsRequest{}}
		proto.Merge(w.req, req)
		if w.req.GetRevision() == "" { // fix the start, so that a first break misses nothing
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

// The type `watch` is the state of one iteration over events, which may read several
// streams.
type watch struct {
	c      *Client
	req    *apipb.WatchEventsRequest // its revision is the one before the last seen revision
	last   string                    // revision of the last event
	seen   int                       // events of revision last that were already returned
	failed int                       // consecutive streams without any event
}

// The method `once` reads one stream. The result `more` is false if the caller
// stopped the iteration.
func (w *watch) once(ctx context.Context, at int64, yield func(*apipb.WatchEventsResponse, error) bool) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apipb.NewClusterServiceClient(w.c.conns[at]).WatchEvents(ctx, w.req)
	if err != nil {
		return true, err
	}
	skip := w.seen // number of events to skip, because revision last is sent again completely
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return true, ares.Errorf(ares.Unavailable, "the server closed the stream of events")
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

// The method `note` records the revision at which the next stream must continue. One
// revision may have several events. Therefore a new stream begins before the last
// revision and skips the events that were already returned.
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
// its size in bytes. Backup verifies the snapshot's checksum at the end. Backup
// does not retry once it has written the first byte to w, because it cannot
// undo writes.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	return c.fetch(ctx, w, c.backupOnce)
}

// Record writes a recording of the scheduler's current state to w, and returns
// the recording's size in bytes. Package sim can read this recording.
func (c *Client) Record(ctx context.Context, w io.Writer) (int64, error) {
	return c.fetch(ctx, w, c.recordOnce)
}

// The method `fetch` streams a file to w. The method retries only while nothing has
// been written to w.
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
	var end []byte // the last bytes, which may be the checksum
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
		return max(size, 1), ares.Errorf(ares.Unavailable, "the checksum of the backup (%d bytes) is wrong, so the backup is incomplete or damaged: create the backup again", size)
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
