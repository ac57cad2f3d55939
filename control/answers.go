package control

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Refusal says in short why a job waits, by the same state decisions are made
// from: for lists.
func (l *Loop) Refusal(id ares.JobID) ares.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Refusal(l.state, id, l.Now())
}

// Explain says everything that can be said of a waiting job.
func (l *Loop) Explain(id ares.JobID) ares.Explanation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Explain(l.state, id, l.Now())
}

// Plan says where a job would go if it were submitted now, or else why it would
// wait, until when, and who would give way to it. p is how long it is thought to
// run, nil where nobody knows. It changes nothing.
func (l *Loop) Plan(job *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.WhatIf(l.state, job, p, l.Now())
}

// Fairness says who holds how much of the fleet against what is theirs.
func (l *Loop) Fairness() ares.Fairness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Fairness(l.state, l.Now())
}

// Spent is the GPU-hours that a tenant's jobs have used this month.
func (l *Loop) Spent(tenant string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(engine.BudgetUsed(l.state, tenant, l.Now())) / 3600
}

// Consolidate says which jobs would be moved now to make room for others, whether
// that is done, and how many times what it costs it must gain, in thousandths.
func (l *Loop) Consolidate() (would []ares.Consolidation, done bool, gain int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	y := l.state.Config().Preemption
	return engine.Consolidate(l.state, l.Now()), y.Moving, y.MoveGain
}

// Fold adds what a job has used to what archived jobs of its queue have.
func (l *Loop) Fold(id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.FoldUsage(l.state, id, before, at)
}
