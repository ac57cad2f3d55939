package control

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test; it is only reached by a failure.
const patience = 5 * time.Minute

var quiet = slog.New(slog.DiscardHandler)

// follow runs a view on a store until the test ends.
func follow(t *testing.T, s *store.Store, sinks ...func(ares.Batch)) *View {
	t.Helper()
	v := NewView(time.Now)
	for _, sink := range sinks {
		v.Feed(sink)
	}
	run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	await(t, v, "the first snapshot", func() bool { return v.Revision() > 0 })
	return v
}

// run starts something that runs until the test or stop ends it.
func run(t *testing.T, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = part(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// await blocks until ok, looking each time the view has moved and, for what
// the view does not tell, now and then.
func await(t *testing.T, v *View, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	now := time.NewTicker(20 * time.Millisecond)
	defer now.Stop()
	for {
		v.mu.RLock()
		moved := v.moved
		v.mu.RUnlock()
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

func phaseOf(v *View, id ares.JobID) ares.Phase {
	if e := v.Job(id); e != nil {
		return e.Run.Phase
	}
	return ""
}

// agent acts for one node as an agent does, until the test ends: it claims its
// seats, ends them when the gate is open, and releases them.
func agent(t *testing.T, s *store.Store, v *View, n *storetest.Node, gate <-chan struct{}) {
	t.Helper()
	run(t, func(ctx context.Context) error {
		for {
			entries, _, changed := v.SeatsOn(n.ID)
			for _, e := range entries {
				for i := range e.Run.Attempts {
					for k := range e.Run.Attempts[i].Seats {
						h := &e.Run.Attempts[i].Seats[k]
						if h.Node == n.ID {
							ref := store.SeatRef{Job: e.Job.ID, Fence: e.Run.Attempts[i].Fence, Rank: h.Rank, Node: n.ID}
							act(ctx, s, n, ref, h.State, e.Run.Stop != nil, gate)
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

// act takes the next step of one seat. A refusal is the store's right; the view
// will show why.
func act(ctx context.Context, s *store.Store, n *storetest.Node, ref store.SeatRef, state ares.SeatState, stopped bool, gate <-chan struct{}) {
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
