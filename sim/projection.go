package sim

import (
	"container/heap"
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// JobOutcome is the projected start and end of a job.
type JobOutcome struct {
	Job      *ares.Job
	Ran      bool      // it was running at the start
	Start    time.Time // zero if it does not start within the horizon; the start of the projection if it was running
	End      time.Time // zero if it does not end within the horizon
	Basis    Basis     // of its runtime
	Stops    int       // times it was preempted
	GPUHours float64   // within the horizon

	since time.Time // start of the current attempt, zero for none
}

// Basis says what the runtime of a job is based on.
type Basis string

// The bases, the most reliable first.
const (
	ByPrediction Basis = "prediction"
	ByLimit      Basis = "limit"
	ByAssumption Basis = "assumption"
)

// projection runs a snapshot forward. It does for the engine what agents and
// the store do for a server: a placed job starts at once, runs for its expected
// runtime, succeeds, and frees its seats in the same instant; a job that is
// asked to stop does so at once. No new jobs arrive.
type projection struct {
	state    *engine.State
	now      time.Time
	until    time.Time
	horizon  time.Duration // from the start to until
	assumed  time.Duration
	revision int64
	ends     endHeap
	outcomes map[ares.JobID]*JobOutcome
	batch    []ares.Event
}

// newProjection returns a projection that starts at the time of the snapshot.
func newProjection(s *Snapshot, cfg config.Config, horizon, assumed time.Duration) *projection {
	f := &projection{
		state: engine.NewWith(cfg), now: s.Taken, until: s.Taken.Add(horizon), horizon: horizon, assumed: assumed,
		revision: s.Batch.Revision, outcomes: map[ares.JobID]*JobOutcome{},
	}
	f.state.Apply(s.Batch)
	return f
}

// resumeJobs takes over the jobs that run or wait in the snapshot.
func (f *projection) resumeJobs() {
	online := map[string]bool{}
	for n := range f.state.Nodes() {
		online[n.Node.ID] = n.Session != nil
	}
	for job, stored := range f.state.Jobs() {
		if stored == nil || job.IsArray() {
			f.outcome(job)
			continue
		}
		run := stored.Clone()
		if run.Phase.Final() && run.Free() {
			continue
		}
		if !run.Phase.Final() {
			f.outcome(job)
		}
		changed := release(&run, online)
		if a := run.Current(); a != nil {
			outcome := f.outcome(job)
			outcome.Ran, outcome.Start = true, f.now
			changed = f.resume(job, &run) || changed
		}
		if changed {
			f.put(job, run)
		}
	}
	f.flush()
}

// release frees the seats of ended attempts on nodes with a connected agent.
func release(run *ares.Run, online map[string]bool) (changed bool) {
	for i := range run.Attempts {
		a := &run.Attempts[i]
		for k := range a.Seats {
			if h := &a.Seats[k]; a.Ended() && !h.State.Free() && online[h.Node] {
				changed = run.Release(a.Fence, h.Rank) == nil || changed
			}
		}
	}
	return changed
}

// resume continues a current attempt.
func (f *projection) resume(job *ares.Job, run *ares.Run) (changed bool) {
	if run.Stop != nil {
		f.endAttempt(job, run, ares.OutcomeStopped)
		return true
	}
	if changed = run.Current().StartedAt.IsZero(); changed {
		f.startRanks(job, run)
	}
	f.scheduleEnd(job, run)
	return changed
}

// outcome returns the outcome of a job, nil for an array: its elements have
// outcomes.
func (f *projection) outcome(job *ares.Job) *JobOutcome {
	if f.outcomes[job.ID] == nil && !job.IsArray() {
		f.outcomes[job.ID] = &JobOutcome{Job: job}
	}
	return f.outcomes[job.ID]
}

// startRanks starts every rank.
func (f *projection) startRanks(job *ares.Job, run *ares.Run) {
	a := run.Current()
	for _, h := range a.Seats {
		if h.State == ares.SeatPlaced {
			mustTransition(run.Claim(job, a.Fence, h.Rank, h.Node, f.now))
		}
	}
}

// endAttempt ends every rank and frees its seat.
func (f *projection) endAttempt(job *ares.Job, run *ares.Run, how ares.Outcome) {
	a := run.Current()
	fence := a.Fence
	for _, h := range append([]ares.Held(nil), a.Seats...) {
		if h.Result == nil {
			mustTransition(run.Finish(job, fence, h.Rank, ares.RankResult{Outcome: how, StartedAt: a.StartedAt, EndedAt: f.now}, f.now))
		}
		if !h.State.Free() {
			mustTransition(run.Release(fence, h.Rank))
		}
	}
	f.countGPUHours(f.outcome(job))
	if run.Phase.Final() {
		f.outcomes[job.ID].End = f.now
	} else {
		f.outcomes[job.ID].Stops++
	}
}

// countGPUHours adds the GPU-hours of the current attempt and ends it.
func (f *projection) countGPUHours(outcome *JobOutcome) {
	if !outcome.since.IsZero() {
		milli := outcome.Job.Members * max(1000*outcome.Job.GPUs, outcome.Job.GPUMilli)
		outcome.GPUHours += float64(milli) / 1000 * f.now.Sub(outcome.since).Hours()
		outcome.since = time.Time{}
	}
}

// mustTransition panics on an error of a transition that the run always allows.
func mustTransition(err error) {
	if err != nil {
		panic("sim: a run rejected a transition: " + err.Error())
	}
}

// scheduleEnd schedules the end of an attempt that starts or continues.
func (f *projection) scheduleEnd(job *ares.Job, run *ares.Run) {
	outcome, a := f.outcome(job), run.Last()
	outcome.since = f.now
	done := run.Done(job, f.now)
	total, basis := f.expectedRuntime(job, done)
	outcome.Basis = basis
	heap.Push(&f.ends, attemptEnd{f.now.Add(total - done), job.ID, a.Number})
}

// expectedRuntime returns the total runtime of a job that has run for some
// time.
func (f *projection) expectedRuntime(job *ares.Job, elapsed time.Duration) (time.Duration, Basis) {
	return expectedRuntime(f.state, job, f.assumed, elapsed)
}

// expectedRuntime returns the total runtime of a job that has run for some
// time: the prediction from similar runs, else its time limit, else the assumed
// runtime. When a job has run past all of these, its runtime so far is doubled.
// A prediction from no runs is not used: the limit and the user's assumption
// are better.
func expectedRuntime(s *engine.State, job *ares.Job, assumed, elapsed time.Duration) (time.Duration, Basis) {
	limit := job.MaxRuntime()
	within := func(d time.Duration) time.Duration {
		if limit > 0 {
			return min(d, limit)
		}
		return d
	}
	p, _ := s.Forecast(job.ID)
	if p.Samples == 0 && job.ArrayOf != "" { // before an element exists, its array has the prediction
		p, _ = s.Forecast(job.ArrayOf)
	}
	if p.Samples > 0 {
		for _, d := range []time.Duration{p.P50, p.P90} {
			if d > elapsed {
				return within(d), ByPrediction
			}
		}
	}
	switch {
	case limit > elapsed:
		return limit, ByLimit
	case assumed > elapsed:
		return assumed, ByAssumption
	}
	return 2 * elapsed, ByAssumption
}

// run decides and advances time until the horizon.
func (f *projection) run(ctx context.Context) error {
	for ctx.Err() == nil {
		next := f.until
		if wake := f.decide(); wake.After(f.now) && wake.Before(next) {
			next = wake
		}
		if len(f.ends) > 0 && f.ends[0].at.Before(next) {
			next = f.ends[0].at
		}
		if f.now = next; !next.Before(f.until) {
			for _, outcome := range f.outcomes {
				f.countGPUHours(outcome)
			}
			return nil
		}
		for len(f.ends) > 0 && !f.ends[0].at.After(f.now) {
			f.end(heap.Pop(&f.ends).(attemptEnd))
		}
		f.flush()
	}
	return ctx.Err()
}

// end ends an attempt, unless it was stopped before.
func (f *projection) end(d attemptEnd) {
	job, known := f.state.Job(d.job)
	run, _ := f.state.Run(d.job)
	if a := run.Current(); known && a != nil && a.Number == d.attempt {
		f.endAttempt(job, &run, ares.OutcomeSucceeded)
		f.put(job, run)
	}
}

// decide makes decisions and applies them until nothing changes. It returns the
// time at which the next plan may differ.
func (f *projection) decide() (wake time.Time) {
	for {
		plan := engine.Decide(f.state, f.now)
		if plan.Empty() {
			return plan.Wake
		}
		changes, err := engine.PlanChanges(f.state, &plan, f.now)
		mustTransition(err)
		for i := range changes {
			c := &changes[i]
			job, _ := f.state.Job(c.Job)
			f.apply(job, c.Run, c.Kind == engine.ChangePlace)
			for _, e := range c.Elements {
				e.Job.Revision = f.revision + 1
				f.batch = append(f.batch, ares.Event{Job: e.Job})
				f.apply(e.Job, e.Run, true)
			}
		}
		f.flush()
	}
}

// apply makes one change of a plan, with what follows from it at once.
func (f *projection) apply(job *ares.Job, run ares.Run, starts bool) {
	if starts {
		run.Last().Fence = ares.Fence(f.revision + 1)
		f.startRanks(job, &run)
		if outcome := f.outcome(job); outcome.Start.IsZero() {
			outcome.Start = f.now
		}
		f.scheduleEnd(job, &run)
	} else if run.Stop != nil && run.Current() != nil {
		f.endAttempt(job, &run, ares.OutcomeStopped)
	}
	f.put(job, run)
}

func (f *projection) put(job *ares.Job, run ares.Run) {
	run.Revision = f.revision + 1
	f.batch = append(f.batch, ares.Event{Run: &ares.RunEvent{Job: job.ID, Run: run}})
}

// flush gives the collected events to the engine, if there are any.
func (f *projection) flush() {
	if len(f.batch) > 0 {
		f.step()
	}
}

// step gives the collected events to the engine at a new revision, even if
// there are none: predictions depend on the revision, so projections that are
// compared must have the same number of revisions.
func (f *projection) step() {
	f.revision++
	for i := range f.batch {
		f.batch[i].Revision = f.revision
	}
	f.state.Apply(ares.Batch{Revision: f.revision, Events: f.batch, At: f.now})
	f.batch = nil
}
