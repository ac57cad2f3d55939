package estimate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/learn"
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

	mu       sync.Mutex // guards the field below
	runtimes *learn.Runtimes
}

// lookEvery is the interval at which the runtimes of running jobs are compared with their predicted
// p90.
const lookEvery = 10 * time.Second

// NewEstimator returns an Estimator. The given view keeps it up to date.
func NewEstimator(view *cache.View) *Estimator {
	e := &Estimator{inbox: newBatchQueue(), runtimes: learn.NewRuntimes()}
	view.Feed(e.inbox.put)
	return e
}

// Load loads the saved model. Call it before the view runs.
func (e *Estimator) Load(ctx context.Context) error {
	memory, at, err := e.Store.Forecaster(ctx)
	if err != nil || memory == nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runtimes.Restore(memory, at)
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
		ended := e.absorb(&b)
		for len(ended) > 0 {
			n := min(len(ended), learnAtOnce)
			e.learn(ended[:n])
			ended = ended[n:]
		}
	}
}

// The method `absorb` applies one batch and returns the runs to learn from, in the order in which they ended.
func (e *Estimator) absorb(b *ares.Batch) []learn.EndedRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runtimes.Follow(b)
}

func (e *Estimator) learn(ended []learn.EndedRun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.runtimes.Learn(ended) {
		e.Log.Info("runtimes have drifted", "of", d.Of, "before", d.Before, "now", d.After)
	}
}

// The method `look` reports to the model which runs have exceeded their predicted p90.
func (e *Estimator) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runtimes.CheckOverdue(e.Now())
}

// Predict estimates the runtime of a job.
func (e *Estimator) Predict(j *ares.Job) ares.RuntimePredicted {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runtimes.Predict(j)
}

// Accuracy returns three numbers: the runs that had a prediction, the runs among them that took no longer than their p90, and the number
// of detected drifts.
func (e *Estimator) Accuracy() (told, covered, drifts int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runtimes.Accuracy()
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
	e.runtimes.StartPredicting()
}

func (e *Estimator) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runtimes.StopPredicting()
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
	return e.runtimes.Arrived()
}

// The method `write` stores predictions for the next jobs that have none.
func (e *Estimator) write(ctx context.Context, lead *store.Leadership) error {
	next := e.next()
	if len(next) == 0 {
		return nil
	}
	told := make([]store.Prediction, len(next))
	for i := range next {
		told[i] = store.Prediction{RuntimePredicted: next[i].RuntimePredicted, Accepted: next[i].Accepted}
	}
	err := e.Store.Predict(ctx, lead, told)
	if err != nil {
		e.mu.Lock()
		e.runtimes.PutBack(next)
		e.mu.Unlock()
		return fmt.Errorf("of %d jobs: %w", len(told), err)
	}
	return nil
}

// The method `next` returns the next predictions to write.
func (e *Estimator) next() []learn.Prediction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runtimes.Next(store.PredictionsAtOnce)
}

// The method `save` stores the model if it has changed since the last save.
func (e *Estimator) save(ctx context.Context, lead *store.Leadership) error {
	e.mu.Lock()
	news, at := e.runtimes.Unsaved(), e.runtimes.Until()
	var memory []byte
	if news > 0 {
		memory = e.runtimes.Save()
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
	e.runtimes.MarkSaved(news)
	return nil
}
