package api

import (
	"context"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// streams counts the open streams of one kind, so that they are bounded and
// can be waited for.
type streams struct {
	kind  string
	limit int

	mu     sync.Mutex
	open   int
	closed bool
	gone   chan struct{} // closed with the last stream after close
}

func newStreams(kind string, limit int) *streams {
	return &streams{kind: kind, limit: limit, gone: make(chan struct{})}
}

// enter takes a place; leave gives it back.
func (s *streams) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ares.Errorf(ares.Unavailable, "the server is stopping: connect again")
	}
	if s.open >= s.limit {
		return nil, ares.Errorf(ares.Exhausted, "this server has %d open %s streams, its limit: close some, or try again later", s.open, s.kind)
	}
	s.open++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		if s.closed && s.open == 0 {
			close(s.gone)
		}
	}, nil
}

// close refuses new streams and waits for the open ones, or for ctx.
func (s *streams) close(ctx context.Context) {
	s.mu.Lock()
	if !s.closed && s.open == 0 {
		close(s.gone)
	}
	s.closed = true
	s.mu.Unlock()
	select {
	case <-s.gone:
	case <-ctx.Done():
	}
}
