package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// The constant `chunk` is the maximum number of log bytes in one message.
const chunk = 32 << 10

// maxStreams is the maximum number of logs that are read from this node at the same time.
const maxStreams = 256

// serveFiles answers a server's requests for logs over the agent's bulk connection. Each stream sends only as much as
// its reader has requested.
func (a *Agent) serveFiles(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.ServeFiles(ctx)
	if err != nil {
		cancel()
		return apipb.FromStatus(err)
	}
	f := &files{agent: a, stream: stream, readers: map[int64]*reader{}}
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
			f.end(m.StreamId, f.copy(reading, r, m))
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
	key := run.Key{Job: q.JobId, Fence: q.Fence, Rank: int(q.Rank)}
	held := f.agent.isHeld(key) // asked before the log is opened: a seat can end and be dropped in between
	log, err := f.agent.runner.OpenLog(key)
	for errors.Is(err, fs.ErrNotExist) && held {
		if !q.Follow {
			return "" // the seat has not started yet, so it has no output
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return ""
		}
		held = f.agent.isHeld(key)
		log, err = f.agent.runner.OpenLog(key)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "this node no longer keeps its log"
	}
	if err != nil {
		return err.Error()
	}
	defer func() { _ = log.Close() }()
	if q.TailBytes > 0 {
		if first, end, err := log.Bounds(); err == nil {
			log.SeekTo(max(first, end-q.TailBytes))
		}
	}
	buf := make([]byte, chunk)
	for {
		n, err := log.Next(ctx, buf, q.Follow)
		if n > 0 {
			select {
			case <-r.credit:
			case <-ctx.Done():
				return ""
			}
			if f.send(&apipb.ServeFilesRequest{StreamId: m.StreamId, Data: append([]byte(nil), buf[:n]...)}) != nil {
				return ""
			}
		}
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return ""
		case err != nil:
			return err.Error()
		}
	}
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
