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

// Estimator predicts how long jobs run. Every server has an Estimator, which learns from the runs that end. The
// leader's Estimator also saves the model. It writes a prediction for each new job to the store, where the engine reads
// it. No other component waits for the Estimator, so a job may be placed before it has a prediction.
//
// After a restart, the runs that ended after the last save are learned a second time, from the live jobs. If a run was
// not saved before the restart and its job has been archived since, the run is never learned.
type Estimator struct {
	Store *store.Store
	Now   func() time.Time
	Log   *slog.Logger
	// SaveEvery is the interval at which the leader saves the model. Default 5 min.
	SaveEvery time.Duration
	// The field Rest is the shortest time between two writes of predictions. Each write has predictions for up to 60
	// jobs. The default of 50 ms allows predictions for 1,200 jobs per second. If jobs arrive faster than that, the
	// pause between writes grows up to ten times Rest. The store then has more urgent writes.
	Rest time.Duration

	inbox *batchQueue

	mu      sync.Mutex // guards the fields below
	mind    *forecast.Forecaster
	latest  time.Time // end of the latest run that was learned
	known   time.Time // the loaded model includes all runs that ended before this time
	learned int       // runs since the last save
	drifts  int
	live    map[ares.JobID]*subject
	leading bool
	wanted  []*subject // on the leader: jobs without a prediction
	fresh   int        // jobs that arrived since the leader last looked
}

// The type `subject` is a live job that the Estimator follows.
type subject struct {
	job     *ares.Job
	told    *ares.RuntimePredicted // nil without a prediction; shared with the view
	began   time.Time              // start of the running attempt, zero if none runs
	carried time.Duration          // runtime saved in checkpoints of earlier attempts
	counted int32                  // number of the last attempt that ended
	ended   bool                   // finished
	overdue bool                   // it ran longer than its p90
}

// The method `prediction` returns the job's stored prediction. Its P90 is 0 without one.
func (s *subject) prediction() forecast.Forecast {
	if s.told == nil {
		return forecast.Forecast{}
	}
	return forecast.Recorded(*s.told)
}

// isPredicted reports whether the job has a prediction.
func (s *subject) isPredicted() bool { return s.told != nil && s.told.P90 > 0 }

// lookEvery is the interval at which the runtimes of running jobs are compared with their predicted
// p90.
const lookEvery = 10 * time.Second

// NewEstimator returns an Estimator. The given view keeps it up to date.
func NewEstimator(view *cache.View) *Estimator {
	e := &Estimator{inbox: newBatchQueue(), mind: forecast.New(forecast.Config{}), live: map[ares.JobID]*subject{}}
	view.Feed(e.inbox.put)
	return e
}

// Load loads the saved model. Call it before the view runs.
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

// Run learns from finished runs until ctx ends.
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

// learnAtOnce is the maximum number of runs that are learned before the lock is released. The
// first snapshot may have a million runs, and predictions must not wait until all these runs are
// learned.
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

// The method `absorb` applies one batch and returns the runs to learn from, in the order in which they ended.
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
				s.told = ev.Forecast
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

// The method `follow` updates a job and returns its runs that have ended since the previous call.
func (s *subject) follow(r *ares.Run) []overRun {
	var out []overRun
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number <= int(s.counted) || !a.Ended() {
			continue
		}
		s.counted, s.began = int32(a.Number), time.Time{}
		how, ran := outcomeOf(a, r)
		if !ran {
			continue
		}
		took := s.carried + a.EndedAt.Sub(a.StartedAt)
		if how == forecast.Cut && s.job.Checkpoint.Enabled && (a != r.Last() || !r.Phase.Final()) {
			s.carried += a.SavedWork() // the next attempt continues from the checkpoint, so both count as one run
			continue
		}
		out = append(out, overRun{forecast.Run{
			Features: forecast.FeaturesOf(s.job), Took: took, Outcome: how, Predicted: s.prediction(), Overdue: s.overdue,
		}, a.EndedAt})
		s.carried, s.overdue = 0, false
	}
	s.ended = r.Phase.Final()
	if a := r.Current(); a != nil {
		s.began = a.StartedAt
	}
	return out
}

// outcomeOf converts the outcome of an attempt to the outcome that the model learns. The second
// result is false if the attempt never ran.
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
	case ares.OutcomeFailed, ares.OutcomeSignaled: // a process that was asked to stop may exit with any result
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
			e.Log.Info("runtimes have drifted", "of", d.Of, "before", d.Before, "now", d.After)
		}
	}
}

// The method `look` reports to the model which runs have exceeded their predicted p90.
func (e *Estimator) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	for _, s := range e.live { // order-free except for rounding: every run moves the same corrections by the same steps
		if !s.isPredicted() || s.overdue || s.began.IsZero() || s.carried+now.Sub(s.began) <= s.told.P90 {
			continue
		}
		s.overdue = true
		if s.began.Add(s.told.P90 - s.carried).After(e.known) {
			e.mind.Overdue(forecast.FeaturesOf(s.job), s.prediction())
		}
	}
}

// Predict estimates the runtime of a job.
func (e *Estimator) Predict(j *ares.Job) ares.RuntimePredicted {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.predict(j)
}

func (e *Estimator) predict(j *ares.Job) ares.RuntimePredicted {
	return e.mind.Predict(forecast.FeaturesOf(j)).Record(j.ID)
}

// Accuracy returns three numbers: the runs that had a prediction, the runs among them that took no longer than their p90, and the number
// of detected drifts.
func (e *Estimator) Accuracy() (told, covered, drifts int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	told, covered = e.mind.Accuracy()
	return told, covered, e.drifts
}

// Lead writes predictions and saves the model until ctx ends or another server becomes the leader.
func (e *Estimator) Lead(ctx context.Context, lead *store.Leadership) error {
	e.begin()
	defer e.end()
	saved := e.Now()
	for e.calm(ctx) {
		err := e.write(ctx, lead)
		if err == nil && e.Now().Sub(saved) >= cmp.Or(e.SaveEvery, 5*time.Minute) {
			if err = e.save(ctx, lead); err == nil {
				saved = e.Now() // if this fails, the next round tries again
			}
		}
		switch {
		case errors.Is(err, context.Canceled), ares.CodeOf(err) == ares.Fenced:
			return err
		case err != nil:
			e.Log.Warn("predict runtimes", "error", err)
			pause.For(ctx, time.Second)
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
	slices.SortFunc(e.wanted, func(a, b *subject) int { return cache.ByAcceptance(a.job, b.job) })
}

func (e *Estimator) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leading, e.wanted = false, nil
}

// The method `want` adds a job to the queue of jobs that need a prediction.
func (e *Estimator) want(s *subject) {
	if e.leading && !s.isPredicted() && !s.ended {
		e.fresh++
		e.wanted = append(e.wanted, s)
	}
}

// The method `calm` pauses between two writes of predictions. While many jobs arrive, the pause is up to ten times
// Rest. The result is false if ctx ended.
func (e *Estimator) calm(ctx context.Context) bool {
	rest := cmp.Or(e.Rest, 50*time.Millisecond)
	for range 10 {
		if !pause.For(ctx, rest) {
			return false
		}
		if e.came() <= store.PredictionsAtOnce {
			break
		}
	}
	return true
}

// The method `came` returns the number of jobs that arrived since its previous call.
func (e *Estimator) came() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.fresh
	e.fresh = 0
	return n
}

// The method `write` stores predictions for the next jobs that have none.
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

// The method `next` returns the next predictions to write, and their jobs.
func (e *Estimator) next() (out []store.Prediction, whose []*subject) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.wanted) > 0 && len(out) < store.PredictionsAtOnce {
		s := e.wanted[0]
		e.wanted = e.wanted[1:]
		if s.isPredicted() || s.ended || e.live[s.job.ID] != s {
			continue
		}
		out = append(out, store.Prediction{Accepted: s.job.Revision, RuntimePredicted: e.predict(s.job)})
		whose = append(whose, s)
	}
	return out, whose
}

// The method `save` stores the model if it has changed since the last save.
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
