package ares

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Place gives a waiting job its seats: a new attempt whose fence is not known
// yet, because the store makes it.
func (r *Run) Place(seats []Seat, score int, now time.Time) error {
	if r.Stop != nil || !r.Settled() {
		return Errorf(Conflict, "a seat of an earlier attempt may still hold a live process")
	}
	r.Placed++
	if err := r.move(Scheduled, now, placedMessage(seats)); err != nil {
		r.Placed--
		return err
	}
	a := Attempt{Number: r.Placed, PlacedAt: now, Score: score}
	for _, s := range seats {
		a.Seats = append(a.Seats, Held{Seat: s, State: SeatPlaced})
	}
	r.Attempts = append(r.Attempts, a)
	r.NotBefore, r.Nominated = time.Time{}, nil
	// A seat that never comes free stays; the free attempts behind it go.
	for i := 0; (len(r.Attempts) > MaxAttemptsKept || r.pastSeats() > MaxSeatsKept) && i < len(r.Attempts)-1; {
		if r.Attempts[i].Free() {
			r.Ran += r.Attempts[i].lasted(now)
			r.Attempts = slices.Delete(r.Attempts, i, i+1)
		} else {
			i++
		}
	}
	return nil
}

func (r *Run) pastSeats() int {
	n := 0
	for i := range r.Attempts[:len(r.Attempts)-1] {
		n += len(r.Attempts[i].Seats)
	}
	return n
}

// Ready ends a delay: a retrying or preempted job waits for a place again.
// Whether the delay is over is for the engine to say: NotBefore was written by
// the clock of some server, and that may be wrong.
func (r *Run) Ready(now time.Time) error {
	if !r.Phase.Waiting() || r.Phase == Pending {
		return Errorf(Conflict, "the job is %s: there is no delay to end", r.Phase)
	}
	r.NotBefore = time.Time{}
	return r.move(Pending, now, "waiting for a place again")
}

// Claim notes that the agent of a rank takes its seat. The last claim makes
// the job running. Claiming twice is the same as once.
func (r *Run) Claim(j *Job, f Fence, rank int, node string, now time.Time) error {
	a, h, err := r.current(f, rank)
	if err != nil {
		return err
	}
	if h.Node != node {
		return Errorf(Fenced, "rank %d belongs to node %s", rank, h.Node)
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
	if err := r.move(Running, now, "every rank has started"); err != nil {
		return err
	}
	if own := j.Overridden(); len(own) > 0 {
		r.note(now, "warning: Ares sets "+strings.Join(own, ", ")+" itself; the job's own values are not used")
	}
	return nil
}

// Finish notes the end of a rank. The last rank's report ends the attempt. A
// repeated report changes nothing; one with an old fence is refused.
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
	return r.conclude(j, now)
}

// Decline answers a stop intent on a seat nobody claimed: the rank is finished
// as stopped and its seat free, at once, because nothing was ever spawned.
// Answering twice is the same as once.
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

// Release frees a seat after verified death, whether its fence is current or
// not. Only a finished seat, or one whose attempt has ended, can be released.
func (r *Run) Release(f Fence, rank int) error {
	a := r.attempt(f)
	if a == nil {
		return nil // dropped long ago: it was free then
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

// Clear frees every seat of the node whose fence is not current, because the
// node reported that nothing of them lives. held names fences it still holds;
// of fences from before on the report cannot speak: they are younger than it.
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

// Void takes a seat back because its own node's session has ended and stayed
// away for longer than anything there may live. The first void of an attempt
// ends it.
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
		return r.conclude(j, now)
	}
	// The rank had reported before its node went: its result stands, the
	// others go on.
	return nil
}

// RequestStop puts a stop intent on an attempt, or ends a waiting job at once
// when it is a cancel. A cancel overrides a weaker intent.
func (r *Run) RequestStop(s Stop) error {
	if r.Phase.Final() {
		return Errorf(Conflict, "the job is already %s", r.Phase)
	}
	if s.Why == StopQueue {
		return r.giveUp(s)
	}
	if !r.Phase.Active() {
		if s.Why != StopCancel {
			return Errorf(Conflict, "the job is %s: there is nothing to stop", r.Phase)
		}
		return r.move(Cancelled, s.At, "cancelled by "+s.By)
	}
	if r.Current() == nil && s.Why != StopCancel {
		return Errorf(Conflict, "the job is an array: its elements are what can be stopped")
	}
	if r.Stop != nil && (r.Stop.Why == StopCancel || s.Why != StopCancel) {
		return nil
	}
	r.Stop = &s
	r.note(s.At, fmt.Sprintf("stop asked: %s by %s", s.Why, s.Asker("")))
	return nil
}

// giveUp ends a job that has waited for its first place for as long as it would.
// An array gives up the elements that were not made.
func (r *Run) giveUp(s Stop) error {
	switch {
	case r.Placed > 0 || r.Nominated != nil:
		return Errorf(Conflict, "the job has a place, or seats are kept for it")
	case r.Phase == Pending:
		return r.move(Cancelled, s.At, s.By)
	case r.Phase != Running:
		return Errorf(Conflict, "the job is %s: it does not wait for its first place", r.Phase)
	case r.Stop == nil:
		r.Stop = &s
		r.note(s.At, s.By+": what has not started yet is given up")
	}
	return nil
}

// current finds a rank's seat in the attempt under way.
func (r *Run) current(f Fence, rank int) (*Attempt, *Held, error) {
	a := r.Current()
	if a == nil || f == 0 || a.Fence != f {
		return nil, nil, Errorf(Fenced, "fence %d is not current (it is %d, the job is %s)", f, r.Fence(), r.Phase)
	}
	h := a.seat(rank)
	if h == nil {
		return nil, nil, Errorf(Invalid, "the attempt has no rank %d", rank)
	}
	return a, h, nil
}

// stopOthers asks the other ranks of a gang to end when one of them failed.
func (r *Run) stopOthers(res RankResult, rank int, now time.Time) error {
	if res.Outcome == OutcomeSucceeded || r.Stop != nil {
		return nil
	}
	why := StopMember
	if res.Outcome == OutcomeLost || res.Outcome == OutcomeStopped {
		why = StopLost // stopped, but nobody of ours asked: the node did
	}
	r.Stop = &Stop{Why: why, By: fmt.Sprintf("rank %d", rank), At: now}
	r.note(now, fmt.Sprintf("rank %d %s: stopping the other ranks", rank, res.Outcome))
	return nil
}

func nominatedMessage(n *Nomination) string {
	jobs := "1 job gives way"
	if len(n.Victims) != 1 {
		jobs = fmt.Sprintf("%d jobs give way", len(n.Victims))
	}
	seats := "1 seat is"
	if len(n.Seats) != 1 {
		seats = fmt.Sprintf("%d seats are", len(n.Seats))
	}
	return fmt.Sprintf("%s kept for it: %s (%s)", seats, jobs, n.Why)
}

func placedMessage(seats []Seat) string {
	if len(seats) == 0 {
		return "placed"
	}
	msg := "placed on " + seats[0].Node
	if n := len(seats) - 1; n > 0 {
		msg += fmt.Sprintf(" and %d more seats", n)
	}
	return msg
}
