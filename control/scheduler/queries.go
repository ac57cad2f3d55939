package scheduler

import (
	"io"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
)

// Refusal returns the short reason why a job waits. Lists of jobs show this reason. Refusal reads
// the engine state from which decisions are made.
func (l *Loop) Refusal(id ares.JobID) ares.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Refusal(l.state, id, l.Now())
}

// Explain returns the full explanation of why a job waits.
func (l *Loop) Explain(id ares.JobID) ares.Explanation {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := engine.Explain(l.state, id, l.Now())
	if job, ok := l.state.Job(id); ok {
		explainLoan(l.state, &e, job)
	}
	return e
}

// Plan returns where a job would be placed if it were submitted now, or why it would wait. The argument p is the job's
// predicted runtime, or nil if it is unknown. Nothing is changed.
func (l *Loop) Plan(job *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	placing, why := engine.WhatIf(l.state, job, p, l.Now())
	if why != nil {
		explainLoan(l.state, why, job)
	}
	return placing, why
}

// Fairness compares the resources that each tenant and queue holds with its fair share.
func (l *Loop) Fairness() ares.Fairness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Fairness(l.state, l.Now())
}

// UsedThisMonth returns the month of this server's clock (UTC), and the GPU-seconds that a tenant has used in it.
func (l *Loop) UsedThisMonth(tenant string) (month string, gpuSecs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Now()
	return now.UTC().Format(ares.MonthForm), engine.BudgetUsed(l.state, tenant, now)
}

// Spent returns the GPU-hours that a tenant has used this month.
func (l *Loop) Spent(tenant string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(engine.BudgetUsed(l.state, tenant, l.Now())) / 3600
}

// Consolidate lists the jobs that consolidation would move now. Consolidate also returns whether consolidation is
// enabled, and the smallest ratio of gain to cost at which jobs are moved, in thousandths.
func (l *Loop) Consolidate() (would []ares.Consolidation, done bool, gain int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	y := l.state.Config().Preemption
	return engine.Consolidate(l.state, l.Now()), y.Moving, y.MoveGain
}

// AddUsage adds the usage of a job to the usage of its queue's archived jobs.
func (l *Loop) AddUsage(id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.FoldUsage(l.state, id, before, at)
}

// Inspect calls the function `read` with the engine's state. The loop waits until `read` returns, so `read` must be short.
// It must neither change nor retain the state.
func (l *Loop) Inspect(read func(*engine.State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	read(l.state)
}

// Snapshot writes the current state as a recording of one batch. The loop waits while the state is
// copied, but not while the copy is written.
func (l *Loop) Snapshot(w io.Writer, build string) error {
	l.mu.Lock()
	b, cfg := l.state.Snapshot(), l.state.Config()
	l.mu.Unlock()
	out, err := recording.NewWriter(w, recording.NewHeader(l.Server, build, cfg, l.Now()))
	if err != nil {
		return err
	}
	if err = out.Batch(b); err != nil {
		return err
	}
	return out.Close(recording.EndSnapshot)
}
