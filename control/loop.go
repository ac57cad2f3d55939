package control

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store"
)

// Loop decides who runs where. Every replica feeds one; only the leader's
// writes plans.
type Loop struct {
	Store  *store.Store
	Server string        // this server's name
	TTL    time.Duration // of leadership
	Now    func() time.Time
	Log    *slog.Logger
	// Record is told each decision that changed something.
	Record func(Decision)
	// Observe is told how long a decision took, from reading the state to the
	// plan.
	Observe func(time.Duration)
	// Decided, if there is one, is told every plan that placed or refused
	// something once it is committed, which jobs had changed before, and how long
	// all of that took.
	Decided func(plan *ares.Plan, dropped []ares.JobID, took time.Duration)
	// Judge, if there is one, is shown each decision beside the state it was made
	// from, before anything is committed. It may keep and change neither, and the
	// loop waits for it.
	Judge func(*engine.State, *ares.Plan)
	// Tape, if there is one, records what the engine sees and decides.
	Tape *Tape
	// Interval bounds how long the loop rests without an event.
	Interval time.Duration
	// Before, if there is one, is waited for at the beginning of each term.
	Before func(context.Context, *store.Leadership) error
	// Beside runs while this server leads, under the same leadership.
	Beside func(context.Context, *store.Leadership) error

	config string // identifies the engine's configuration
	view   *View
	mu     sync.Mutex
	state  *engine.State
	news   chan struct{} // holds one token when the state has moved
}

// Decision is what is recorded of one turn of the loop. With the store's
// history it can be replayed and must give the same digest.
type Decision struct {
	Revision int64     `json:"revision"` // of the state it was made from
	Now      time.Time `json:"now"`
	Config   string    `json:"config"` // of the engine
	Digest   string    `json:"digest"` // of the plan
	Placed   int       `json:"placed"`
	Ready    int       `json:"ready"`
	Arrays   int       `json:"arrays,omitzero"`
	Stopped  int       `json:"stopped,omitzero"`
	// Nominated counts the jobs that seats are kept for while others give way.
	Nominated int    `json:"nominated,omitzero"`
	Refused   int    `json:"refused"`
	Dropped   int    `json:"dropped"` // jobs that had changed when it was committed
	Server    string `json:"server"`
}

// NewLoop makes a loop that follows a view and decides by a configuration.
func NewLoop(view *View, cfg config.Config) *Loop {
	l := &Loop{config: cfg.Digest(), view: view, state: engine.NewWith(cfg), news: make(chan struct{}, 1), Interval: time.Second}
	view.Feed(l.apply)
	return l
}

func (l *Loop) apply(b ares.Batch) {
	b.At = l.Now()
	l.mu.Lock()
	l.state.Apply(b)
	if l.Tape != nil {
		l.Tape.saw(l.state, b)
	}
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Run stands for leader and decides while it leads, until ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	for {
		err := l.Store.Lead(ctx, l.Server, l.TTL, l.lead)
		if ctx.Err() != nil {
			return nil
		}
		l.Log.Warn("leadership ended", "error", err)
		if !pause(ctx, time.Second) {
			return nil
		}
	}
}

// lead is one term: the loop, and what runs beside it, until either ends.
func (l *Loop) lead(ctx context.Context, lead *store.Leadership) error {
	l.Log.Info("leading", "server", l.Server, "revision", lead.Revision)
	if l.Before != nil {
		if err := l.Before(ctx, lead); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	for _, part := range []func(context.Context, *store.Leadership) error{l.decide, l.Beside} {
		if part == nil {
			continue
		}
		wg.Go(func() { stop(part(ctx, lead)) })
	}
	<-ctx.Done()
	stop(ctx.Err())
	wg.Wait()
	return context.Cause(ctx)
}

// decide turns the loop until its term ends.
func (l *Loop) decide(ctx context.Context, lead *store.Leadership) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-l.news:
		}
		wake, err := l.turn(ctx, lead)
		switch {
		case errors.Is(err, context.Canceled), ares.CodeOf(err) == ares.Fenced:
			return err
		case err != nil:
			l.Log.Warn("commit plan", "error", err)
			wake = l.Now().Add(200 * time.Millisecond)
		}
		rest := l.Interval
		if !wake.IsZero() {
			rest = min(rest, max(wake.Sub(l.Now()), 0))
		}
		timer.Reset(rest)
	}
}

// turn makes one decision and commits it. A state that has not seen the last
// plan would decide the same again, so it waits for the watch.
func (l *Loop) turn(ctx context.Context, lead *store.Leadership) (wake time.Time, err error) {
	if err = l.Store.Refresh(ctx, lead); err != nil {
		return wake, err
	}
	now := l.Now()
	plan, changes, seen := l.plan(lead.Plan(), now)
	if !seen || plan.Empty() {
		l.decided(&plan, nil, now)
		return plan.Wake, nil
	}
	digest := plan.Digest()
	// gofail: var loopBeforeCommit struct{}
	_, dropped, err := l.Store.Commit(ctx, lead, digest, changes)
	// gofail: var loopAfterCommit struct{}
	if err != nil {
		return plan.Wake, err
	}
	l.decided(&plan, dropped, now)
	l.Record(Decision{
		Revision: plan.Revision, Now: now, Config: l.config, Digest: digest, Placed: len(plan.Place), Ready: len(plan.Ready),
		Arrays: len(plan.Arrays), Stopped: len(plan.Stop), Nominated: len(plan.Nominate),
		Refused: len(plan.Refuse), Dropped: len(dropped), Server: l.Server,
	})
	return plan.Wake, nil
}

func (l *Loop) decided(plan *ares.Plan, dropped []ares.JobID, since time.Time) {
	if l.Decided != nil && len(plan.Place)+len(plan.Refuse) > 0 {
		l.Decided(plan, dropped, l.Now().Sub(since))
	}
}

// plan decides on the state, if it has seen the given revision.
func (l *Loop) plan(revision int64, now time.Time) (ares.Plan, []store.Change, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Revision() < revision {
		return ares.Plan{}, nil, false
	}
	start := time.Now()
	plan := engine.Decide(l.state, now)
	l.Observe(time.Since(start))
	if l.Tape != nil {
		l.Tape.decided(plan)
	}
	if l.Judge != nil {
		l.Judge(l.state, &plan)
	}
	return plan, Changes(l.state, &plan), true
}
