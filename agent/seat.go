package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// seat is one rank's life on this node. Each has a goroutine that takes it
// from the claim to the release; wishes reach it through its process.
type seat struct {
	agent   *Agent
	key     run.Key
	session int64         // it was begun under
	named   chan struct{} // closed when a server has told of it; nil for a seat that began with that

	// Guarded by agent.mu, but for the seat's own goroutine when it began with
	// an order.
	order   *apipb.SeatOrder // nil for a seat found after a restart, until one comes
	proc    *run.Proc
	result  *run.Result
	stopped string        // why it was asked to stop, "" when it was not
	grace   time.Duration // it has then
	dead    bool          // its death is verified, devices and all
	foreign bool          // it is of another store, or of a time before a restore
	told    report        // of its checkpoints
}

// live claims the seat, runs its process and reports the end.
func (s *seat) live(ctx context.Context) {
	err := s.claim(ctx)
	if err == nil {
		err = s.start(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return // the agent ends; whatever was spawned has its supervisor
	case err != nil:
		s.agent.log.Warn("seat not started", "seat", s.key, "error", err)
		s.agent.drop(s)
		s.again(ctx)
		return
	}
	s.finish(ctx)
}

// again lets the store's wish be looked at once more after a moment, so that a
// seat that could not be claimed is neither forgotten nor hammered.
func (s *seat) again(ctx context.Context) {
	if pause(ctx, 500*time.Millisecond) {
		s.agent.reconcile(s.agent.session.Load())
	}
}

// claim takes the seat under the present session. Nothing is spawned before.
func (s *seat) claim(ctx context.Context) error {
	session := s.agent.session.Load()
	if session == 0 || !fresh(run.BootTime(s.agent.renewed.Load()), s.lostAfter()) {
		return errors.New("no renewal was acknowledged lately: not claimed")
	}
	// gofail: var agentBeforeClaim struct{}
	err := s.call(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		_, err := c.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: ref, Seat: refOf(s.key)})
		return err
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	// gofail: var agentAfterClaim struct{}

	// A claim belongs to the session it was made under (R5).
	if s.agent.session.Load() != session {
		return errors.New("the session changed during the claim: claiming anew")
	}
	s.agent.mu.Lock()
	s.session = session
	s.agent.mu.Unlock()
	return nil
}

// start spawns the process under its supervisor, or notes why it cannot.
func (s *seat) start(ctx context.Context) error {
	if why := cmp.Or(s.agent.refuses, s.agent.lacks(s.order.Shares)); why != "" {
		s.end(run.Result{Outcome: run.Lost, Reason: why, Ended: time.Now()}) // this node's fault, not the job's
		return nil
	}
	spec, err := s.spec()
	if err != nil {
		s.end(run.Result{Outcome: run.SpawnError, Reason: err.Error(), Ended: time.Now()})
		return nil
	}
	// Read before the look at the session: a renewal of a later one says nothing
	// of this claim, and would let the process live past the void of its seat.
	spec.RenewedAt = run.BootTime(s.agent.renewed.Load())
	if s.agent.session.Load() != s.session || !fresh(spec.RenewedAt, spec.LostAfter) {
		return errors.New("the session changed before the start: claiming anew")
	}
	// gofail: var agentBeforeSpawn struct{}
	proc, err := s.agent.runner.Start(ctx, spec)
	// gofail: var agentAfterSpawn struct{}
	if err != nil {
		// Nothing runs. The fault is this node's, not the job's.
		s.agent.startFailed(err.Error())
		s.end(run.Result{Outcome: run.Lost, Reason: "node " + s.agent.cfg.Node + " could not start it: " + err.Error(), Ended: time.Now()})
		return nil
	}
	s.agent.mu.Lock()
	s.proc = proc
	s.agent.failures = 0
	stop, grace := s.stopped, s.grace
	s.agent.mu.Unlock()
	s.agent.log.Info("seat started", "seat", s.key, "pid", proc.Pid())
	if stop != "" { // it was asked to while it started
		s.stop(stop, grace)
	}
	return nil
}

func (s *seat) end(res run.Result) {
	s.agent.mu.Lock()
	s.result = &res
	s.agent.mu.Unlock()
}

// finish waits for the process's end, reports it, and frees the seat once its
// death is verified.
func (s *seat) finish(ctx context.Context) {
	res, ok := s.wait(ctx)
	if !ok {
		return
	}
	s.lastCheckpoint(ctx)
	// gofail: var agentBeforeFinish struct{}
	err := s.until(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		// A device that did not come clean, or a node that cannot start jobs, is
		// told first: what is freed next must not be given to another job.
		if err := s.agent.tell(ctx, c, ref); err != nil {
			// The session may just have changed; that does not refuse the report itself.
			return ares.Errorf(ares.Unavailable, "tell what the node offers: %v", err)
		}
		_, err := c.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: ref, Seat: refOf(s.key), Result: resultOf(res)})
		return err
	})
	if ctx.Err() != nil {
		return // the result is on disk; the next agent reports it
	}
	if err != nil {
		s.agent.log.Warn("end of a seat was refused", "seat", s.key, "error", err)
	}
	// gofail: var agentAfterFinish struct{}
	s.release(ctx)
}

// wait returns the result of a seat whose death is verified, devices and all.
func (s *seat) wait(ctx context.Context) (run.Result, bool) {
	s.agent.mu.Lock()
	proc, res := s.proc, s.result
	s.agent.mu.Unlock()
	for res == nil {
		got, err := proc.Wait(ctx)
		if err == nil {
			res = &got
			s.end(got)
			break
		}
		if ctx.Err() != nil {
			return got, false
		}
		s.agent.log.Error("wait for a seat", "seat", s.key, "error", err)
		if !pause(ctx, time.Second) {
			return got, false
		}
	}
	for {
		err := s.agent.runner.EnsureDead(ctx, s.key)
		if err == nil {
			break
		}
		s.agent.log.Error("a seat does not die", "seat", s.key, "error", err)
		if !pause(ctx, time.Second) {
			return *res, false
		}
	}
	if s.named != nil {
		// Found after a restart: its devices are known once a server has told.
		select {
		case <-s.named:
		case <-ctx.Done():
			return *res, false
		}
	}
	s.agent.checkDevices(ctx, s)
	s.agent.mu.Lock()
	s.dead = true
	s.agent.mu.Unlock()
	s.agent.log.Info("seat ended", "seat", s.key, "outcome", res.Outcome, "exit_code", res.ExitCode)
	return *res, ctx.Err() == nil
}

// release frees the seat's devices in the store and forgets its state here.
func (s *seat) release(ctx context.Context) {
	err := s.until(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		_, err := c.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: ref, Seat: refOf(s.key)})
		return err
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.agent.log.Warn("release was refused", "seat", s.key, "error", err)
	}
	// gofail: var agentAfterRelease struct{}
	if err := s.agent.runner.Forget(s.key); err != nil {
		s.agent.log.Warn("forget a seat", "seat", s.key, "error", err)
	}
	if err := os.RemoveAll(s.scratch()); err != nil {
		s.agent.log.Warn("remove a seat's working directory", "seat", s.key, "error", err)
	}
	s.agent.drop(s)
	s.agent.reconcile(s.agent.session.Load()) // its devices may be awaited
}

// decline answers a stop on a seat that was never claimed (R9).
func (s *seat) decline(ctx context.Context) {
	err := s.until(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		_, err := c.DeclineSeat(ctx, &apipb.DeclineSeatRequest{Ref: ref, Seat: refOf(s.key)})
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.agent.log.Warn("decline was refused", "seat", s.key, "error", err)
	}
	s.agent.drop(s)
}

// bury reports a seat that has no process here: as lost, if its attempt is
// still under way (R1), and then as released.
func (s *seat) bury(ctx context.Context) {
	if !s.outlive(ctx) {
		return
	}
	s.end(run.Result{Outcome: run.Lost, Reason: "node " + s.agent.cfg.Node + " has no process of it", Ended: time.Now()})
	res, ok := s.wait(ctx)
	if !ok {
		return
	}
	if s.order.Current && s.order.State == string(ares.SeatClaimed) {
		s.end(res)
		s.finish(ctx)
		return
	}
	s.release(ctx)
}

// outlive waits until nothing of a seat can live that an earlier agent with
// another state directory may have left behind: its supervisor kills it well
// within lost_after when nobody renews, and nobody has since this agent's
// first session.
func (s *seat) outlive(ctx context.Context) bool {
	s.agent.mu.Lock()
	first := s.agent.first
	s.agent.mu.Unlock()
	if first == nil || s.key.Fence > first.revision {
		return true // placed for this identity
	}
	rest := time.Duration(s.order.LostAfterSeconds)*time.Second - run.Now().Sub(first.at)
	return rest <= 0 || pause(ctx, rest)
}

// wish passes a stop intent on to the process. The caller holds agent.mu.
func (s *seat) wish(o *apipb.SeatOrder) {
	if s.order == nil {
		s.order = o // found after a restart: now its devices are known too
		close(s.named)
	}
	why, grace := o.Stop, time.Duration(o.StopGraceSeconds)*time.Second
	if !o.Current {
		why, grace = "the attempt is over", 0
	}
	if why == "" || s.stopped != "" || s.result != nil {
		return
	}
	s.stopped, s.grace = why, grace
	if s.proc != nil {
		s.agent.wg.Go(func() { s.stop(why, grace) })
	}
}

// disown ends a process the store knows nothing of any more. The caller holds
// agent.mu.
func (s *seat) disown() {
	if s.order == nil {
		s.order = &apipb.SeatOrder{Seat: refOf(s.key)} // nobody will tell of its devices any more
		close(s.named)
	}
	if s.proc != nil && s.result == nil && s.stopped == "" {
		s.stopped = "the store no longer knows this seat"
		s.agent.wg.Go(func() { s.stop(s.stopped, 0) })
	}
}

func (s *seat) stop(why string, grace time.Duration) {
	s.agent.log.Info("stopping seat", "seat", s.key, "why", why, "grace", grace)
	if err := s.proc.Stop(s.agent.life, why, grace); err != nil && !errors.Is(err, run.ErrEnded) {
		s.agent.log.Warn("stop a seat", "seat", s.key, "error", err)
	}
}

// call makes one call under the present session, bounded in time.
func (s *seat) call(ctx context.Context, do func(context.Context, apipb.AgentServiceClient, *apipb.SessionRef) error) error {
	control, _, _, err := s.agent.link.connections()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ref := &apipb.SessionRef{NodeId: s.agent.cfg.Node, Session: s.agent.session.Load()}
	return apipb.FromStatus(do(ctx, control, ref))
}

// until repeats a call until it is answered: done, or refused for good. The
// report of an end is never given up while the agent lives.
func (s *seat) until(ctx context.Context, do func(context.Context, apipb.AgentServiceClient, *apipb.SessionRef) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(wait*2, 5*time.Second) {
		err := s.call(ctx, do)
		switch ares.CodeOf(err) {
		case "":
			return nil
		case ares.Fenced, ares.Conflict, ares.Invalid, ares.NotFound, ares.Forbidden:
			return err
		case ares.Unavailable, ares.Exhausted, ares.Internal, ares.Refused, ares.TooLarge, ares.Unauthentic:
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

func (s *seat) lostAfter() time.Duration {
	return time.Duration(s.order.GetSpec().GetLostAfterSeconds()) * time.Second
}

// scratch is the seat's own working directory.
func (s *seat) scratch() string {
	return filepath.Join(s.agent.cfg.Dir, "work", s.key.String())
}

// resultOf translates how a process ended into what the job's phase depends on.
func resultOf(r run.Result) *apipb.RankResult {
	m := &apipb.RankResult{
		ExitCode: int32(r.ExitCode), Signal: int32(r.Signal), Reason: r.Reason,
		StartedAt: apipb.Timestamp(r.Started), EndedAt: apipb.Timestamp(r.Ended),
	}
	outcome := ares.OutcomeLost
	switch r.Outcome {
	case run.Exited:
		switch {
		case r.Signal != 0:
			outcome, m.Reason = ares.OutcomeSignaled, fmt.Sprintf("ended by signal %d (%s)", int(r.Signal), r.Signal)
		case r.ExitCode == 0:
			outcome, m.Reason = ares.OutcomeSucceeded, "exit code 0"
		default:
			outcome, m.Reason = ares.OutcomeFailed, fmt.Sprintf("exit code %d", r.ExitCode)
		}
	case run.Stopped:
		outcome = ares.OutcomeStopped
	case run.MaxRuntime:
		outcome, m.Reason = ares.OutcomeTimeout, "max_runtime_minutes passed"
	case run.OutOfMemory: // its reason names the limit
		outcome = ares.OutcomeFailed
	case run.SpawnError:
		outcome = ares.OutcomeSpawnError
	case run.Fenced:
		m.Reason = "no renewal was acknowledged in time, so it was stopped"
	case run.Lost:
	}
	m.Outcome = string(outcome)
	return m
}
