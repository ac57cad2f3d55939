package api

import (
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
	gone   *sync.Cond
}

func newStreams(kind string, limit int) *streams {
	s := &streams{kind: kind, limit: limit}
	s.gone = sync.NewCond(&s.mu)
	return s
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
		s.gone.Broadcast()
	}, nil
}

// close refuses new streams and waits for the open ones.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.open > 0 {
		s.gone.Wait()
	}
}
