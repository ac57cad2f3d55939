package controltest

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The variable `patience` is the timeout of every wait in a test. The timeout expires only in a failing test. `make mutations`, where tests
// fail on purpose, sets a shorter one.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("ARES_TEST_PATIENCE")); err == nil {
		return d
	}
	return 5 * time.Minute
}()

var Quiet = slog.New(slog.DiscardHandler)

// Follow runs a view on a store until the test ends.
func Follow(t *testing.T, s *store.Store, sinks ...func(ares.Batch)) *cache.View {
	t.Helper()
	v := cache.NewView(time.Now)
	for _, sink := range sinks {
		v.Feed(sink)
	}
	Run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	Await(t, v, "the first snapshot", func() bool { return v.Revision() > 0 })
	return v
}

// Run starts a function that runs until the test ends or the function `stop` is called.
func Run(t *testing.T, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = part(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// Await waits until the function `ok` returns true. Await calls `ok` after each revision of the view, and also
// periodically, because the result may depend on something outside the view.
func Await(t *testing.T, v *cache.View, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	now := time.NewTicker(20 * time.Millisecond)
	defer now.Stop()
	for {
		_, _, moved, _ := v.EventsSince(v.Revision())
		if ok() {
			return
		}
		select {
		case <-moved:
		case <-now.C:
		case <-end.C:
			t.Fatalf("after %v still waiting for %s", patience, what)
		}
	}
}

func PhaseOf(v *cache.View, id ares.JobID) ares.Phase {
	if e := v.Job(id); e != nil {
		return e.Run.Phase
	}
	return ""
}

// Agent acts as the agent of one node until the test ends. Agent claims the node's seats. Once the channel `gate`
// is closed, Agent ends the ranks of these seats and releases the seats.
func Agent(t *testing.T, s *store.Store, v *cache.View, n *storetest.Node, gate <-chan struct{}) {
	t.Helper()
	Run(t, func(ctx context.Context) error {
		for {
			entries, _, changed := v.SeatsOn(n.ID)
			for _, e := range entries {
				for i := range e.Run.Attempts {
					for k := range e.Run.Attempts[i].Seats {
						h := &e.Run.Attempts[i].Seats[k]
						if h.Node == n.ID {
							ref := store.SeatRef{Job: e.Job.ID, Fence: e.Run.Attempts[i].Fence, Rank: h.Rank, Node: n.ID}
							StepSeat(ctx, s, n, ref, h.State, e.Run.Stop != nil, gate)
						}
					}
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// StepSeat makes the next transition of one seat. If the store rejects the transition, StepSeat
// ignores the error, because the view will show the newer state.
func StepSeat(ctx context.Context, s *store.Store, n *storetest.Node, ref store.SeatRef, state ares.SeatState, stopped bool, gate <-chan struct{}) {
	switch {
	case state == ares.SeatPlaced && stopped:
		_ = s.Decline(ctx, ref, n.Session, time.Now())
	case state == ares.SeatPlaced:
		_ = s.Claim(ctx, ref, n.Session, time.Now())
	case state == ares.SeatClaimed:
		outcome := ares.OutcomeSucceeded
		if stopped {
			outcome = ares.OutcomeStopped
		} else {
			select {
			case <-gate:
			case <-ctx.Done():
				return
			}
		}
		_, _ = s.Finish(ctx, ref, storetest.Result(outcome), time.Now())
	case state == ares.SeatFinished:
		_ = s.Release(ctx, ref)
	}
}

func Once(s *ares.Spec) { s.Retry.MaxRetries = new(0) }

// CaughtUp waits until the view has seen every change in the store.
func CaughtUp(t *testing.T, s *store.Store, v *cache.View) {
	t.Helper()
	rev, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := v.WaitFor(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
}
