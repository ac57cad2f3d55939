package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// Loop runs the engine and commits its plans. Every server has a Loop and keeps the Loop's state up to date. The server can therefore
// answer questions and take over leadership. Only the leader's Loop commits plans.
type Loop struct {
	Store  *store.Store
	Server string        // this server's name
	TTL    time.Duration // of leadership
	Now    func() time.Time
	Log    *slog.Logger
	// Record is called with each decision that changed something.
	Record func(Decision)
	// Observe is called with the time that each decision took.
	Observe func(time.Duration)
	// The function Decided is called after the commit of each plan that placed or refused a job. Its arguments are the plan, the jobs
	// that were dropped from the plan because they had changed, and the time from the decision to the commit. This function may be nil.
	Decided func(plan *ares.Plan, dropped []ares.JobID, took time.Duration)
	// Judge is called before each commit, with the plan and the state from which the plan was made. Judge must
	// neither retain nor change its arguments, and the loop waits until Judge returns. Judge may be nil.
	Judge func(*engine.State, *ares.Plan)
	// Recorder records the engine's input and decisions. Recorder may be nil.
	Recorder *recording.DecisionRecorder
	// Interval is the longest time between two decisions.
	Interval time.Duration
	// The function Before runs at the start of each term as leader. It runs before the loop's first decision, and may be nil.
	Before func(context.Context, *store.Leadership) error
	// The function WhileLeading runs while this server is the leader. Its context ends with the loop's term. This function may be nil.
	WhileLeading func(context.Context, *store.Leadership) error

	config string // identifies the engine's configuration
	view   *cache.View
	mu     sync.Mutex
	state  *engine.State
	news   chan struct{} // holds one token when the state has changed

	settled settled
}

// Decision is the record of one decision of the loop. A replay from the same
// revision must produce the same digest.
type Decision struct {
	Revision int64     `json:"revision"` // of the state it was made from
	Now      time.Time `json:"now"`
	Config   string    `json:"config"` // of the engine
	Digest   string    `json:"digest"` // of the plan
	Placed   int       `json:"placed"`
	Ready    int       `json:"ready"`
	Arrays   int       `json:"arrays,omitzero"`
	Stopped  int       `json:"stopped,omitzero"`
	// Nominated counts the waiting jobs for which seats are reserved while the preempted jobs stop.
	Nominated int    `json:"nominated,omitzero"`
	Refused   int    `json:"refused"`
	Dropped   int    `json:"dropped"` // jobs dropped because they had changed before the commit
	Server    string `json:"server"`
}

// NewLoop returns a Loop. The given view keeps it up to date.
func NewLoop(view *cache.View, cfg config.Config) *Loop {
	l := &Loop{config: cfg.Digest(), view: view, state: engine.NewWith(cfg), news: make(chan struct{}, 1), Interval: time.Second}
	view.Feed(l.apply)
	return l
}

func (l *Loop) apply(b ares.Batch) {
	b = withinLoans(b)
	b.At = l.Now()
	l.mu.Lock()
	l.state.Apply(b)
	if l.Recorder != nil {
		l.Recorder.RecordBatch(l.state, b)
	}
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Run campaigns for leadership until ctx ends, and makes decisions while this server leads.
func (l *Loop) Run(ctx context.Context) error {
	for {
		err := l.Store.Lead(ctx, l.Server, l.TTL, l.lead)
		if ctx.Err() != nil {
			return nil
		}
		l.Log.Warn("leadership ended", "error", err)
		if !pause.For(ctx, time.Second) {
			return nil
		}
	}
}

// The method `lead` runs one term as leader. It runs the method `decide` and the function WhileLeading until one of the two ends.
func (l *Loop) lead(ctx context.Context, lead *store.Leadership) error {
	l.Log.Info("leading", "server", l.Server, "revision", lead.Revision)
	if l.Before != nil {
		if err := l.Before(ctx, lead); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	for _, part := range []func(context.Context, *store.Leadership) error{l.decide, l.WhileLeading} {
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

// The method `decide` makes decisions until the term ends.
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

// The method `turn` makes one decision and commits it. It makes no decision until the state includes the last plan, because otherwise it
// would place the same jobs again.
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

// The method `plan` makes a decision if the state has reached the given revision.
func (l *Loop) plan(revision int64, now time.Time) (ares.Plan, []store.Change, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Revision() < revision {
		return ares.Plan{}, nil, false
	}
	l.settled.set(l.state.Revision())
	start := time.Now()
	plan := engine.Decide(l.state, now)
	l.Observe(time.Since(start))
	if l.Recorder != nil {
		l.Recorder.RecordPlan(plan)
	}
	if l.Judge != nil {
		l.Judge(l.state, &plan)
	}
	return plan, Changes(l.state, &plan), true
}
