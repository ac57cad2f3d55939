package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// The method `adopt` takes over the seats whose supervisors are still alive after the previous agent ended, and
// ends all other seats.
func (a *Agent) adopt(ctx context.Context) error {
	// gofail: var agentBeforeAdopt struct{}
	found, err := a.runner.Find(ctx)
	if err != nil {
		return fmt.Errorf("find the processes of the previous agent: %w", err)
	}
	for _, f := range found {
		s := &seat{agent: a, key: f.Key, proc: f.Proc, named: make(chan struct{}), foreign: f.Key.Fence < a.store.since}
		if f.Proc == nil {
			s.result = &f.Result
		} else if layers := f.Proc.Spec().Container.Layers; len(layers) > 0 && a.images != nil {
			s.unlock = a.images.Lock(layers)
		}
		a.log.Info("seat found again", "seat", f.Key, "alive", f.Proc != nil)
		a.seats[f.Key] = s
		a.wg.Go(func() { s.finish(ctx) })
	}
	return nil
}

// The method `follow` acts on the list of the node's seats that a server sends. A server sends the list of the node's
// seats whenever one of them changes. If a step fails, the method tries it again later.
func (a *Agent) follow(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	stream, err := c.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: ref})
	if err != nil {
		return apipb.FromStatus(err)
	}
	a.mu.Lock()
	clear(a.released) // the store may have been restored to a time before those releases
	a.mu.Unlock()
	clean := false
	for {
		resp, err := stream.Recv()
		if err != nil {
			return apipb.FromStatus(err)
		}
		a.mu.Lock()
		a.orders, a.seen = resp.Seats, resp.Revision
		a.noteFences()
		a.forgetReleased()
		a.mu.Unlock()
		a.reconcile(ref.Session)
		if !clean {
			// Once per session, free the seats of earlier attempts that have no live process on this node (R8).
			if _, err := c.ReportClean(ctx, &apipb.ReportCleanRequest{Ref: ref, Held: a.heldFences()}); err != nil {
				return apipb.FromStatus(err)
			}
			clean = true
		}
	}
}

// The method `reconcile` compares the seats that the store assigns to this node with the seats that the agent runs,
// and starts or stops seats accordingly.
func (a *Agent) reconcile(session int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := make(map[run.Key]bool, len(a.orders))
	for _, o := range a.orders {
		key := keyOf(o.Seat)
		wanted[key] = true
		s := a.seats[key]
		switch {
		case a.released[key]: // the list was read before the release
		case s != nil:
			s.applyOrder(o)
		case o.State == string(ares.SeatPlaced) && o.Current && o.Stop != "":
			a.begin(key, o, (*seat).decline)
		case o.State == string(ares.SeatPlaced) && o.Current:
			if holder := a.holds(o); holder != nil {
				a.log.Warn("seat not started yet: its devices are still in use", "seat", key, "by", holder.key)
				continue
			}
			a.begin(key, o, (*seat).run)
		default:
			// The seat was claimed but has no supervisor on this node (R1), or it finished and was not released, or its attempt has ended.
			// Make sure that none of the seat's processes is still alive.
			a.begin(key, o, (*seat).reportLost)
		}
	}
	for key, s := range a.seats {
		// If a server's state is older than the seat's placement, the server does not know the seat yet.
		if !wanted[key] && (a.seen >= key.Fence || s.foreign) && s.session != session {
			s.stopUnknown()
		}
	}
}

// The method `begin` starts a seat's goroutine. The caller holds a.mu.
func (a *Agent) begin(key run.Key, o *apipb.SeatOrder, life func(*seat, context.Context)) {
	s := &seat{agent: a, key: key, order: o, session: a.session.Load()}
	a.seats[key] = s
	a.wg.Go(func() { life(s, a.life) })
}

// The method `holds` finds a running seat that blocks the order. Such a seat uses a device of the order and leaves too little of that
// device free. The caller holds a.mu.
func (a *Agent) holds(o *apipb.SeatOrder) *seat {
	if len(o.Shares) == 0 {
		return nil
	}
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

// The method `drop` removes a seat from the agent's table. Once the seat is removed, a new order may start it
// again.
func (a *Agent) drop(s *seat) {
	a.mu.Lock()
	if a.seats[s.key] == s {
		delete(a.seats, s.key)
	}
	a.freeUsers()
	a.mu.Unlock()
	if s.unlock != nil {
		s.unlock()
	}
}

// dropReleased removes a seat that a server has released. Nothing may start this seat again, or report it as lost, when a list of the
// node's seats from before the release is read once more.
func (a *Agent) dropReleased(s *seat) {
	a.mu.Lock()
	a.released[s.key] = true
	a.mu.Unlock()
	a.drop(s)
}

// forgetReleased forgets the released seats that the current list no longer names, because no later list names them. The caller holds a.mu.
func (a *Agent) forgetReleased() {
	if len(a.released) == 0 {
		return
	}
	named := make(map[run.Key]bool, len(a.orders))
	for _, o := range a.orders {
		named[keyOf(o.Seat)] = true
	}
	maps.DeleteFunc(a.released, func(key run.Key, _ bool) bool { return !named[key] })
}

// isHeld reports whether the agent still has the seat in its table.
func (a *Agent) isHeld(key run.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seats[key] != nil
}

// heldFences returns the fences of all seats that have a live process or may still get one. Seats of current attempts are included. Such a
// seat can be claimed while the report is in flight. The seat's attempt may then end because of another rank, before the report arrives.
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

// idleSupervisors is how long a supervisor without a seat waits for another one. Only a node that runs many short jobs keeps some of them.
const idleSupervisors = time.Second

// reportProgress reports the progress of running jobs, at most every two seconds and only if it has changed.
func (a *Agent) reportProgress(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	told := map[run.Key]run.Progress{}
	for pause.For(ctx, 2*time.Second) {
		a.runner.ReleaseIdle(idleSupervisors)
		maps.DeleteFunc(told, func(k run.Key, _ run.Progress) bool { return !a.isHeld(k) })
		a.mu.Lock()
		running := make([]*seat, 0, len(a.seats))
		for _, s := range a.seats {
			if s.proc != nil && s.result == nil { // a report after the end is rejected
				running = append(running, s)
			}
		}
		a.mu.Unlock()
		for _, s := range running {
			p := s.proc // set once, before the seat was listed
			progress, ok := p.Progress()
			if !ok || told[p.Key()] == progress {
				continue
			}
			_, err := c.ReportProgress(ctx, &apipb.ReportProgressRequest{
				Ref: ref, Seat: refOf(p.Key()), Percent: progress.Percent, Message: progress.Message,
			})
			if err != nil {
				a.log.Debug("report progress", "seat", p.Key(), "error", err)
				continue // the next change is reported again, and nothing else depends on it
			}
			told[p.Key()] = progress
			s.watch(StepProgress, false, cmp.Or(progress.Message, fmt.Sprintf("%.1f %%", progress.Percent)))
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
