package agent

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/joblog"
	"github.com/ares-scheduler/ares/pause"
)

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
	query, err := q.Select(func(search func()) {
		f.searches <- struct{}{} // the search for one line ends soon
		defer func() { <-f.searches }()
		search()
	})
	if err != nil {
		return err.Error()
	}
	query.Ready = func() bool { return len(r.credit) > 0 }
	s := &sender{files: f, reader: r, id: m.StreamId, rank: q.Rank}
	err = log.Send(ctx, query, func(part joblog.Part) error { return s.send(ctx, part) })
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

// The type `sender` sends one log to a server.
type sender struct {
	files  *files
	reader *reader
	id     int64
	rank   int32
}

// errUnsent is the error of a message that could not be sent, because the reader or the server is gone.
var errUnsent = errors.New("the stream to the server is broken")

// The method `send` waits until the server allows another message, and sends it.
func (s *sender) send(ctx context.Context, part joblog.Part) error {
	select {
	case <-s.reader.credit:
	case <-ctx.Done():
		return ctx.Err()
	}
	m := &apipb.ServeFilesRequest{StreamId: s.id, Data: part.Data, Offset: part.Offset, CompleteUntil: apipb.Timestamp(part.CompleteUntil)}
	for i := range part.Lines {
		m.Lines = append(m.Lines, apipb.NewLogLine(s.rank, &part.Lines[i]))
	}
	if s.files.send(m) != nil {
		return errUnsent
	}
	return nil
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
