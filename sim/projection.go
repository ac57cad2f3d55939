package sim

import (
	"container/heap"
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// JobOutcome is what becomes of a job when the queue runs forward.
type JobOutcome struct {
	Job      *ares.Job
	Ran      bool      // already at the beginning
	Start    time.Time // zero when it finds no place in time; of one that ran already, the beginning
	End      time.Time // zero when it does not end in time
	Basis    Basis     // of the time it runs
	Stops    int       // times it was made to give way
	GPUHours float64   // within the time looked at

	since time.Time // of the attempt under way, zero for none
}

// Basis says where the time that a job runs was taken from.
type Basis string

// The bases, the best first.
const (
	ByPrediction Basis = "prediction"
	ByLimit      Basis = "limit"
	ByAssumption Basis = "assumption"
)

// projection runs a snapshot forward. What agents and the store do for a server, it
// does for the engine: a placed job starts at once, runs as long as it is
// thought to, ends well, and is free in the same instant; one that is asked to
// stop does so at once. Nobody new arrives.
type projection struct {
	state    *engine.State
	now      time.Time
	until    time.Time
	horizon  time.Duration // from the beginning to until
	assumed  time.Duration
	revision int64
	ends     endHeap
	outcomes map[ares.JobID]*JobOutcome
	batch    []ares.Event
}

// newProjection is the moment of the snapshot.
func newProjection(s *Snapshot, cfg engine.Config, horizon, assumed time.Duration) *projection {
	f := &projection{
		state: engine.NewWith(cfg), now: s.Taken, until: s.Taken.Add(horizon), horizon: horizon, assumed: assumed,
		revision: s.Batch.Revision, outcomes: map[ares.JobID]*JobOutcome{},
	}
	f.state.Apply(s.Batch)
	return f
}

// resumeJobs takes up what is under way.
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

// release frees the seats of ended attempts, as the agents that are there would.
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

// resume goes on with an attempt that is under way.
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

// outcome finds what becomes of a job. An array has none: its elements do.
func (f *projection) outcome(job *ares.Job) *JobOutcome {
	if f.outcomes[job.ID] == nil && !job.IsArray() {
		f.outcomes[job.ID] = &JobOutcome{Job: job}
	}
	return f.outcomes[job.ID]
}

// startRanks has every rank start.
func (f *projection) startRanks(job *ares.Job, run *ares.Run) {
	a := run.Current()
	for _, h := range a.Seats {
		if h.State == ares.SeatPlaced {
			mustTransition(run.Claim(job, a.Fence, h.Rank, h.Node, f.now))
		}
	}
}

// endAttempt has every rank end, and its seat come free.
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

// countGPUHours counts what a job has held.
func (f *projection) countGPUHours(outcome *JobOutcome) {
	if !outcome.since.IsZero() {
		milli := outcome.Job.Members * max(1000*outcome.Job.GPUs, outcome.Job.GPUMilli)
		outcome.GPUHours += float64(milli) / 1000 * f.now.Sub(outcome.since).Hours()
		outcome.since = time.Time{}
	}
}

// mustTransition is for moves that a run in that phase can always make.
func mustTransition(err error) {
	if err != nil {
		panic("sim: a run refused a move: " + err.Error())
	}
}

// scheduleEnd notes when an attempt that begins or goes on will end.
func (f *projection) scheduleEnd(job *ares.Job, run *ares.Run) {
	outcome, a := f.outcome(job), run.Last()
	outcome.since = f.now
	done := run.Done(job, f.now)
	total, basis := f.expectedRuntime(job, done)
	outcome.Basis = basis
	heap.Push(&f.ends, attemptEnd{f.now.Add(total - done), job.ID, a.Number})
}

// expectedRuntime is how long a job that has run for some time runs altogether.
func (f *projection) expectedRuntime(job *ares.Job, elapsed time.Duration) (time.Duration, Basis) {
	return expectedRuntime(f.state, job, f.assumed, elapsed)
}

// expectedRuntime is how long a job that has run for some time runs altogether: what was
// predicted from runs like it, or else its limit, or else what is assumed. One
// that has outlived all of these runs as long again as it has. A guess from no
// runs is no prediction: the limit, or what the asker assumes, is known better.
func expectedRuntime(s *engine.State, job *ares.Job, assumed, elapsed time.Duration) (time.Duration, Basis) {
	limit := job.MaxRuntime()
	within := func(d time.Duration) time.Duration {
		if limit > 0 {
			return min(d, limit)
		}
		return d
	}
	p, _ := s.Forecast(job.ID)
	if p.Samples == 0 && job.ArrayOf != "" { // of an element that is not yet made its array knows
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

// run decides and lets time pass until the horizon.
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

// end ends an attempt, unless it gave way before.
func (f *projection) end(d attemptEnd) {
	job, known := f.state.Job(d.job)
	run, _ := f.state.Run(d.job)
	if a := run.Current(); known && a != nil && a.Number == d.attempt {
		f.endAttempt(job, &run, ares.OutcomeSucceeded)
		f.put(job, run)
	}
}

// decide decides and carries out until nothing changes any more, and says when
// it might again.
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

// apply makes a change of a plan, with what follows from it at once.
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

// flush tells the engine what has happened, if anything has.
func (f *projection) flush() {
	if len(f.batch) > 0 {
		f.step()
	}
}

// step is flush at a new revision in any case: what is learned depends on the
// revision, so worlds that are compared go through as many.
func (f *projection) step() {
	f.revision++
	for i := range f.batch {
		f.batch[i].Revision = f.revision
	}
	f.state.Apply(ares.Batch{Revision: f.revision, Events: f.batch, At: f.now})
	f.batch = nil
}
