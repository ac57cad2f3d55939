package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// The constant `chunk` is the maximum number of log bytes in one message. A message with lines has at most one line beyond it.
const chunk = 32 << 10

// mergeChunk is the same for a reader of all ranks, for whom the server keeps chunks of many ranks at once.
const mergeChunk = 8 << 10

// lineCost is about the memory that a line needs beside its text. It counts as text, so that a message with many empty lines is not large.
const lineCost = 100

// maxStreams is the maximum number of logs that are read from this node at the same time.
const maxStreams = 256

// maxSearches is the maximum number of these logs that are searched at the same time. Jobs need the other processors.
const maxSearches = 2

// serveFiles answers a server's requests for logs over the agent's bulk connection. Each stream sends only as much as
// its reader has requested.
func (a *Agent) serveFiles(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.ServeFiles(ctx)
	if err != nil {
		cancel()
		return apipb.FromStatus(err)
	}
	f := &files{agent: a, stream: stream, readers: map[int64]*reader{}, searches: make(chan struct{}, maxSearches)}
	defer f.wg.Wait()
	defer cancel()
	if err := f.send(&apipb.ServeFilesRequest{Ref: ref}); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return apipb.FromStatus(err)
		}
		if offer := m.GetSession(); offer != nil {
			f.wg.Go(func() { a.joinSession(ctx, c, ref, offer) })
			continue
		}
		f.handle(ctx, m)
	}
}

type files struct {
	agent  *Agent
	stream interface {
		Send(*apipb.ServeFilesRequest) error
	}
	wg      sync.WaitGroup
	sending sync.Mutex // a gRPC stream allows only one sender at a time
	mu      sync.Mutex
	readers map[int64]*reader

	searches chan struct{} // has a value for each search for a line that runs now
}

// The type `reader` is one log stream that the agent sends to a server.
type reader struct {
	credit chan struct{}
	cancel context.CancelFunc
}

func (f *files) handle(ctx context.Context, m *apipb.ServeFilesResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.readers[m.StreamId]
	switch {
	case m.Log != nil && r == nil:
		if len(f.readers) >= maxStreams {
			f.wg.Go(func() { f.end(m.StreamId, "too many logs are read from this node at once: try again later") })
			return
		}
		reading, cancel := context.WithCancel(ctx)
		r = &reader{credit: make(chan struct{}, 1024), cancel: cancel}
		f.readers[m.StreamId] = r
		f.wg.Go(func() {
			defer cancel()
			problem := f.copy(reading, r, m)
			if ctx.Err() != nil {
				return // the agent stops, so the log may go on: the server must not take this for its end
			}
			f.end(m.StreamId, problem)
		})
	case m.Cancel && r != nil:
		r.cancel()
	}
	for range m.Credit {
		if r == nil {
			return
		}
		select {
		case r.credit <- struct{}{}:
		default: // ignore a server that grants more than the window
		}
	}
}

// The method `copy` sends a log. It returns an error message, or "" on success.
func (f *files) copy(ctx context.Context, r *reader, m *apipb.ServeFilesResponse) string {
	q := m.Log
	log, problem := f.open(ctx, q)
	if log == nil {
		return problem
	}
	defer func() { _ = log.Close() }()
	var match func([]byte) bool
	if q.Grep != "" {
		expression, err := apipb.CompileGrep(q.Grep)
		if err != nil {
			return err.Error()
		}
		match = func(line []byte) bool {
			f.searches <- struct{}{} // the search for one line ends soon
			defer func() { <-f.searches }()
			return expression.Match(line)
		}
	}
	if err := seek(ctx, log, q, match); err != nil {
		return err.Error()
	}
	s := &sender{files: f, reader: r, id: m.StreamId}
	// The first message says where the output begins, so that a reader whose stream breaks can continue there.
	err := s.send(ctx, &apipb.ServeFilesRequest{Offset: new(log.Offset())})
	switch {
	case err != nil:
	case q.Lines:
		err = s.copyLines(ctx, log, q, match)
	default:
		err = s.copyBytes(ctx, log, q.Follow)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errUnsent) {
		return err.Error()
	}
	return ""
}

// The method `open` opens the log of a seat. If the query follows a seat that is not ready yet, it waits. Without a log, the method
// returns an error message, or "" if there is no output yet.
func (f *files) open(ctx context.Context, q *apipb.LogQuery) (*run.Log, string) {
	key := run.Key{Job: q.JobId, Fence: q.Fence, Rank: int(q.Rank)}
	for {
		held := f.agent.isHeld(key) // asked before the log is opened: a seat can end and be dropped in between
		log, err := f.agent.runner.OpenLog(key)
		switch {
		case err == nil:
			return log, ""
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err.Error()
		case !held:
			return nil, "this node no longer keeps its log"
		case !q.Follow, !pause.For(ctx, 50*time.Millisecond):
			return nil, "" // the seat has not started yet, so it has no output
		}
	}
}

// The function `seek` moves to the first byte that the query selects.
func seek(ctx context.Context, log *run.Log, q *apipb.LogQuery, match func([]byte) bool) error {
	first, end, err := log.Bounds()
	if err != nil {
		return err
	}
	log.SeekTo(first)
	if q.Offset != nil {
		log.SeekTo(max(first, q.GetOffset()))
		return nil
	}
	if q.TailBytes > 0 {
		log.SeekTo(max(first, end-q.TailBytes))
	}
	if q.Since != nil {
		if err := log.Since(q.Since.AsTime()); err != nil {
			return err
		}
	}
	if q.TailLines == nil {
		return nil
	}
	if match != nil {
		return log.TailMatching(ctx, int(q.GetTailLines()), match)
	}
	since := log.Offset()
	if err := log.Tail(int(q.GetTailLines())); err != nil {
		return err
	}
	log.SeekTo(max(since, log.Offset()))
	return nil
}

// The type `sender` sends one log to a server.
type sender struct {
	files  *files
	reader *reader
	id     int64
}

// errUnsent is the error of a message that could not be sent, because the reader or the server is gone.
var errUnsent = errors.New("the stream to the server is broken")

// The method `send` waits until the server allows another message, and sends it.
func (s *sender) send(ctx context.Context, m *apipb.ServeFilesRequest) error {
	select {
	case <-s.reader.credit:
	case <-ctx.Done():
		return ctx.Err()
	}
	m.StreamId = s.id
	if s.files.send(m) != nil {
		return errUnsent
	}
	return nil
}

// copyBytes sends the output as it is.
func (s *sender) copyBytes(ctx context.Context, log *run.Log, follow bool) error {
	buf := make([]byte, chunk)
	for {
		n, err := log.Next(ctx, buf, follow)
		if n > 0 {
			if err := s.send(ctx, &apipb.ServeFilesRequest{Data: bytes.Clone(buf[:n]), Offset: new(log.Offset())}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copyLines sends the output line by line, with times.
func (s *sender) copyLines(ctx context.Context, log *run.Log, q *apipb.LogQuery, match func([]byte) bool) error {
	o := run.LineOptions{Follow: q.Follow, Match: match}
	if q.Merge {
		o.Idle = func(until time.Time) error {
			if len(s.reader.credit) == 0 {
				return nil // the server has not processed earlier messages yet
			}
			return s.send(ctx, &apipb.ServeFilesRequest{CompleteUntil: timestamppb.New(until)})
		}
	}
	most := chunk
	if q.Merge {
		most = mergeChunk
	}
	return log.ReadLines(ctx, o, func(lines []run.Line) error {
		m, size := &apipb.ServeFilesRequest{}, 0
		for i, line := range lines {
			sent := &apipb.LogLine{Rank: q.Rank, Data: bytes.Clone(line.Data), Offset: line.End, Continued: line.Continued}
			if !line.Time.IsZero() {
				sent.Time = timestamppb.New(line.Time)
			}
			m.Lines, size = append(m.Lines, sent), size+len(line.Data)+lineCost
			if size < most && i < len(lines)-1 {
				continue
			}
			m.Offset = new(line.End)
			if err := s.send(ctx, m); err != nil {
				return err
			}
			m, size = &apipb.ServeFilesRequest{}, 0
		}
		return nil
	})
}

func (f *files) end(id int64, problem string) {
	f.mu.Lock()
	delete(f.readers, id)
	f.mu.Unlock()
	// Ignore the error of the function `send`, because the server notices a broken stream itself.
	_ = f.send(&apipb.ServeFilesRequest{StreamId: id, End: true, Error: problem})
}

func (f *files) send(m *apipb.ServeFilesRequest) error {
	f.sending.Lock()
	defer f.sending.Unlock()
	return f.stream.Send(m)
}
