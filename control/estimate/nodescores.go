package estimate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/forecast"
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

	mu      sync.Mutex // guards the fields below
	scores  *forecast.Scores
	told    map[string]*ares.NodeScore // the stored records
	base    map[string]time.Time       // time up to which the last snapshot's records count attempts
	wrote   map[string]time.Time       // when this leader last wrote a node's record
	watched map[ares.JobID]*watched
	nodes   map[string]*ares.Node
}

// The type `watched` is a live job that the Scorer follows.
type watched struct {
	job       *ares.Job
	predicted time.Duration // its predicted p50, 0 without a prediction from runs of the same job
	counted   int           // number of the last attempt that ended
}

// The constant `noticeable` is the smallest change after which the leader writes a score to the store again.
const noticeable = 25

// NewScorer returns a Scorer. The given view keeps it up to date.
func NewScorer(view *cache.View) *Scorer {
	s := &Scorer{inbox: newBatchQueue()}
	s.clear()
	view.Feed(s.inbox.put)
	return s
}

func (s *Scorer) clear() {
	s.scores, s.told = forecast.NewScores(), map[string]*ares.NodeScore{}
	s.base, s.wrote = map[string]time.Time{}, map[string]time.Time{}
	s.watched, s.nodes = map[ares.JobID]*watched{}, map[string]*ares.Node{}
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
		s.absorb(&b)
		s.mu.Unlock()
	}
}

// The method `absorb` counts the attempts in one batch. After a snapshot, counting starts again from the records in
// the snapshot.
func (s *Scorer) absorb(b *ares.Batch) {
	if b.Reset {
		wrote := s.wrote
		s.clear()
		s.wrote = wrote
	}
	var ends []forecast.End
	for i := range b.Events {
		ev := &b.Events[i]
		switch {
		case ev.Job != nil && s.watched[ev.Job.ID] == nil:
			s.watched[ev.Job.ID] = &watched{job: ev.Job}
		case ev.Forecast != nil:
			if w := s.watched[ev.Forecast.Job]; w != nil {
				if w.predicted = 0; ev.Forecast.Own > 0 { // other jobs say nothing about how long this one takes
					w.predicted = ev.Forecast.P50
				}
			}
		case ev.Score != nil:
			s.told[ev.Score.Node] = ev.Score
			if b.Reset {
				s.scores.Restore(*ev.Score)
				s.base[ev.Score.Node] = ev.Score.Until
			}
		case ev.Node != nil:
			ends = append(ends, s.device(ev.Node, b.Reset)...)
		case ev.Gone.Kind == ares.KindJob:
			delete(s.watched, ares.JobID(ev.Gone.ID))
		case ev.Gone.Kind == ares.KindScore:
			delete(s.told, ev.Gone.ID)
		case ev.Gone.Kind == ares.KindNode:
			s.scores.Forget(ev.Gone.ID)
			delete(s.nodes, ev.Gone.ID)
			delete(s.wrote, ev.Gone.ID)
		}
	}
	for i := range b.Events { // after the jobs, clocks and predictions of the snapshot
		if r := b.Events[i].Run; r != nil && s.watched[r.Job] != nil {
			ends = append(ends, s.follow(s.watched[r.Job], &r.Run)...)
		}
	}
	slices.SortStableFunc(ends, func(a, b forecast.End) int { return a.At.Compare(b.At) })
	for i := range ends {
		s.scores.Observe(&ends[i])
	}
}

// The method `device` updates a node's record with the health of its devices. A device that becomes unhealthy lowers
// the score of its node. A device that is already unhealthy in the first record is not counted. Its failure may be
// old, and may have been counted before.
func (s *Scorer) device(n *ares.Node, snapshot bool) (out []forecast.End) {
	was := s.nodes[n.ID]
	s.nodes[n.ID] = n
	s.scores.SetKind(n.ID, kindOf(n))
	if was == nil || snapshot {
		return nil
	}
	for i := range n.Devices {
		d := &n.Devices[i]
		healthy := func(o ares.Device) bool { return o.ID == d.ID && o.Healthy }
		if !d.Healthy && slices.ContainsFunc(was.Devices, healthy) {
			out = append(out, forecast.End{Node: n.ID, At: s.Now(), Outcome: forecast.OutcomeFaulted})
		}
	}
	return out
}

// kindOf returns a key that is equal for nodes on which jobs have comparable runtimes.
func kindOf(n *ares.Node) string {
	if len(n.Devices) == 0 {
		return fmt.Sprintf("%d cores", n.CPUs)
	}
	return n.Devices[0].Model
}

// The method `follow` returns the ends of attempts that are new since the previous call. It leaves out ends that the
// records of the nodes already include.
func (s *Scorer) follow(w *watched, r *ares.Run) (out []forecast.End) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number <= w.counted || !a.Ended() {
			continue
		}
		w.counted = a.Number
		for _, e := range forecast.EndsOfAttempt(w.job, a, w.predicted, s.clockAhead) {
			if e.At.After(s.base[e.Node]) {
				out = append(out, e)
			}
		}
	}
	return out
}

// clockAhead returns how far a node's clock is ahead of the servers' clocks.
func (s *Scorer) clockAhead(node string) time.Duration {
	if n := s.nodes[node]; n != nil {
		return n.ClockAhead
	}
	return 0
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

// The method `due` returns the next scores to write: scores that differ noticeably from their records and were not
// written recently. If no attempts affect a node's score any more, the method returns a score without samples for that
// node. The node's record is then deleted.
func (s *Scorer) due() []ares.NodeScore {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	known := map[string]bool{}
	var out []ares.NodeScore
	offer := func(r ares.NodeScore) {
		if len(out) < store.ScoresAtOnce && s.nodes[r.Node] != nil && now.Sub(s.wrote[r.Node]) >= cmp.Or(s.Rest, time.Minute) {
			out = append(out, r)
		}
	}
	for _, r := range s.scores.Compute(now) {
		known[r.Node] = true
		if before := cache.ScoreOf(s.told[r.Node]); max(r.Score-before, before-r.Score) >= noticeable ||
			r.Score == ares.FullScore && before != r.Score {
			offer(r)
		}
	}
	for node := range s.told { // order-free: nodes are independent; the next call returns the rest
		if !known[node] {
			offer(ares.NodeScore{Node: node, At: now})
		}
	}
	return out
}

// The method `kept` remembers written scores until the store's watch delivers them.
func (s *Scorer) kept(list []ares.NodeScore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		r := &list[i]
		s.wrote[r.Node] = s.Now()
		if r.Samples == 0 {
			delete(s.told, r.Node)
			continue
		}
		s.told[r.Node] = r
		if r.Score < ares.FullScore-noticeable {
			s.Log.Info("a node has a low score", "node", r.Node, "score", r.Score, "why", r.Why)
		}
	}
}
