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
	Ran      bool      // the job was running at the start
	Start    time.Time // zero if the job does not start within the horizon; the start of the projection if it was running
	End      time.Time // zero if the job does not end within the horizon
	Basis    Basis     // basis of the job's runtime
	Stops    int       // number of preemptions
	GPUHours float64   // within the horizon

	since time.Time // start of the current attempt, zero for none
}

// Basis says where the runtime of a job comes from.
type Basis string

// These are the possible sources of a runtime, most reliable first.
const (
	ByPrediction Basis = "prediction"
	ByLimit      Basis = "limit"
	ByAssumption Basis = "assumption"
)

// A `projection` simulates the future of a snapshot. For the engine, a projection replaces the agents and the store.
// A placed job starts immediately, runs for its expected runtime, and succeeds. At its end, it frees its seats
// immediately. A job that is asked to stop ends immediately. No new jobs arrive in a projection.
type projection struct {
	state    *engine.State
	now      time.Time
	until    time.Time
	horizon  time.Duration // duration from the start to until
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

// resumeJobs adds the jobs that are running or waiting in the snapshot to the projection.
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

// This function frees the seats of ended attempts on nodes with a connected agent.
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

// This method continues an attempt that is in progress in the snapshot.
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

// This method returns the outcome of a job. For an array, the method returns nil, because
// each element has its own outcome.
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
	for _, h := range append([]ares.SeatStatus(nil), a.Seats...) {
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

// countGPUHours adds the GPU-hours of the current attempt to the outcome. The attempt then counts as ended.
func (f *projection) countGPUHours(outcome *JobOutcome) {
	if !outcome.since.IsZero() {
		milli := outcome.Job.Members * max(1000*outcome.Job.GPUs, outcome.Job.GPUMilli)
		outcome.GPUHours += float64(milli) / 1000 * f.now.Sub(outcome.since).Hours()
		outcome.since = time.Time{}
	}
}

// mustTransition panics if a transition fails, because a projection makes only transitions that
// the run allows.
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

// expectedRuntime returns the expected total runtime of a job that has already
// run for some time.
func (f *projection) expectedRuntime(job *ares.Job, elapsed time.Duration) (time.Duration, Basis) {
	return expectedRuntime(f.state, job, f.assumed, elapsed)
}

// expectedRuntime returns the expected total runtime of a job, including the time for which the job has already run.
// The expected runtime is the prediction from similar runs, or else the time limit, or else the assumed runtime. A
// value is skipped if the job has already run for longer than this value. If all values are skipped, the expected
// runtime is twice the runtime so far. A prediction that is not based on any runs is ignored. The time limit and the
// assumed runtime are better estimates.
func expectedRuntime(s *engine.State, job *ares.Job, assumed, elapsed time.Duration) (time.Duration, Basis) {
	limit := job.MaxRuntime()
	within := func(d time.Duration) time.Duration {
		if limit > 0 {
			return min(d, limit)
		}
		return d
	}
	p, _ := s.Forecast(job.ID)
	if p.Samples == 0 && job.ArrayOf != "" { // the array has the prediction for elements that do not exist yet
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

// This method makes scheduling decisions and advances the simulated time until the horizon.
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

// This method ends an attempt, unless it was stopped before.
func (f *projection) end(d attemptEnd) {
	job, known := f.state.Job(d.job)
	run, _ := f.state.Run(d.job)
	if a := run.Current(); known && a != nil && a.Number == d.attempt {
		f.endAttempt(job, &run, ares.OutcomeSucceeded)
		f.put(job, run)
	}
}

// This method makes decisions and applies them until nothing changes. The method returns a time. At this time, the
// engine may make a different plan even without a new event.
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

// This method applies one change of a plan, together with the immediate consequences of the change.
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

// This method passes the collected events to the engine, if there are any.
func (f *projection) flush() {
	if len(f.batch) > 0 {
		f.step()
	}
}

// This method passes the collected events to the engine as a new revision, even if there are no
// events. Predictions depend on the revision, so projections that are compared must have the same
// number of revisions.
func (f *projection) step() {
	f.revision++
	for i := range f.batch {
		f.batch[i].Revision = f.revision
	}
	f.state.Apply(ares.Batch{Revision: f.revision, Events: f.batch, At: f.now})
	f.batch = nil
}
