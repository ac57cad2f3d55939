package ares

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Place allocates seats to a waiting job in a new attempt. The store assigns the new attempt's fence
// later.
func (r *Run) Place(seats []Seat, score int, now time.Time) error {
	if r.Stop != nil || !r.Settled() {
		return Errorf(Conflict, "a seat of an earlier attempt may still hold a live process")
	}
	if r.Hold != nil && !r.Hold.Released {
		return Errorf(Conflict, "the job is held by %s", r.Hold.By)
	}
	if r.Unconfirmed {
		return Errorf(Conflict, "the hub has not confirmed the job since this cluster was restored")
	}
	if r.Returning != "" {
		return Errorf(Conflict, "the job is being returned to the hub: %s", r.Returning)
	}
	r.Placed++
	if err := r.changePhase(Scheduled, now, placedMessage(seats)); err != nil {
		r.Placed--
		return err
	}
	a := Attempt{Number: r.Placed, PlacedAt: now, Score: score}
	for _, s := range seats {
		a.Seats = append(a.Seats, SeatStatus{Seat: s, State: SeatPlaced})
	}
	r.Attempts = append(r.Attempts, a)
	r.NotBefore, r.Nominated = time.Time{}, nil
	// This loop removes old attempts whose seats are all free. The loop skips attempts with a seat
	// that is not free.
	for i := 0; (len(r.Attempts) > MaxAttemptsKept || r.pastSeats() > MaxSeatsKept) && i < len(r.Attempts)-1; {
		if r.Attempts[i].Free() {
			r.addDropped(&r.Attempts[i])
			r.Attempts = slices.Delete(r.Attempts, i, i+1)
		} else {
			i++
		}
	}
	return nil
}

// Ready ends a job's retry delay, so that a retrying or preempted job becomes pending. The engine decides when the
// delay is over. The time NotBefore comes from a server's clock, which may be wrong.
func (r *Run) Ready(now time.Time) error {
	if !r.Phase.Waiting() || r.Phase == Pending {
		return Errorf(Conflict, "the job is %s: there is no delay to end", r.Phase)
	}
	r.NotBefore = time.Time{}
	return r.changePhase(Pending, now, "waiting to be placed again")
}

// Claim records that the agent of a rank claimed its seat. When the last rank is claimed, the job becomes
// running. A repeated claim changes nothing.
func (r *Run) Claim(j *Job, f Fence, rank int, node string, now time.Time) error {
	a, h, err := r.current(f, rank)
	if err != nil {
		return err
	}
	if h.Node != node {
		return Errorf(Fenced, "rank %d is placed on node %s, not on node %s", rank, h.Node, node)
	}
	if r.Stop != nil && h.State == SeatPlaced {
		return Errorf(Fenced, "the attempt is being stopped (%s)", r.Stop.Why)
	}
	switch h.State {
	case SeatClaimed:
		return nil
	case SeatPlaced:
		h.State = SeatClaimed
	case SeatFinished, SeatReleased, SeatVoided, SeatCleared:
		return Errorf(Fenced, "rank %d is already %s", rank, h.State)
	}
	for i := range a.Seats {
		if a.Seats[i].State != SeatClaimed {
			return nil
		}
	}
	a.StartedAt = now
	if err := r.changePhase(Running, now, "every rank has started"); err != nil {
		return err
	}
	if own := j.Overridden(); len(own) > 0 {
		r.addTransition(now, "warning: Ares sets "+strings.Join(own, ", ")+" itself; the job's own values are not used")
	}
	return nil
}

// FixImage records the digest of the job's image, unless another rank or an earlier attempt has done so.
func (r *Run) FixImage(j *Job, digest string) {
	if j.Image != "" && r.ImageDigest == "" {
		r.ImageDigest = digest
	}
}

// Finish records the end of a rank. When the last rank reports, the attempt ends. A repeated report
// of the same end changes nothing. A report with an old fence is rejected.
func (r *Run) Finish(j *Job, f Fence, rank int, res RankResult, now time.Time) error {
	if a := r.attempt(f); a != nil {
		if h := a.seat(rank); h != nil && h.Result != nil && h.Result.Outcome == res.Outcome && h.Result.ExitCode == res.ExitCode {
			return nil // the same report again
		}
	}
	a, h, err := r.current(f, rank)
	if err != nil {
		return err
	}
	if h.State != SeatPlaced && h.State != SeatClaimed {
		return Errorf(Fenced, "rank %d is already %s", rank, h.State)
	}
	h.State, h.Result = SeatFinished, &res
	for i := range a.Seats {
		if a.Seats[i].Result == nil {
			return r.stopOthers(res, rank, now)
		}
	}
	return r.endAttempt(j, now)
}

// Decline answers a stop intent for a seat that was never claimed. The rank finishes as stopped. Its seat is free
// immediately, because no process was started. Declining the same seat again changes nothing.
func (r *Run) Decline(j *Job, f Fence, rank int, now time.Time) error {
	if a := r.attempt(f); a != nil {
		if h := a.seat(rank); h != nil && h.State == SeatReleased && h.Result != nil && h.Result.Outcome == OutcomeStopped {
			return nil // the same answer again
		}
	}
	_, h, err := r.current(f, rank)
	if err != nil {
		return err
	}
	if r.Stop == nil || h.State != SeatPlaced {
		return Errorf(Conflict, "rank %d is %s and has no stop intent to answer", rank, h.State)
	}
	res := RankResult{Outcome: OutcomeStopped, Reason: unclaimed, StartedAt: now, EndedAt: now}
	if err := r.Finish(j, f, rank, res, now); err != nil {
		return err
	}
	return r.Release(f, rank)
}

// Release frees a seat after the end of its processes was verified. The fence need not be current. A seat can be
// released only if it has finished or its attempt has ended.
func (r *Run) Release(f Fence, rank int) error {
	a := r.attempt(f)
	if a == nil {
		return nil // the attempt was dropped, so the seat was free
	}
	h := a.seat(rank)
	switch {
	case h == nil:
		return Errorf(Invalid, "the attempt has no rank %d", rank)
	case h.State.Free():
		return nil
	case h.State == SeatVoided:
		h.State = SeatCleared
	case h.State == SeatFinished || a.Ended():
		h.State = SeatReleased
	default:
		return Errorf(Conflict, "rank %d has not reported its end", rank)
	}
	return nil
}

// Clear frees the node's seats in ended attempts. The node has reported that none of the processes of these seats is
// alive. The parameter `held` contains the fences of the attempts that the node still runs. A seat is newer than the
// report if its fence is equal to or higher than the last parameter. Clear does not free such a seat.
func (r *Run) Clear(node string, held map[Fence]bool, before Fence) (changed bool) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if !a.Ended() || held[a.Fence] || a.Fence >= before {
			continue
		}
		for k := range a.Seats {
			h := &a.Seats[k]
			if h.Node != node || h.State.Free() {
				continue
			}
			changed = true
			if h.State == SeatVoided {
				h.State = SeatCleared
			} else {
				h.State = SeatReleased
			}
		}
	}
	return changed
}

// Void revokes a seat whose node's session has ended. The session ended so long ago that no process on the node can
// still be alive. The first voided seat of an attempt ends the attempt.
func (r *Run) Void(j *Job, f Fence, rank int, now time.Time) error {
	a := r.attempt(f)
	if a == nil {
		return Errorf(Fenced, "fence %d is unknown", f)
	}
	h := a.seat(rank)
	if h == nil || h.State.Settled() {
		return Errorf(Conflict, "the seat needs no void")
	}
	h.State = SeatVoided
	if a.Ended() {
		return nil
	}
	if h.Result == nil {
		h.Result = &RankResult{Outcome: OutcomeLost, Reason: "node " + h.Node + " was lost", EndedAt: now}
		return r.endAttempt(j, now)
	}
	// The rank had reported its end before its node was lost. Its result is therefore kept, and the other ranks
	// continue.
	return nil
}

// RequestStop records a stop intent for the current attempt. A cancel intent ends a waiting job
// immediately. On a running job, a stronger stop intent replaces a weaker one.
func (r *Run) RequestStop(s Stop) error {
	if r.Phase.Final() {
		return Errorf(Conflict, "the job is already %s", r.Phase)
	}
	switch {
	case r.IsBound():
		return r.requestStopOfOwner(s)
	case s.Why.EndsOnlyWaiting():
		return r.expireQueued(s)
	}
	if !r.Phase.Active() {
		if s.Why != StopCancel {
			return Errorf(Conflict, "the job is %s: there is nothing to stop", r.Phase)
		}
		return r.changePhase(Cancelled, s.At, "cancelled by "+s.By)
	}
	if r.Current() == nil && s.Why != StopCancel {
		return Errorf(Conflict, "the job is an array: stop its elements instead")
	}
	if r.Stop != nil && (r.Stop.Why == StopCancel || s.Why != StopCancel) {
		return nil
	}
	r.Stop = &s
	r.addTransition(s.At, fmt.Sprintf("stop requested: %s by %s", s.Why, s.RequestedBy("")))
	return nil
}

// requestStopOfOwner records, at a hub, the intent to cancel a job that a cluster owns. The hub cannot end the job itself,
// because the owner may have started it (F8). The intent stays until the job ends or has no owner any more.
func (r *Run) requestStopOfOwner(s Stop) error {
	if s.Why != StopCancel {
		return Errorf(Conflict, "cluster %s owns the job: a hub can only cancel it", r.Cluster)
	}
	if r.Stop != nil {
		return nil
	}
	r.Stop = &s
	r.addTransition(s.At, fmt.Sprintf("stop requested: %s by %s", s.Why, s.RequestedBy("")))
	return nil
}

// expireQueued ends a job whose queue timeout has passed before its first start, or whose dependency can never be met. If the job is an array, expireQueued cancels the elements
// that do not exist yet.
func (r *Run) expireQueued(s Stop) error {
	switch {
	case r.Placed > 0 || r.Nominated != nil:
		return Errorf(Conflict, "the job is placed or nominated")
	case r.Phase == Pending:
		return r.changePhase(Cancelled, s.At, s.By)
	case r.Phase != Running:
		return Errorf(Conflict, "the job is %s: it does not wait for its first start", r.Phase)
	case r.Stop == nil:
		r.Stop = &s
		r.addTransition(s.At, s.By+": elements that have not started are cancelled")
	}
	return nil
}

// When one rank of a gang fails, stopOthers asks the other ranks to stop.
func (r *Run) stopOthers(res RankResult, rank int, now time.Time) error {
	if res.Outcome == OutcomeSucceeded || r.Stop != nil {
		return nil
	}
	why := StopMember
	if res.Outcome == OutcomeLost || res.Outcome == OutcomeStopped {
		why = StopLost // the rank stopped without a stop intent, so the node stopped it
	}
	r.Stop = &Stop{Why: why, By: fmt.Sprintf("rank %d", rank), At: now}
	r.addTransition(now, fmt.Sprintf("rank %d %s: stopping the other ranks", rank, res.Outcome))
	return nil
}

// Nominate reserves seats for a waiting job while the jobs that use those devices are preempted.
func (r *Run) Nominate(n Nomination) error {
	if r.Phase != Pending || r.Stop != nil || !r.Settled() {
		return Errorf(Conflict, "the job is %s: only a waiting job can be nominated", r.Phase)
	}
	r.Nominated = &n
	r.addTransition(n.At, nominatedMessage(&n))
	return nil
}

// Withdraw ends the nomination of a job and records the reason.
func (r *Run) Withdraw(why string, now time.Time) error {
	if r.Nominated == nil {
		return Errorf(Conflict, "the job has no nomination")
	}
	r.Nominated = nil
	r.addTransition(now, "its nomination ended: "+why)
	return nil
}

// Checkpointed records that the attempt with the given fence has saved its progress. If several checkpoints
// follow each other, only the last one is listed among the transitions. Frequent checkpoints therefore do not
// displace other transitions.
func (r *Run) Checkpointed(f Fence, at time.Time) error {
	a, err := r.attemptUnderWay(f)
	if err != nil {
		return err
	}
	if !at.After(a.CheckpointedAt) || at.Before(a.PlacedAt) {
		return nil // it was reported before, or the file is older than the attempt
	}
	a.CheckpointedAt = at
	if n := len(r.Transitions); n > 0 && r.Transitions[n-1].Message == checkpointed && r.Transitions[n-1].Attempt == r.Placed {
		r.Transitions, r.Dropped = r.Transitions[:n-1], r.Dropped+1
	}
	r.addTransition(at, checkpointed)
	return nil
}

// CheckClaimed returns an error unless a rank of the attempt with the given fence is claimed and has not ended.
func (r *Run) CheckClaimed(f Fence, rank int) error {
	_, h, err := r.current(f, rank)
	if err == nil && h.State != SeatClaimed {
		err = Errorf(Fenced, "rank %d is %s and does not run", rank, h.State)
	}
	return err
}

// CheckEnd returns an error if a rank reports the end of a process although it was never claimed. No process is started
// before the claim, and a claim needs the node's current session, which a report of an end does not need.
func (r *Run) CheckEnd(f Fence, rank int, outcome Outcome) error {
	if outcome == OutcomeLost || outcome == OutcomeStopped || outcome == OutcomeSpawnError {
		return nil // no process is needed
	}
	_, h, err := r.current(f, rank)
	if err == nil && h.State == SeatPlaced {
		return Errorf(Fenced, "rank %d was not claimed, so it cannot have ended as %s: claim it first", rank, outcome)
	}
	return nil // Finish reports every other mistake
}

// NoteLateness records a new Lateness value. It returns an error if the job is final, or if this
// value or LatenessMissed is already recorded.
func (r *Run) NoteLateness(n *Noting, now time.Time) error {
	if r.Phase.Final() || r.Lateness == LatenessMissed || r.Lateness == n.Lateness {
		return Errorf(Conflict, "the job is %s: its deadline is already marked %q", r.Phase, r.Lateness)
	}
	r.Lateness = n.Lateness
	r.addTransition(now, n.Text)
	return nil
}

// Advance applies one step to the run of an array. When the first element is created, the array
// becomes running.
func (r *Run) Advance(s *ArrayStep, now time.Time) error {
	switch {
	case r.Phase.Final():
		return Errorf(Conflict, "the array is already %s", r.Phase)
	case s.Next < r.Next:
		return Errorf(Conflict, "the array has %d elements, not %d", r.Next, s.Next)
	case s.Next > r.Next && r.Stop != nil:
		return Errorf(Conflict, "the array is being stopped (%s)", r.Stop.Why)
	case s.Next > r.Next && r.Hold != nil && !r.Hold.Released:
		return Errorf(Conflict, "the array is held by %s", r.Hold.By)
	}
	r.Next = s.Next
	if r.Phase == Pending && r.Next > 0 {
		if err := r.changePhase(Running, now, "its first elements are placed"); err != nil {
			return err
		}
	}
	if s.Phase == "" {
		return nil
	}
	r.Stop = nil
	return r.changePhase(s.Phase, now, s.Reason)
}

// Drain asks the current attempt to stop because one of its nodes is drained. It reports whether it added a stop
// intent. Drain does not stop an attempt that is already being stopped or for which MustFinish is true.
func (r *Run) Drain(j *Job, c *Cordon, now time.Time) bool {
	return c.Drain && r.IsStoppedByDrain(j, c.Node, c.Force) && r.RequestStop(Stop{Why: StopDrain, By: c.By, At: now}) == nil
}

// ForceRelease frees every seat on a machine that is permanently gone. It returns how many seats it freed. ForceRelease
// returns an error if a seat may still be in use. With `force`, the caller asserts that the machine is off or was
// rebooted. With force, a seat that may be in use is voided before it is freed. Its rank then counts as lost.
func (r *Run) ForceRelease(j *Job, node string, force bool, now time.Time) (freed int, err error) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			if h.Node != node || h.State.Free() {
				continue
			}
			if !h.State.Settled() {
				if !force {
					return 0, Errorf(Conflict, "job %s may still run on node %s: its devices are released %s after the node's last message; wait, or use --force if the machine is off or was rebooted", j.ID, node, j.LostAfter())
				}
				if err = r.Void(j, a.Fence, h.Rank, now); err != nil {
					return 0, err
				}
			}
			h.State = SeatCleared
			freed++
		}
	}
	return freed, nil
}

// Restore ends the attempt that is running according to a backup. It reports whether that changed the run. After a
// restore, the real outcome of the attempt is unknown. The ended attempt counts as cancelled if it has a cancel intent,
// and otherwise as lost (R7). The attempt's seats stay allocated until their nodes report or are removed. Processes may
// still be alive there (R2).
//
// An at_most_once job that was waiting in the backup may have started after the backup. Such a job therefore also ends
// as lost.
func (r *Run) Restore(j *Job, now time.Time) (changed bool, err error) {
	a := r.Current()
	if j.Origin != nil && !r.Phase.Final() {
		r.TokenBase += restoredAttempts
		r.Unconfirmed, r.Nominated = true, nil
		changed = true
	}
	switch {
	case r.Phase.Final():
		return false, nil
	case a != nil:
		for i := range a.Seats {
			if h := &a.Seats[i]; h.Result == nil {
				h.Result = &RankResult{Outcome: OutcomeLost, Reason: restoredReason, EndedAt: now}
			}
		}
		return true, r.endAttempt(j, now)
	case r.Stop != nil: // an array that is being stopped ends after its elements
		return changed, nil
	case j.Mode == AtMostOnce:
		return true, r.changePhase(Lost, now, restoredReason+", so it may have run; at_most_once jobs are not run again")
	}
	return changed, nil
}

// endAttempt ends the current attempt and decides how the job continues. It implements the rules on cancel, loss,
// preemption, retries and failure.
func (r *Run) endAttempt(j *Job, now time.Time) error {
	a := r.Current()
	worst := a.worst()
	a.Outcome, a.Reason, a.ExitCode, a.EndedAt = worst.Outcome, worst.Reason, worst.ExitCode, now
	stop := r.Stop
	r.Stop = nil
	switch {
	case stop != nil && stop.Why == StopCancel:
		return r.changePhase(Cancelled, now, "cancelled by "+stop.By)
	case worst.Outcome == OutcomeSucceeded:
		return r.changePhase(Succeeded, now, "every rank ended with exit code 0")
	case worst.Outcome == OutcomeLost, stop != nil && stop.Why == StopLost, worst.Outcome == OutcomeStopped && stop == nil:
		r.recordPreemption(a, stop, now)          // the attempt was lost while it was being preempted; that still counts as a preemption
		return r.handleLoss(j, worst.Reason, now) // no stop intent exists, so the node stopped it
	case stop != nil && stop.Why == StopPreempt:
		r.NotBefore = now
		r.recordPreemption(a, stop, now)
		return r.changePhase(Preempted, now, "preempted by "+stop.RequestedBy(j.Tenant))
	case stop != nil && stop.Why == StopDrain && a.wasStopped(worst.Outcome):
		return r.handleDrain(j, a, stop.By, now)
	default:
		return r.handleFailure(j, worst, now)
	}
}

// recordPreemption stores the cost of a preemption with the attempt that the preemption ended. Later decisions read
// this cost, so that two jobs do not keep preempting each other.
func (r *Run) recordPreemption(a *Attempt, stop *Stop, now time.Time) {
	if stop != nil && stop.Why == StopPreempt {
		r.Preemptions, a.Preemption = r.Preemptions+1, a.preemptionCost(stop.Preemption, now)
	}
}

// handleLoss handles infrastructure loss, which never counts against the job's retry limit. A job that is lost
// repeatedly waits longer each time. A bad node therefore does not make it restart continuously.
func (r *Run) handleLoss(j *Job, reason string, now time.Time) error {
	if j.Mode == AtMostOnce {
		return r.changePhase(Lost, now, reason+"; at_most_once jobs are not run again")
	}
	r.Losses++
	if r.Losses == 1 {
		return r.changePhase(Pending, now, reason+"; waiting to be placed again")
	}
	r.NotBefore = now.Add(Backoff(j.ID, j.Retry, r.Losses-2, now, j.Deadline))
	return r.changePhase(Retrying, now, fmt.Sprintf("%s; lost %d times in a row", reason, r.Losses))
}

func (r *Run) handleFailure(j *Job, worst RankResult, now time.Time) error {
	r.Losses = 0
	limit := j.RetryLimit()
	if !retryable(j.Retry, worst.Outcome) || r.Retries >= limit {
		reason := worst.Reason
		if limit > 0 && r.Retries >= limit {
			reason += fmt.Sprintf(" (after %d retries)", r.Retries)
		}
		return r.changePhase(Failed, now, reason)
	}
	delay := Backoff(j.ID, j.Retry, r.Retries, now, j.Deadline)
	r.Retries++
	r.NotBefore = now.Add(delay)
	return r.changePhase(Retrying, now, fmt.Sprintf("%s; retry %d of %d in %s", worst.Reason, r.Retries, limit, delay.Round(time.Millisecond)))
}

// handleDrain ends an attempt that a drain has stopped.
func (r *Run) handleDrain(j *Job, a *Attempt, by string, now time.Time) error {
	if j.Mode == AtMostOnce && a.mayHaveStarted() {
		return r.changePhase(Lost, now, "its node was drained by "+by+" with force; at_most_once jobs are not run again")
	}
	if r.Returning != "" {
		return r.changePhase(Pending, now, "stopped, to be returned to the hub: "+r.Returning)
	}
	return r.changePhase(Pending, now, "its node is drained by "+by)
}

// changePhase sets the phase if the table of transitions allows it, and records the transition.
func (r *Run) changePhase(to Phase, now time.Time, message string) error {
	if !r.Phase.MayBecome(to) {
		return Errorf(Conflict, "a %s job cannot become %s", r.Phase, to)
	}
	r.Phase, r.Reason = to, message
	if to.Final() {
		r.FinishedAt, r.Nominated, r.Unconfirmed, r.Returning = now, nil, false, ""
	}
	r.addTransition(now, message)
	return nil
}

func (r *Run) addTransition(now time.Time, message string) {
	n := r.Placed
	r.Transitions = append(r.Transitions, Transition{At: now, Phase: r.Phase, Attempt: n, Message: message})
	r.limitTransitions()
}

// limitTransitions drops the oldest transitions if there are too many.
func (r *Run) limitTransitions() {
	if over := len(r.Transitions) - MaxTransitionsKept; over > 0 {
		// The first transition is never dropped, because it records when the job was accepted.
		r.Transitions = append(r.Transitions[:1:1], r.Transitions[1+over:]...)
		r.Dropped += over
	}
}

// This method returns a rank's seat in the current attempt.
func (r *Run) current(f Fence, rank int) (*Attempt, *SeatStatus, error) {
	a, err := r.attemptUnderWay(f)
	if err != nil {
		return nil, nil, err
	}
	h := a.seat(rank)
	if h == nil {
		return nil, nil, Errorf(Invalid, "the attempt has no rank %d", rank)
	}
	return a, h, nil
}

// attemptUnderWay returns the current attempt, or an error if its fence is not f.
func (r *Run) attemptUnderWay(f Fence) (*Attempt, error) {
	a := r.Current()
	if a == nil || f == 0 || a.Fence != f {
		return nil, Errorf(Fenced, "fence %d is not current (it is %d, the job is %s)", f, r.Fence(), r.Phase)
	}
	return a, nil
}
