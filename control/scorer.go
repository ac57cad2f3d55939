package control

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
	"github.com/ares-scheduler/ares/forecast"
	"github.com/ares-scheduler/ares/store"
)

// Scorer says how nodes do, from the attempts that end there. Every replica has
// one, which counts; the leader's writes a node's score into the store when it
// has changed noticeably, from where it reaches the engine. Nothing waits for it.
//
// The record of a node has the sums it was reckoned from and until when ends are
// counted: a new leader, or a server that begins, goes on from there and counts
// what ended later, by the runs of jobs that are still live. So nothing counts
// twice, and what is missed (attempts of jobs archived in between) is a day old.
type Scorer struct {
	Store *store.Store
	Now   func() time.Time
	Log   *slog.Logger
	// Every is how often scores are reckoned. Default 10 s.
	Every time.Duration
	// Rest is the least time between two records of one node. Default 1 min.
	Rest time.Duration

	inbox *mailbox

	mu      sync.Mutex // of all that follows
	scores  *forecast.Scores
	told    map[string]*ares.NodeScore // the records
	base    map[string]time.Time       // until when the records of the last snapshot have counted
	wrote   map[string]time.Time       // when this leader last wrote a node's
	watched map[ares.JobID]*watched
	nodes   map[string]*ares.Node
}

// watched is a live job.
type watched struct {
	job       *ares.Job
	predicted time.Duration // its p50, 0 when nothing was said
	counted   int           // the last attempt that was seen to end
}

// noticeable is by how much a score must change to be written.
const noticeable = 25

// NewScorer makes a scorer that follows a view.
func NewScorer(view *View) *Scorer {
	s := &Scorer{inbox: newMailbox()}
	s.clear()
	view.Feed(s.inbox.put)
	return s
}

func (s *Scorer) clear() {
	s.scores, s.told = forecast.NewScores(), map[string]*ares.NodeScore{}
	s.base, s.wrote = map[string]time.Time{}, map[string]time.Time{}
	s.watched, s.nodes = map[ares.JobID]*watched{}, map[string]*ares.Node{}
}

// Run counts until ctx ends.
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

// absorb counts what one batch tells. A snapshot begins anew from its records.
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
				w.predicted = ev.Forecast.P50
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
	for i := range b.Events { // when the jobs, clocks and predictions of a snapshot are known
		if r := b.Events[i].Run; r != nil && s.watched[r.Job] != nil {
			ends = append(ends, s.follow(s.watched[r.Job], &r.Run)...)
		}
	}
	slices.SortStableFunc(ends, func(a, b forecast.End) int { return a.At.Compare(b.At) })
	for i := range ends {
		s.scores.Observe(&ends[i])
	}
}

// device takes over a node's record. A device that fails speaks against its node;
// when the first record is seen, it may have failed long ago and be counted.
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

// kindOf names the nodes that can be compared with one: runs take as long there.
func kindOf(n *ares.Node) string {
	if len(n.Devices) == 0 {
		return fmt.Sprintf("%d cores", n.CPUs)
	}
	return n.Devices[0].Model
}

// follow is what the attempts of a run tell that have ended since it was last
// seen, as far as it is not in the records of their nodes.
func (s *Scorer) follow(w *watched, r *ares.Run) (out []forecast.End) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number <= w.counted || !a.Ended() {
			continue
		}
		w.counted = a.Number
		for _, e := range forecast.EndsOfAttempt(w.job, a, w.predicted, s.ahead) {
			if e.At.After(s.base[e.Node]) {
				out = append(out, e)
			}
		}
	}
	return out
}

// ahead is how far a node's clock is ahead of the servers'.
func (s *Scorer) ahead(node string) time.Duration {
	if n := s.nodes[node]; n != nil {
		return n.ClockAhead
	}
	return 0
}

// Lead writes scores until ctx ends or another leads.
func (s *Scorer) Lead(ctx context.Context, lead *store.Leadership) error {
	for pause(ctx, cmp.Or(s.Every, 10*time.Second)) {
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
				s.Log.Warn("keep scores of nodes", "error", err)
				break
			}
			s.kept(due)
		}
	}
	return ctx.Err()
}

// due are the next scores to write: those that differ noticeably from their
// records, and have not been written for a while. Of what has faded nothing is
// left but the name, and the record goes.
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
		if before := scoreIn(s.told[r.Node]); max(r.Score-before, before-r.Score) >= noticeable ||
			r.Score == ares.FullScore && before != r.Score {
			offer(r)
		}
	}
	for node := range s.told { // order-free: each for itself, and at the next look those that are left out
		if !known[node] {
			offer(ares.NodeScore{Node: node, At: now})
		}
	}
	return out
}

func scoreIn(r *ares.NodeScore) int {
	if r == nil {
		return ares.FullScore
	}
	return r.Score
}

// kept notes what was written, before the view tells of it.
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
			s.Log.Info("a node does badly", "node", r.Node, "score", r.Score, "why", r.Why)
		}
	}
}
