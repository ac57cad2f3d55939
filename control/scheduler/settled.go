package scheduler

import (
	"context"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// settled is the revision up to which decisions follow the state: the state had this revision, and all plans that were made
// before, when a decision began. Later plans follow every record up to this revision.
type settled struct {
	mu       sync.Mutex
	revision int64
	moved    chan struct{} // closed and replaced when the revision grows
}

func (s *settled) set(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision <= s.revision {
		return
	}
	s.revision = revision
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// UseFrom returns what the jobs of a tenant use. Before, it waits until no plan can be committed any more that was made without
// the records up to the given revision: a plan is made from one state and committed later, so a lower limit holds only from then
// on. This server must be the leader of the cluster.
func (l *Loop) UseFrom(ctx context.Context, tenant string, revision int64) (ares.Use, error) {
	if err := l.settled.wait(ctx, revision); err != nil {
		return ares.Use{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, use, _ := l.state.Tenant(tenant)
	return use, nil
}

func (s *settled) wait(ctx context.Context, revision int64) error {
	for {
		s.mu.Lock()
		if s.revision >= revision {
			s.mu.Unlock()
			return nil
		}
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		s.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
