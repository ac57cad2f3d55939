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

// Estimator says how long jobs will run. Every replica has one, which learns
// from the runs that it sees end; the leader's also writes what it thinks of
// each new job into the store, from where it reaches the engine, and saves what
// it remembers. Nothing waits for it: a job may be placed before anything was
// said of it, and a failure costs predictions only.
//
// What it had not saved when a server ended it learns anew from the runs of jobs
// that are still live; of those archived in between nothing is learned.
type Estimator struct {
	Store *store.Store
	Now   func() time.Time
	Log   *slog.Logger
	// SaveEvery is how often the leader saves what is remembered. Default 5 min.
	SaveEvery time.Duration
	// Rest is the least time between two writes of predictions, of up to 60 jobs.
	// Default 50 ms, which makes 1,200 a second. While more jobs come than that
	// writes at once it is ten times as long: the store has more urgent work.
	Rest time.Duration

	inbox *mailbox

	mu      sync.Mutex // of all that follows
	mind    *forecast.Forecaster
	latest  time.Time // end of the latest run that is remembered
	known   time.Time // what ended until then was learned before this server began
	learned int       // runs since the last save
	drifts  int
	live    map[ares.JobID]*subject
	leading bool
	wanted  []*subject // of the leader: jobs of which nothing was said yet
	fresh   int        // jobs that came since the leader last looked
}

// subject is a live job.
type subject struct {
	job     *ares.Job
	told    time.Duration // its p90, 0 when nothing was said
	ended   bool          // for good
	counted int           // the last attempt that was seen to end
	began   time.Time     // of the attempt that runs, zero when none does
	carried time.Duration // what it ran before it was stopped, and goes on from
	overdue bool          // it outlasted its p90
}

// lookEvery is how often running jobs are looked at whether they are overdue.
const lookEvery = 10 * time.Second

// NewEstimator makes an estimator that follows a view.
func NewEstimator(view *View) *Estimator {
	e := &Estimator{inbox: newMailbox(), mind: forecast.New(forecast.Config{}), live: map[ares.JobID]*subject{}}
	view.Feed(e.inbox.put)
	return e
}

// Load begins with what was saved last. Call it before the view runs.
func (e *Estimator) Load(ctx context.Context) error {
	memory, at, err := e.Store.Forecaster(ctx)
	if err != nil || memory == nil {
		return err
	}
	mind, err := forecast.Restore(forecast.Config{}, memory)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mind, e.latest, e.known = mind, at, at
	return nil
}

// Run learns until ctx ends.
func (e *Estimator) Run(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.inbox.news:
			e.read()
		case <-look.C:
			e.look()
		}
	}
}

// learnAtOnce is from how many runs is learned before others may ask: of a first
// snapshot there may be a million.
const learnAtOnce = 1000

func (e *Estimator) read() {
	for b, ok := e.inbox.next(); ok; b, ok = e.inbox.next() {
		over := e.absorb(&b)
		for len(over) > 0 {
			n := min(len(over), learnAtOnce)
			e.learn(over[:n])
			over = over[n:]
		}
	}
}

// absorb takes in one batch, and returns the runs to learn from. Of the runs of a
// snapshot those that ended first come first, as they would have.
func (e *Estimator) absorb(b *ares.Batch) []overRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.live
	if b.Reset {
		e.live, e.wanted = make(map[ares.JobID]*subject, len(before)), nil
	}
	var over []overRun
	for i := range b.Events {
		switch ev := &b.Events[i]; {
		case ev.Job != nil && e.live[ev.Job.ID] == nil:
			s := &subject{job: ev.Job}
			if was := before[ev.Job.ID]; was != nil && was.job.Revision == ev.Job.Revision {
				s = was
			}
			e.live[ev.Job.ID] = s
			e.want(s)
		case ev.Forecast != nil:
			if s := e.live[ev.Forecast.Job]; s != nil {
				s.told = ev.Forecast.P90
			}
		case ev.Run != nil:
			if s := e.live[ev.Run.Job]; s != nil {
				over = append(over, s.follow(&ev.Run.Run)...)
			}
		case ev.Gone.Kind == ares.KindJob:
			delete(e.live, ares.JobID(ev.Gone.ID))
		}
	}
	slices.SortStableFunc(over, func(a, b overRun) int { return a.ended.Compare(b.ended) })
	return slices.DeleteFunc(over, func(o overRun) bool { return !o.ended.After(e.known) })
}

// overRun is a run that has ended.
type overRun struct {
	run   forecast.Run
	ended time.Time
}

// follow notes how a job stands, and returns its runs that have ended since.
func (s *subject) follow(r *ares.Run) []overRun {
	var out []overRun
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number <= s.counted || !a.Ended() {
			continue
		}
		s.counted, s.began = a.Number, time.Time{}
		how, ran := outcomeOf(a, r)
		if !ran {
			continue
		}
		took := s.carried + a.EndedAt.Sub(a.StartedAt)
		if how == forecast.Cut && s.job.Checkpoint.Enabled && (a != r.Last() || !r.Phase.Final()) {
			s.carried += a.Saved() // the next attempt goes on from there: both are one run
			continue
		}
		out = append(out, overRun{forecast.Run{
			Features: forecast.FeaturesOf(s.job), Took: took, Outcome: how, PredictedP90: s.told, Overdue: s.overdue,
		}, a.EndedAt})
		s.carried, s.overdue = 0, false
	}
	s.ended = r.Phase.Final()
	if a := r.Current(); a != nil {
		s.began = a.StartedAt
	}
	return out
}

// outcomeOf says how an attempt ended, as far as its length is concerned; false
// when it never ran.
func outcomeOf(a *ares.Attempt, r *ares.Run) (forecast.Outcome, bool) {
	if a.StartedAt.IsZero() || a.EndedAt.Before(a.StartedAt) {
		return "", false
	}
	last := a == r.Last()
	switch a.Outcome {
	case ares.OutcomeTimeout:
		return forecast.Limited, true
	case ares.OutcomeStopped, ares.OutcomeLost:
		return forecast.Cut, true
	case ares.OutcomeSucceeded:
		return forecast.Ended, true
	case ares.OutcomeFailed, ares.OutcomeSignaled: // who was asked to stop may end in any way
		if last && (r.Phase == ares.Cancelled || r.Phase == ares.Preempted) {
			return forecast.Cut, true
		}
		return forecast.Ended, true
	case ares.OutcomeSpawnError:
	}
	return "", false
}

func (e *Estimator) learn(over []overRun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range over {
		o := &over[i]
		e.learned++
		if o.ended.After(e.latest) {
			e.latest = o.ended
		}
		if d, drifted := e.mind.Observe(o.run); drifted {
			e.drifts++
			e.Log.Info("runs have become of another length", "of", d.Of, "before", d.Before, "now", d.After)
		}
	}
}

// look tells the mind which runs have outlasted what was said of them.
func (e *Estimator) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	for _, s := range e.live { // order-free but for rounding: each moves the same corrections by the same steps
		if s.told == 0 || s.overdue || s.began.IsZero() || s.carried+now.Sub(s.began) <= s.told {
			continue
		}
		s.overdue = true
		if s.began.Add(s.told - s.carried).After(e.known) {
			e.mind.Overdue(forecast.FeaturesOf(s.job))
		}
	}
}

// Predict says how long a job will run.
func (e *Estimator) Predict(j *ares.Job) ares.RuntimePredicted {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.predict(j)
}

func (e *Estimator) predict(j *ares.Job) ares.RuntimePredicted {
	f := e.mind.Predict(forecast.FeaturesOf(j))
	return ares.RuntimePredicted{Job: j.ID, P50: f.P50, P90: f.P90, Basis: f.Basis, Samples: f.Samples}
}

// Accuracy says how many runs were held against what was told of them, how many
// took no longer than their p90, and how often runs became of another length.
func (e *Estimator) Accuracy() (told, covered, drifts int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	told, covered = e.mind.Accuracy()
	return told, covered, e.drifts
}

// Lead writes what is thought of jobs, and saves what is remembered, until ctx
// ends or another leads.
func (e *Estimator) Lead(ctx context.Context, lead *store.Leadership) error {
	e.begin()
	defer e.end()
	saved := e.Now()
	for e.calm(ctx) {
		err := e.write(ctx, lead)
		if err == nil && e.Now().Sub(saved) >= cmp.Or(e.SaveEvery, 5*time.Minute) {
			if err = e.save(ctx, lead); err == nil {
				saved = e.Now() // else it is tried again soon
			}
		}
		switch {
		case errors.Is(err, context.Canceled), ares.CodeOf(err) == ares.Fenced:
			return err
		case err != nil:
			e.Log.Warn("predict runtimes", "error", err)
			pause(ctx, time.Second)
		}
	}
	return ctx.Err()
}

func (e *Estimator) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leading = true
	for _, s := range e.live { // order-free: sorted below
		e.want(s)
	}
	slices.SortFunc(e.wanted, func(a, b *subject) int { return inOrder(a.job, b.job) })
}

func (e *Estimator) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leading, e.wanted = false, nil
}

// want notes that something is to be said of a job.
func (e *Estimator) want(s *subject) {
	if e.leading && s.told == 0 && !s.ended {
		e.fresh++
		e.wanted = append(e.wanted, s)
	}
}

// calm rests, for as long as a flood of jobs lasts up to ten times, and says
// whether it was not cut short.
func (e *Estimator) calm(ctx context.Context) bool {
	rest := cmp.Or(e.Rest, 50*time.Millisecond)
	for range 10 {
		if !pause(ctx, rest) {
			return false
		}
		if e.came() <= store.PredictionsAtOnce {
			break
		}
	}
	return true
}

// came is how many jobs have come since it was last asked.
func (e *Estimator) came() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.fresh
	e.fresh = 0
	return n
}

// write says something of the next jobs of which nothing was said.
func (e *Estimator) write(ctx context.Context, lead *store.Leadership) error {
	told, taken := e.next()
	if len(told) == 0 {
		return nil
	}
	err := e.Store.Predict(ctx, lead, told)
	if err != nil {
		e.mu.Lock()
		e.wanted = append(taken, e.wanted...)
		e.mu.Unlock()
		return fmt.Errorf("of %d jobs: %w", len(told), err)
	}
	return nil
}

// next are the next predictions to write, and whose they are.
func (e *Estimator) next() (out []store.Prediction, whose []*subject) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.wanted) > 0 && len(out) < store.PredictionsAtOnce {
		s := e.wanted[0]
		e.wanted = e.wanted[1:]
		if s.told > 0 || s.ended || e.live[s.job.ID] != s {
			continue
		}
		out = append(out, store.Prediction{Accepted: s.job.Revision, RuntimePredicted: e.predict(s.job)})
		whose = append(whose, s)
	}
	return out, whose
}

// save keeps what is remembered, if that has changed since it was last kept.
func (e *Estimator) save(ctx context.Context, lead *store.Leadership) error {
	e.mu.Lock()
	news, at := e.learned, e.latest
	var memory []byte
	if news > 0 {
		memory = e.mind.Save()
	}
	e.mu.Unlock()
	if news == 0 {
		return nil
	}
	if err := e.Store.SaveForecaster(ctx, lead, memory, at); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.learned -= news
	return nil
}
