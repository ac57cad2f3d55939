package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// adopt takes up again what outlived the agent's last run, and buries what did
// not.
func (a *Agent) adopt(ctx context.Context) error {
	// gofail: var agentBeforeAdopt struct{}
	found, err := a.runner.Find(ctx)
	if err != nil {
		return fmt.Errorf("find the seats of the last run: %w", err)
	}
	for _, f := range found {
		s := &seat{agent: a, key: f.Key, proc: f.Proc, named: make(chan struct{}), foreign: f.Key.Fence < a.store.since}
		if f.Proc == nil {
			s.result = &f.Result
		}
		a.log.Info("seat found again", "seat", f.Key, "alive", f.Proc != nil)
		a.seats[f.Key] = s
		a.wg.Go(func() { s.finish(ctx) })
	}
	return nil
}

// follow acts on the node's seats as a server sends them: all of them, each
// time one changes. What could not be done then is tried again.
func (a *Agent) follow(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	stream, err := c.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: ref})
	if err != nil {
		return apipb.FromStatus(err)
	}
	clean := false
	for {
		resp, err := stream.Recv()
		if err != nil {
			return apipb.FromStatus(err)
		}
		a.mu.Lock()
		a.orders, a.seen = resp.Seats, resp.Revision
		a.noteFences()
		a.mu.Unlock()
		a.reconcile(ref.Session)
		if !clean {
			// Once a session: free what earlier attempts held here and is dead (R8).
			if _, err := c.ReportClean(ctx, &apipb.ReportCleanRequest{Ref: ref, Held: a.heldFences()}); err != nil {
				return apipb.FromStatus(err)
			}
			clean = true
		}
	}
}

// reconcile compares what the store wants of this node with what it holds.
func (a *Agent) reconcile(session int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := map[run.Key]bool{}
	for _, o := range a.orders {
		key := keyOf(o.Seat)
		wanted[key] = true
		s := a.seats[key]
		switch {
		case s != nil:
			s.wish(o)
		case o.State == string(ares.SeatPlaced) && o.Current && o.Stop != "":
			a.begin(key, o, (*seat).decline)
		case o.State == string(ares.SeatPlaced) && o.Current:
			if holder := a.holds(o); holder != nil {
				a.log.Warn("seat refused for now: its devices are still held", "seat", key, "by", holder.key)
				continue
			}
			a.begin(key, o, (*seat).live)
		default:
			// Claimed without a supervisor here (R1), finished but not released,
			// or of an attempt that is over: nothing of it may live.
			a.begin(key, o, (*seat).bury)
		}
	}
	for key, s := range a.seats {
		// A server that lags behind the seat's own placement knows nothing of it.
		if !wanted[key] && (a.seen >= key.Fence || s.foreign) && s.session != session {
			s.disown()
		}
	}
}

// begin starts a seat's life. The caller holds a.mu.
func (a *Agent) begin(key run.Key, o *apipb.SeatOrder, life func(*seat, context.Context)) {
	s := &seat{agent: a, key: key, order: o, session: a.session.Load()}
	a.seats[key] = s
	a.wg.Go(func() { life(s, a.life) })
}

// holds finds a seat that still has one of the order's devices for itself. The
// caller holds a.mu.
func (a *Agent) holds(o *apipb.SeatOrder) *seat {
	for _, s := range a.seats {
		if s.order == nil || s.dead {
			continue
		}
		for _, mine := range s.order.Shares {
			if slices.ContainsFunc(o.Shares, func(want *apipb.DeviceShare) bool {
				return want.DeviceId == mine.DeviceId && want.Milli+mine.Milli > 1000
			}) {
				return s
			}
		}
	}
	return nil
}

// drop ends a seat's life here; its order may begin another.
func (a *Agent) drop(s *seat) {
	a.mu.Lock()
	if a.seats[s.key] == s {
		delete(a.seats, s.key)
	}
	a.mu.Unlock()
}

// isHeld says whether a seat has its life here.
func (a *Agent) isHeld(key run.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seats[key] != nil
}

// heldFences are those of seats that hold a live process, or may yet: one that
// the store shows as current can be claimed while the report is on its way, and
// its attempt end for another rank's sake before it arrives.
func (a *Agent) heldFences() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := map[int64]bool{}
	for key := range a.seats {
		held[key.Fence] = true
	}
	for _, o := range a.orders {
		if o.Current {
			held[o.Seat.Fence] = true
		}
	}
	return slices.Sorted(maps.Keys(held))
}

// reportProgress tells what running jobs say of themselves, at most every two
// seconds and only when it changed.
func (a *Agent) reportProgress(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	told := map[run.Key]run.Progress{}
	for pause(ctx, 2*time.Second) {
		maps.DeleteFunc(told, func(k run.Key, _ run.Progress) bool { return !a.isHeld(k) })
		a.mu.Lock()
		running := make([]*run.Proc, 0, len(a.seats))
		for _, s := range a.seats {
			if s.proc != nil {
				running = append(running, s.proc)
			}
		}
		a.mu.Unlock()
		for _, p := range running {
			progress, ok := p.Progress()
			if !ok || told[p.Key()] == progress {
				continue
			}
			_, err := c.ReportProgress(ctx, &apipb.ReportProgressRequest{
				Ref: ref, Seat: refOf(p.Key()), Percent: progress.Percent, Message: progress.Message,
			})
			if err != nil {
				a.log.Debug("report progress", "seat", p.Key(), "error", err)
				continue // the next change is told again; nothing depends on it
			}
			told[p.Key()] = progress
		}
		a.reportCheckpoints(ctx, c, ref)
	}
	return ctx.Err()
}

func keyOf(r *apipb.SeatRef) run.Key {
	return run.Key{Job: r.GetJobId(), Fence: r.GetFence(), Rank: int(r.GetRank())}
}

func refOf(k run.Key) *apipb.SeatRef {
	return &apipb.SeatRef{JobId: k.Job, Fence: k.Fence, Rank: int32(k.Rank)}
}
