package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// The type `seat` is one rank on this node. Each seat has a goroutine that handles it from the claim to the release. Orders to
// stop the seat are passed to its process.
type seat struct {
	agent   *Agent
	key     run.Key
	session int64         // session under which it began
	named   chan struct{} // closed when a server has sent the order; nil if the seat began with an order

	digest string // of the job's image, since the claim; only the seat's goroutine uses it
	unlock func() // lets the image's layers go; nil without an image

	// The lock agent.mu guards these fields. If the seat began with an order, its own goroutine may use these fields without the lock.
	order   *apipb.SeatOrder // nil for a seat found after a restart, until one comes
	proc    *run.Proc
	result  *run.Result
	stopped string        // why it was asked to stop, "" when it was not
	grace   time.Duration // grace period of that stop
	dead    bool          // it is verified that its processes have ended and its devices are unused
	foreign bool          // it belongs to another store, or to a time before a restore
	told    report        // its reported checkpoints
}

// The method `run` claims the seat, runs its process and reports the end.
func (s *seat) run(ctx context.Context) {
	s.watch(StepFound, false, "")
	digest, noImage := s.resolveImage(ctx)
	err := s.claim(ctx, digest)
	if err == nil && s.digest == "" && noImage != nil {
		err = s.withoutImage(ctx, noImage)
	} else if err == nil {
		err = s.start(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return // the agent stops; a started process has its supervisor
	case err != nil:
		s.agent.log.Warn("seat not started", "seat", s.key, "error", err)
		s.agent.drop(s)
		s.reconcileLater(ctx)
		return
	}
	s.finish(ctx)
}

// reconcileLater reconciles again after a short pause. A seat that could not be claimed is thus tried again, but not continuously.
func (s *seat) reconcileLater(ctx context.Context) {
	if pause.For(ctx, 500*time.Millisecond) {
		s.agent.reconcile(s.agent.session.Load())
	}
}

// The method `claim` claims the seat under the current session. No process may be started before the claim
// succeeds. The digest is that of the job's image, as this node has found it.
func (s *seat) claim(ctx context.Context, digest string) error {
	session := s.agent.session.Load()
	if session == 0 || !isFresh(run.BootTime(s.agent.renewed.Load()), s.lostAfter()) {
		return errors.New("the session was not renewed recently, so the agent does not claim the allocation")
	}
	// gofail: var agentBeforeClaim struct{}
	err := s.call(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		resp, err := c.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: ref, Seat: refOf(s.key), ImageDigest: digest})
		s.digest = resp.GetImageDigest()
		return err
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	// gofail: var agentAfterClaim struct{}

	// A claim is valid only in the session in which it was made (R5).
	if s.agent.session.Load() != session {
		return errors.New("the session changed during the claim, so the agent claims the allocation again")
	}
	s.agent.mu.Lock()
	s.session = session
	s.agent.mu.Unlock()
	s.watch(StepClaimed, false, "")
	return nil
}

// The method `start` starts the seat's process under a supervisor, or records why that is not possible.
func (s *seat) start(ctx context.Context) error {
	if why := cmp.Or(s.agent.refuses, s.untrusted(), s.lacksNetwork(), s.agent.missingDevices(s.order.Shares)); why != "" {
		s.end(run.Result{Outcome: run.Lost, Reason: why, Ended: time.Now()}) // the node's fault, not the job's
		return nil
	}
	spec, err := s.spec()
	if errors.Is(err, errNoUser) {
		s.end(run.Result{Outcome: run.Lost, Reason: "node " + s.agent.cfg.Node + ": " + err.Error(), Ended: time.Now()})
		return nil
	}
	if err != nil {
		s.end(run.Result{Outcome: run.SpawnError, Reason: err.Error(), Ended: time.Now()})
		return nil
	}
	if spec.Secrets, err = s.fetchSecrets(ctx); err != nil {
		return s.withoutSecrets(ctx, err)
	}
	if err = s.agent.runner.CheckSecrets(&spec); err != nil {
		// The node is at fault, but only for jobs with secret files, so it does not count as a failed start.
		s.end(run.Result{Outcome: run.Lost, Reason: "node " + s.agent.cfg.Node + ": " + err.Error(), Ended: time.Now()})
		return nil
	}
	if err = s.fetchCode(ctx, &spec); err != nil {
		return s.withoutCode(ctx, err)
	}
	if err = s.fetchImage(ctx, &spec); err != nil {
		return s.withoutImage(ctx, err)
	}
	started := s.agent.starts.begin(ctx)
	defer started()
	// Read the time of the last renewal before the session is checked. A renewal in a later session does not prove that this
	// claim is still valid. If the time of such a renewal were used, the process could stay alive after its seat was voided.
	spec.RenewedAt = run.BootTime(s.agent.renewed.Load())
	if s.agent.session.Load() != s.session || !isFresh(spec.RenewedAt, spec.LostAfter) {
		return errors.New("the session changed before the process started, so the agent claims the allocation again")
	}
	// gofail: var agentBeforeSpawn struct{}
	proc, err := s.agent.runner.Start(ctx, spec)
	// gofail: var agentAfterSpawn struct{}
	if err != nil {
		// No process was started. The node is at fault, not the job.
		s.agent.startFailed(err.Error())
		s.end(run.Result{Outcome: run.Lost, Reason: "node " + s.agent.cfg.Node + " could not start it: " + err.Error(), Ended: time.Now()})
		return nil
	}
	s.agent.mu.Lock()
	s.proc = proc
	if proc.Pid() != 0 { // otherwise the supervisor could not start it
		s.agent.failures = 0
	}
	stop, grace := s.stopped, s.grace
	s.agent.mu.Unlock()
	s.agent.log.Info("seat started", "seat", s.key, "pid", proc.Pid())
	if proc.Pid() != 0 {
		s.watch(StepRunning, false, "")
	}
	if stop != "" { // the seat was asked to stop while it was starting
		s.stop(stop, grace)
	}
	return nil
}

// The method `untrusted` returns the reason why this machine must not run the job, or "". The scheduler keeps such jobs off the
// node too, but it may have placed the job before this machine lost its isolation, or it may be of an earlier version.
func (s *seat) untrusted() string {
	if s.order.GetTrusted() || !s.agent.isolation.trustedOnly() {
		return ""
	}
	return "node " + s.agent.cfg.Node + " does not isolate jobs, so it runs only jobs of platform administrators: run its agent as root, or set isolation.allow_untrusted"
}

// lacksNetwork returns the reason why this machine cannot keep the job from its network, or "". The job never runs with the network instead.
func (s *seat) lacksNetwork() string {
	job := s.order.GetSpec().Spec()
	why := s.agent.isolation.noNetwork()
	if why == "" || !job.HasOwnNetwork() {
		return ""
	}
	return "node " + s.agent.cfg.Node + " cannot keep the job from its network (network: none): " + why
}

func (s *seat) end(res run.Result) {
	s.agent.mu.Lock()
	s.result = &res
	s.agent.mu.Unlock()
}

// The method `finish` waits until the process ends and reports its result. The seat is released once all of its
// processes have verifiably ended.
func (s *seat) finish(ctx context.Context) {
	endCalls := s.serveJob(ctx)
	res, ok := s.wait(ctx)
	endCalls()
	if !ok {
		return
	}
	s.lastCheckpoint(ctx)
	// gofail: var agentBeforeFinish struct{}
	released := false
	err := s.callUntilAnswered(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		// Before the release, report a device that is still in use or a node that cannot start jobs. If the release came first, the freed
		// devices could be allocated to another job.
		// A server that refuses what the node claims to be also refuses its next session, so no job is placed here.
		if err := s.agent.reportNode(ctx, c, ref); err != nil && ares.CodeOf(apipb.FromStatus(err)) != ares.Forbidden {
			// The session may just have changed. Even if the session has changed, keep trying to report the seat's end.
			return ares.Errorf(ares.Unavailable, "report the node's devices and readiness: %v", err)
		}
		// The method `wait` has verified that the seat is dead, so the same transaction may free its devices.
		resp, err := c.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: ref, Seat: refOf(s.key), Result: resultOf(res), Release: true})
		released = resp.GetReleased()
		return err
	})
	if ctx.Err() != nil {
		return // the result is on disk; the next agent reports it
	}
	if err != nil {
		s.agent.log.Warn("the report of a seat's end was rejected", "seat", s.key, "error", err)
		s.watch(StepRejected, false, err.Error())
	} else {
		s.watch(StepCommitted, false, "")
	}
	// gofail: var agentAfterFinish struct{}
	if err == nil && released {
		s.forget(ctx, nil)
		return
	}
	s.release(ctx)
}

// The method `wait` returns the result of a seat once its processes have verifiably ended and its devices are
// unused.
func (s *seat) wait(ctx context.Context) (run.Result, bool) {
	s.agent.mu.Lock()
	proc, res := s.proc, s.result
	s.agent.mu.Unlock()
	dead := false
	for res == nil {
		got, err := proc.Wait(ctx)
		if err == nil {
			res, dead = &got, true // Wait has verified it
			s.end(got)
			if got.Outcome == run.Lost && s.named == nil && proc.Pid() == 0 && s.isNodeAtFault(ctx) {
				s.agent.startFailed(got.Reason)
			}
			break
		}
		if ctx.Err() != nil {
			return got, false
		}
		s.agent.log.Error("wait for a seat", "seat", s.key, "error", err)
		if !pause.For(ctx, time.Second) {
			return got, false
		}
	}
	for !dead {
		err := s.agent.runner.EnsureDead(ctx, s.key)
		if err == nil {
			break
		}
		s.agent.log.Error("a seat does not die", "seat", s.key, "error", err)
		if !pause.For(ctx, time.Second) {
			return *res, false
		}
	}
	if s.named != nil {
		// After a restart, the seat's devices are known only once a server has sent the seat's order.
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
	s.watch(StepEnded, res.Outcome == run.Exited && res.ExitCode == 0 && res.Signal == 0, outcomeText(*res))
	return *res, ctx.Err() == nil
}

// The method `release` frees the seat's devices in the store and deletes the seat's state on this node.
func (s *seat) release(ctx context.Context) {
	err := s.callUntilAnswered(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		_, err := c.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: ref, Seat: refOf(s.key)})
		return err
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.agent.log.Warn("the release of a seat was rejected", "seat", s.key, "error", err)
	}
	s.forget(ctx, err)
}

// The method `forget` deletes the state of a released seat on this node. The argument is the reason why the release was rejected, or nil.
func (s *seat) forget(ctx context.Context, rejected error) {
	// gofail: var agentAfterRelease struct{}
	if err := s.agent.runner.Forget(s.key); err != nil {
		s.agent.log.Warn("forget a seat", "seat", s.key, "error", err)
	}
	s.agent.uploads.tell()
	// Most working directories are empty, and can be removed at once.
	gone := os.Remove(s.scratch())
	if gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		gone = s.agent.bin.Discard(s.scratch())
	}
	if err := gone; err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.agent.log.Warn("remove a seat's working directory", "seat", s.key, "error", err)
	}
	if rejected != nil {
		s.agent.drop(s)
		s.reconcileLater(ctx) // if the seat is still in the list, its end is reported again
		return
	}
	s.agent.dropReleased(s)
	s.agent.reconcile(s.agent.session.Load()) // another seat may be waiting for these devices
}

// The method `decline` answers a request to stop a seat that was never claimed (R9).
func (s *seat) decline(ctx context.Context) {
	err := s.callUntilAnswered(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		_, err := c.DeclineSeat(ctx, &apipb.DeclineSeatRequest{Ref: ref, Seat: refOf(s.key)})
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.agent.log.Warn("declining a seat was rejected", "seat", s.key, "error", err)
	}
	if err == nil {
		s.agent.dropReleased(s)
		return
	}
	s.agent.drop(s)
}

// reportLost reports a seat that has no process on this node. If the seat's attempt has not ended, reportLost first reports the seat as
// lost (R1), and then as released.
func (s *seat) reportLost(ctx context.Context) {
	if !s.waitForOldProcess(ctx) {
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

// waitForOldProcess waits until an old process of the seat must have ended. An earlier agent with another state directory may
// have left an old process. The process has received no renewals since this agent's first session. Without renewals, the
// process's supervisor kills it well within lost_after.
func (s *seat) waitForOldProcess(ctx context.Context) bool {
	s.agent.mu.Lock()
	first := s.agent.first
	s.agent.mu.Unlock()
	if first == nil || s.key.Fence > first.revision {
		return true // the seat was placed after this identity's first session
	}
	rest := time.Duration(s.order.LostAfterSeconds)*time.Second - run.Now().Sub(first.at)
	return rest <= 0 || pause.For(ctx, rest)
}

// If an order asks the seat to stop, applyOrder passes this request to the seat's process. The caller holds agent.mu.
func (s *seat) applyOrder(o *apipb.SeatOrder) {
	if s.order == nil {
		s.order = o // the seat was found after a restart; its devices are known from now on
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

// stopUnknown stops a process that the store has no record of. The caller holds agent.mu.
func (s *seat) stopUnknown() {
	if s.order == nil {
		s.order = &apipb.SeatOrder{Seat: refOf(s.key)} // no server will send its devices any more
		close(s.named)
	}
	if s.proc != nil && s.result == nil && s.stopped == "" {
		s.stopped = "the store no longer knows this seat"
		s.agent.wg.Go(func() { s.stop(s.stopped, 0) })
	}
}

// The method `stop` passes an order to stop to the supervisor. The request is not abandoned when the agent ends: the order is
// already noted, and without the agent nobody would repeat it until the job's lease runs out.
func (s *seat) stop(why string, grace time.Duration) {
	s.agent.log.Info("stopping seat", "seat", s.key, "why", why, "grace", grace)
	if err := s.proc.Stop(context.WithoutCancel(s.agent.life), why, grace); err != nil && !errors.Is(err, run.ErrEnded) {
		s.agent.log.Warn("stop a seat", "seat", s.key, "error", err)
	}
}

// The method `call` makes one RPC under the current session, with a time limit.
func (s *seat) call(ctx context.Context, do func(context.Context, apipb.AgentServiceClient, *apipb.SessionRef) error) error {
	control, _, _, err := s.agent.link.connections()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	session := s.agent.session.Load()
	if session == 0 {
		return ares.Errorf(ares.Unavailable, "the agent has no session yet")
	}
	ref := &apipb.SessionRef{NodeId: s.agent.cfg.Node, Session: session}
	return apipb.FromStatus(do(ctx, control, ref))
}

// callUntilAnswered repeats an RPC until it succeeds or is rejected permanently. The agent never stops trying to report the end of a seat.
func (s *seat) callUntilAnswered(ctx context.Context, do func(context.Context, apipb.AgentServiceClient, *apipb.SessionRef) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(wait*2, 5*time.Second) {
		err := s.call(ctx, do)
		switch ares.CodeOf(err) {
		case "":
			return nil
		case ares.Fenced, ares.Conflict, ares.Invalid, ares.NotFound, ares.Forbidden:
			return err
		default: // try again
		}
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
	}
}

func (s *seat) lostAfter() time.Duration {
	return time.Duration(s.order.GetSpec().GetLostAfterSeconds()) * time.Second
}

// The method `scratch` returns the path of the seat's own working directory.
func (s *seat) scratch() string {
	return filepath.Join(s.agent.cfg.Dir, workDir, s.key.String())
}

// resultOf translates the end of a process into a rank's result.
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
