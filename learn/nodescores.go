package learn

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
)

// NodeScores computes how reliable each node is, from the attempts that end on the node.
//
// A node's record contains the sums from which its score is computed, and the time up to which attempts are counted. A new
// NodeScores starts from the records in the first snapshot. It then counts only attempts that ended after that time, so no
// attempt counts twice.
type NodeScores struct {
	scores  *forecast.Scores
	told    map[string]*ares.NodeScore // the current records
	base    map[string]time.Time       // time up to which the last snapshot's records count attempts
	wrote   map[string]time.Time       // when a node's record was last written
	watched map[ares.JobID]*watchedJob
	nodes   map[string]*ares.Node
	// carried are records that the next snapshot continues from, although they are not in it.
	carried []ares.NodeScore
}

// watchedJob is a live job that NodeScores follows.
type watchedJob struct {
	job       *ares.Job
	predicted time.Duration // its predicted p50, 0 without a prediction from runs of the same job
	counted   int           // number of the last attempt that ended
}

// The constant `noticeable` is the smallest change after which a score is written again.
const noticeable = 25

// NewNodeScores returns a NodeScores that has seen no attempts.
func NewNodeScores() *NodeScores {
	s := &NodeScores{}
	s.clear()
	return s
}

func (s *NodeScores) clear() {
	s.scores, s.told = forecast.NewScores(), map[string]*ares.NodeScore{}
	s.base, s.wrote = map[string]time.Time{}, map[string]time.Time{}
	s.watched, s.nodes = map[ares.JobID]*watchedJob{}, map[string]*ares.Node{}
}

// Follow counts the attempts and the failed devices in one batch. After a snapshot, counting starts again from the records
// in the snapshot.
func (s *NodeScores) Follow(b *ares.Batch, now time.Time) {
	if b.Reset {
		wrote := s.wrote
		s.clear()
		s.wrote = wrote
		for i := range s.carried {
			s.restore(&s.carried[i])
		}
	}
	var ends []forecast.End
	for i := range b.Events {
		ev := &b.Events[i]
		switch {
		case ev.Job != nil && s.watched[ev.Job.ID] == nil:
			s.watched[ev.Job.ID] = &watchedJob{job: ev.Job}
		case ev.Forecast != nil:
			if w := s.watched[ev.Forecast.Job]; w != nil {
				if w.predicted = 0; ev.Forecast.Own > 0 { // other jobs say nothing about how long this one takes
					w.predicted = ev.Forecast.P50
				}
			}
		case ev.Score != nil:
			s.told[ev.Score.Node] = ev.Score
			if b.Reset {
				s.restore(ev.Score)
			}
		case ev.Node != nil:
			ends = append(ends, s.followDevices(ev.Node, b.Reset, now)...)
		case ev.Gone.Kind == ares.KindScore:
			delete(s.told, ev.Gone.ID)
		case ev.Gone.Kind == ares.KindNode:
			s.scores.Forget(ev.Gone.ID)
			delete(s.nodes, ev.Gone.ID)
			delete(s.wrote, ev.Gone.ID)
		}
	}
	s.dropCarried()
	for i := range b.Events { // after the jobs, clocks and predictions of the snapshot
		if r := b.Events[i].Run; r != nil && s.watched[r.Job] != nil {
			ends = append(ends, s.follow(s.watched[r.Job], &r.Run)...)
		}
	}
	for i := range b.Events { // last, because one batch may have the end of a run and the deletion of its job
		if g := b.Events[i].Gone; g.Kind == ares.KindJob {
			delete(s.watched, ares.JobID(g.ID))
		}
	}
	slices.SortStableFunc(ends, func(a, b forecast.End) int { return a.At.Compare(b.At) })
	for i := range ends {
		s.scores.Observe(&ends[i])
	}
}

// The method `restore` continues from a node's record. It need not be a current record of the scheduler.
func (s *NodeScores) restore(r *ares.NodeScore) {
	s.scores.Restore(*r)
	s.base[r.Node] = r.Until
}

// dropCarried ends the use of `carried`. Nodes that the snapshot does not have are forgotten.
func (s *NodeScores) dropCarried() {
	for i := range s.carried {
		if node := s.carried[i].Node; s.nodes[node] == nil {
			s.scores.Forget(node)
			delete(s.base, node)
		}
	}
	s.carried = nil
}

// followDevices updates a node's record with the health of its devices. A device that becomes unhealthy lowers
// the score of its node. A device that is already unhealthy in the first record is not counted. Its failure may be
// old, and may have been counted before.
func (s *NodeScores) followDevices(n *ares.Node, snapshot bool, now time.Time) (out []forecast.End) {
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
			out = append(out, forecast.End{Node: n.ID, At: now, Outcome: forecast.OutcomeFaulted})
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
func (s *NodeScores) follow(w *watchedJob, r *ares.Run) (out []forecast.End) {
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

// clockAhead returns how far a node's clock is ahead of the scheduler's clock.
func (s *NodeScores) clockAhead(node string) time.Duration {
	if n := s.nodes[node]; n != nil {
		return n.ClockAhead
	}
	return 0
}

// Current returns the score of every node that has ended attempts, sorted by name.
func (s *NodeScores) Current(now time.Time) []ares.NodeScore { return s.scores.Compute(now) }

// Due returns up to `limit` scores to write: scores that differ noticeably from their records and were not written within
// the time `rest`. If no attempts affect a node's score any more, Due returns a score without samples for that node. The
// node's record is then to be deleted.
func (s *NodeScores) Due(now time.Time, rest time.Duration, limit int) []ares.NodeScore {
	known := map[string]bool{}
	var out []ares.NodeScore
	offer := func(r ares.NodeScore) {
		if len(out) < limit && s.nodes[r.Node] != nil && now.Sub(s.wrote[r.Node]) >= rest {
			out = append(out, r)
		}
	}
	for _, r := range s.scores.Compute(now) {
		known[r.Node] = true
		if before := scoreOf(s.told[r.Node]); max(r.Score-before, before-r.Score) >= noticeable ||
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

// scoreOf returns the score in a record. A node without a record has the full score.
func scoreOf(r *ares.NodeScore) int {
	if r == nil {
		return ares.FullScore
	}
	return r.Score
}

// MarkWritten remembers scores that were written, until Follow receives them. It returns those that are low, for the log.
func (s *NodeScores) MarkWritten(list []ares.NodeScore, now time.Time) (low []ares.NodeScore) {
	for i := range list {
		r := &list[i]
		s.wrote[r.Node] = now
		if r.Samples == 0 {
			delete(s.told, r.Node)
			continue
		}
		s.told[r.Node] = r
		if r.Score < ares.FullScore-noticeable {
			low = append(low, *r)
		}
	}
	return low
}
