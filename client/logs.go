package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// LogOptions select the output of a job.
type LogOptions struct {
	Rank      int  // rank, from 0
	Attempt   int  // from 1; 0 for the latest
	Follow    bool // continue until the attempt has ended
	TailBytes int  // only the last bytes; 0 for all stored output
	// Tail selects the last lines of each rank; nil for all stored output. With Grep, these are the last matching lines.
	Tail       *int
	Since      time.Time // only lines that were completed at this time or later; zero for all
	Grep       string    // only lines that match this regular expression, in the syntax of RE2
	Timestamps bool      // write the time before each line
	AllRanks   bool      // the lines of all ranks in the order of time, each with its rank, such as "r03| "
	// Clean changes the text of each line, if lines are read one by one. Clean may be nil.
	Clean func(line []byte) []byte
	// Notice is told that the connection was lost, or that output of a rank is missing. Notice may be nil.
	Notice func(text string)
}

// Logs writes the output of one rank of a job, or of all of its ranks, to w. If the stream breaks, for example because the server
// restarts, Logs continues where it broke, so that no output is lost or repeated. With Follow, it tries that for a minute.
func (c *Client) Logs(ctx context.Context, id string, o LogOptions, w io.Writer) error {
	r := &logReader{client: c, options: o, w: w, req: &apipb.StreamLogsRequest{
		JobId: id, Rank: int32(o.Rank), Attempt: int32(o.Attempt), Follow: o.Follow, TailBytes: int32(o.TailBytes),
		Grep: o.Grep, Timestamps: o.Timestamps, AllRanks: o.AllRanks,
	}}
	if o.Tail != nil {
		r.req.TailLines = new(int32(*o.Tail))
	}
	if !o.Since.IsZero() {
		r.req.Since = timestamppb.New(o.Since)
	}
	return r.read(ctx)
}

// logReader reads one log, over several streams if they break.
type logReader struct {
	client    *Client
	options   LogOptions
	req       *apipb.StreamLogsRequest // the request of the next stream, which continues after the last output
	w         io.Writer
	text      apipb.LogText
	got       int64  // bytes and lines of the current stream
	unlocated bool   // the node does not say at which offset the output is
	missing   int    // ranks whose output cannot be read
	buf       []byte // the text of the lines of one message
}

// errWrite marks an error of the writer, after which nothing is tried again.
var errWrite = errors.New("write logs")

func (r *logReader) read(ctx context.Context) error {
	c := r.client
	var away time.Time
	for n := 1; ; n++ {
		at := c.current.Load()
		err := r.stream(ctx, at)
		if r.got > 0 {
			n, away = 1, time.Time{}
		}
		switch {
		case err == nil && r.missing > 0:
			return ares.Errorf(ares.Unavailable, "the output of %d ranks is missing", r.missing)
		case err == nil:
			return r.endLine()
		case ctx.Err() != nil, errors.Is(err, errWrite), !passing(err), r.unlocated:
			return apipb.FromStatus(err)
		case !r.options.Follow && n >= c.opts.Attempts:
			return apipb.FromStatus(err)
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > maxAway:
			return apipb.FromStatus(err)
		}
		if n == 2 && r.options.Follow { // the first try again is at once
			r.notify("the connection to the output was lost, trying again: " + apipb.FromStatus(err).Error())
		}
		if err = c.pause(ctx, at, n, err); err != nil {
			return err
		}
	}
}

// endLine ends a line whose last part was as long as a part may be, so that it seemed to go on.
func (r *logReader) endLine() error {
	if !r.text.Continued || r.text.Ranks > 0 || r.text.Grep {
		return nil
	}
	r.text.Continued = false
	_, err := r.w.Write([]byte("\n"))
	return err
}

func (r *logReader) notify(text string) {
	if r.options.Notice != nil {
		r.options.Notice(text)
	}
}

// The method `stream` reads one stream.
func (r *logReader) stream(ctx context.Context, at int64) error {
	r.got = 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apipb.NewJobServiceClient(r.client.conns[at]).StreamLogs(ctx, r.req)
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.write(part); err != nil {
			return fmt.Errorf("%w: %w", errWrite, err)
		}
		r.advance(part)
	}
}

// The method `write` writes the output of one message.
func (r *logReader) write(part *apipb.StreamLogsResponse) error {
	for _, n := range part.GetNotices() {
		r.notify(fmt.Sprintf("rank %d: %s", n.GetRank(), n.GetMessage()))
		if n.GetMissing() {
			r.missing++
		}
	}
	r.text.Ranks, r.text.Timestamps, r.text.Grep = part.GetRanks(), r.options.Timestamps, r.options.Grep != ""
	out := part.GetData()
	if len(part.GetLines()) > 0 {
		r.buf = r.buf[:0]
		for _, line := range part.GetLines() {
			text := line.GetData()
			if r.options.Clean != nil {
				text = r.options.Clean(text)
			}
			r.buf = r.text.Append(r.buf, line, text)
		}
		out = r.buf
	}
	if len(out) == 0 {
		return nil
	}
	r.got += int64(len(out))
	_, err := r.w.Write(out)
	return err
}

// The method `advance` makes the next stream continue after a message, in the same attempt.
func (r *logReader) advance(part *apipb.StreamLogsResponse) {
	if part.GetAttempt() > 0 {
		r.req.Attempt = part.GetAttempt()
	}
	if r.req.AllRanks {
		for _, p := range part.GetPositions() {
			r.setPosition(p.GetRank(), p.GetOffset())
		}
		for _, line := range part.GetLines() {
			r.setPosition(line.GetRank(), line.GetOffset())
		}
		return
	}
	if part.Offset != nil {
		r.req.Offset = part.Offset
	} else if len(part.GetData()) > 0 {
		r.unlocated = true
	}
}

func (r *logReader) setPosition(rank int32, offset int64) {
	i := slices.IndexFunc(r.req.Positions, func(p *apipb.LogPosition) bool { return p.Rank == rank })
	if i < 0 {
		r.req.Positions = append(r.req.Positions, &apipb.LogPosition{Rank: rank, Offset: offset})
		return
	}
	r.req.Positions[i].Offset = offset
}

// Follow writes the output of one rank of a job to w, attempt after attempt, until
// the job has ended. Follow returns the job in its final state. If the argument
// `begin` is not nil, it is called before the output of each attempt, with the
// attempt's number.
func (c *Client) Follow(ctx context.Context, id string, rank int, w io.Writer, begin func(attempt int)) (*apipb.Job, error) {
	return c.FollowLogs(ctx, id, LogOptions{Rank: rank}, w, begin)
}

// FollowLogs is like Follow, with options. If the options select only a part of the output, or an attempt, FollowLogs begins with the
// latest attempt, or with the given one. The selection of the first attempt's last lines does not apply to later attempts.
func (c *Client) FollowLogs(ctx context.Context, id string, o LogOptions, w io.Writer, begin func(attempt int)) (*apipb.Job, error) {
	shown := max(o.Attempt-1, 0)
	latest := o.Attempt == 0 && (o.Tail != nil || o.TailBytes > 0 || !o.Since.IsZero())
	o.Follow = true
	for {
		job, err := c.WaitUntil(ctx, id, func(j *apipb.Job) bool {
			return ares.Phase(j.GetState()).Final() || under(j, shown+1) != nil || j.GetElements() != nil
		})
		if err != nil {
			return nil, err
		}
		if job.GetElements() != nil {
			return nil, ares.Errorf(ares.NotFound, "job %s is an array and has no output of its own: read the output of one of its elements", id)
		}
		for latest && under(job, shown+2) != nil {
			shown++
		}
		latest = false
		next := under(job, shown+1)
		if next == nil {
			if job.GetArchived() && job.GetCreatedAt() == nil { // only its end is known: the server says what became of its output
				return job, c.Logs(ctx, id, o, w)
			}
			return job, nil
		}
		shown = int(next.GetNumber())
		if begin != nil {
			begin(shown)
		}
		o.Attempt = shown
		err = c.Logs(ctx, id, o, w)
		switch {
		case err == nil, next.GetStartedAt() == nil && ares.CodeOf(err) == ares.NotFound: // an attempt that never ran has no output
		case ares.CodeOf(err) != ares.NotFound:
			return nil, err
		case o.Notice != nil: // a later attempt may have output
			o.Notice(err.Error())
		}
		o.Tail, o.TailBytes = nil, 0
	}
}

// The function `under` returns the first attempt that meets two conditions. Such an
// attempt has started or ended, and its number is at least the given number. If no
// such attempt exists, the result is nil.
func under(j *apipb.Job, number int) *apipb.Attempt {
	i := slices.IndexFunc(j.GetAttempts(), func(a *apipb.Attempt) bool {
		return int(a.GetNumber()) >= number && (a.GetStartedAt() != nil || a.GetEndedAt() != nil)
	})
	if i < 0 {
		return nil
	}
	return j.GetAttempts()[i]
}
