package estimate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/learn"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// A Scorer computes how reliable each node is, from the attempts that end on the node. Every server
// has a Scorer. When a node's score has changed noticeably, the leader's Scorer writes the score to
// the store, where the engine reads it. No other component waits for the Scorer.
//
// A node's record contains the sums from which its score is computed, and the time up to which attempts are counted. A
// new leader or a restarted server starts from the node's record. It then counts only attempts that ended after that
// time, so no attempt counts twice. After a restart, the Scorer misses the attempts of jobs that were archived in the
// meantime. Those attempts are at least a day old.
type Scorer struct {
	Store *store.Store
	Now   func() time.Time
	Log   *slog.Logger
	// The field Every is the interval at which scores are computed. Default 10 s.
	Every time.Duration
	// The field Rest is the shortest time between two writes of the same node's record. Default 1 min.
	Rest time.Duration

	inbox *batchQueue

	mu    sync.Mutex // guards the field below
	nodes *learn.NodeScores
}

// NewScorer returns a Scorer. The given view keeps it up to date.
func NewScorer(view *cache.View) *Scorer {
	s := &Scorer{inbox: newBatchQueue(), nodes: learn.NewNodeScores()}
	view.Feed(s.inbox.put)
	return s
}

// Run counts finished attempts until ctx ends.
func (s *Scorer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.inbox.news:
			s.read()
		}
	}
}

func (s *Scorer) read() {
	for b, ok := s.inbox.next(); ok; b, ok = s.inbox.next() {
		s.mu.Lock()
		s.nodes.Follow(&b, s.Now())
		s.mu.Unlock()
	}
}

// Lead writes scores until ctx ends or another server becomes the leader.
func (s *Scorer) Lead(ctx context.Context, lead *store.Leadership) error {
	for pause.For(ctx, cmp.Or(s.Every, 10*time.Second)) {
		for {
			due := s.due()
			if len(due) == 0 {
				break
			}
			err := s.Store.SaveScores(ctx, lead, due)
			if errors.Is(err, context.Canceled) || ares.CodeOf(err) == ares.Fenced {
				return err
			}
			if err != nil {
				s.Log.Warn("write scores of nodes", "error", err)
				break
			}
			s.kept(due)
		}
	}
	return ctx.Err()
}

// The method `due` returns the next scores to write.
func (s *Scorer) due() []ares.NodeScore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.Due(s.Now(), cmp.Or(s.Rest, time.Minute), store.ScoresAtOnce)
}

// The method `kept` remembers written scores until the store's watch delivers them.
func (s *Scorer) kept(list []ares.NodeScore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.nodes.MarkWritten(list, s.Now()) {
		s.Log.Info("a node has a low score", "node", r.Node, "score", r.Score, "why", r.Why)
	}
}
