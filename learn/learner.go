package learn

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Learner learns for a scheduler that has no store. The scheduler passes every batch that its engine.State applies to
// Follow, and applies the events that Events returns.
//
// A snapshot of such a scheduler has neither forecasts nor scores, because nobody stores them. So a Learner keeps both over
// a snapshot, and returns them again. After a restart, Import continues from what an earlier Learner exported.
type Learner struct {
	runtimes *Runtimes
	nodes    *NodeScores
	again    []*ares.RuntimePredicted // predictions that the last snapshot has not
	checked  time.Time                // when Events last looked at overdue runs and scores
}

// These constants limit how often events are returned.
const (
	// checkEvery is the interval at which running jobs are compared with their predictions and scores are computed.
	checkEvery = 10 * time.Second
	// scoreRest is the shortest time between two events about the score of one node.
	scoreRest = time.Minute
)

// New returns a Learner that has learned nothing.
func New() *Learner {
	l := &Learner{runtimes: NewRuntimes(), nodes: NewNodeScores()}
	l.runtimes.StartPredicting()
	return l
}

// Follow learns from one batch at the time `now`.
func (l *Learner) Follow(b ares.Batch, now time.Time) {
	if b.Reset {
		l.nodes.carried = append(l.nodes.carried, l.nodes.Current(now)...)
		// The records of jobs may have other revisions than before, so only the time says which runs were learned.
		l.runtimes.known = l.runtimes.latest
		l.checked = time.Time{} // the scores are missing in the scheduler's state, so return them at once
		clear(l.nodes.wrote)
	}
	before := l.runtimes.live
	l.runtimes.Learn(l.runtimes.Follow(&b))
	l.nodes.Follow(&b, now)
	if b.Reset {
		l.keepPredictions(&b, before)
	}
}

// keepPredictions keeps the predictions of the jobs in a snapshot, and arranges that Events returns them again.
func (l *Learner) keepPredictions(b *ares.Batch, before map[ares.JobID]*liveJob) {
	l.again = nil
	for i := range b.Events {
		j := b.Events[i].Job
		if j == nil || before[j.ID] == nil || !before[j.ID].isPredicted() {
			continue
		}
		now := l.runtimes.live[j.ID]
		if now.told == nil {
			now.told = before[j.ID].told
		}
		l.again = append(l.again, now.told)
		if w := l.nodes.watched[j.ID]; w != nil && now.told.Own > 0 {
			w.predicted = now.told.P50
		}
	}
}

// Events returns up to `limit` forecasts of jobs and changed scores of nodes, as events. The caller applies them to its
// state. It may also pass them to Follow, which changes nothing. If the result has `limit` events, there may be more.
func (l *Learner) Events(now time.Time, limit int) []ares.Event {
	var out []ares.Event
	for len(l.again) > 0 && len(out) < limit {
		p := l.again[0]
		l.again = l.again[1:]
		if j := l.runtimes.live[p.Job]; j != nil && !j.ended {
			out = append(out, ares.Event{Forecast: p})
		}
	}
	for _, p := range l.runtimes.Next(limit - len(out)) {
		told := new(p.RuntimePredicted)
		p.of.told = told
		if w := l.nodes.watched[told.Job]; w != nil && told.Own > 0 {
			w.predicted = told.P50
		}
		out = append(out, ares.Event{Forecast: told})
	}
	if len(out) < limit && now.Sub(l.checked) >= checkEvery {
		out = append(out, l.check(now, limit-len(out))...)
	}
	return out
}

// The method `check` looks at overdue runs, and returns the scores that have changed.
func (l *Learner) check(now time.Time, limit int) (out []ares.Event) {
	l.runtimes.CheckOverdue(now)
	due := l.nodes.Due(now, scoreRest, limit)
	l.nodes.MarkWritten(due, now)
	for i := range due {
		if due[i].Samples == 0 {
			out = append(out, ares.Event{Gone: ares.Gone{Kind: ares.KindScore, ID: due[i].Node}})
			continue
		}
		out = append(out, ares.Event{Score: &due[i]})
	}
	if len(due) < limit {
		l.checked = now // otherwise the next call returns the rest
	}
	return out
}

// Predict estimates the runtime of a job, which need not be live.
func (l *Learner) Predict(j *ares.Job) ares.RuntimePredicted { return l.runtimes.Predict(j) }
