package ares_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// TestVoid checks rule R2 of docs/design/exactly-once.md for a gang that loses one of its nodes. The first voided seat
// ends the attempt. The next attempt waits until the seat of the healthy rank is free too.
func TestVoid(t *testing.T) {
	l := live(t, ares.Spec{Members: 2})
	f := l.place()
	l.claim(f)
	l.ok(l.run.Void(l.job, f, 0, l.now))
	l.is(ares.Pending)
	if l.run.Settled() || l.run.Attempts[0].Outcome != ares.OutcomeLost {
		t.Errorf("after the void: %+v", l.run.Attempts[0])
	}
	l.unchanged(ares.Conflict, func() error { return l.run.Void(l.job, f, 0, l.now) })
	l.unchanged(ares.Fenced, func() error { return l.run.Void(l.job, f+9, 0, l.now) })
	l.unchanged(ares.Conflict, func() error { return l.run.Place(nil, 0, l.now) })
	l.unchanged(ares.Fenced, func() error { return l.finish(f, 1, ares.OutcomeSucceeded) }) // the attempt has ended
	l.ok(l.run.Release(f, 1))
	if !l.run.Settled() || l.run.Free() {
		t.Error("a voided seat is settled, but not free")
	}
	g := l.place()

	// Rule R8 of docs/design/exactly-once.md is about a node's report. The report frees every seat on that node whose
	// fence is no longer current. Release frees a single seat by its fence.
	if l.run.Clear("n0", map[ares.Fence]bool{f: true}, math.MaxInt64) || l.run.Clear("n0", nil, f) {
		t.Error("cleared a fence the node says it holds, or one younger than its report")
	}
	if !l.run.Clear("n0", nil, math.MaxInt64) || l.run.Attempts[0].Seats[0].State != ares.SeatCleared {
		t.Errorf("after the clean report: %+v", l.run.Attempts[0])
	}
	if l.run.Clear("n0", nil, math.MaxInt64) || l.run.Clear("n1", nil, math.MaxInt64) || l.run.Last().Seats[0].State != ares.SeatPlaced {
		t.Error("a clean report freed a current seat, or one twice")
	}

	// When an attempt is lost for the second time in a row, the job waits before its next attempt.
	// Neither of the two losses counts against the retry limit.
	l.ok(l.run.Void(l.job, g, 1, l.now))
	l.is(ares.Retrying)
	if l.run.Retries != 0 || l.run.Losses != 2 || !l.run.NotBefore.After(l.now) {
		t.Errorf("%d retries, %d losses, not before %s", l.run.Retries, l.run.Losses, l.run.NotBefore)
	}
	l.ok(l.run.Void(l.job, g, 0, l.now)) // the attempt has ended, so only the seat changes
	l.is(ares.Retrying)
	l.ok(l.run.Release(g, 0))
	if l.run.Last().Seats[0].State != ares.SeatCleared {
		t.Errorf("a voided seat released is %s", l.run.Last().Seats[0].State)
	}
}

// In TestVoidAfterTheReport, the seat of a rank is voided after the rank has reported its end. The rank must keep its
// result, and the other ranks must continue.
func TestVoidAfterTheReport(t *testing.T) {
	l := live(t, ares.Spec{Members: 2})
	f := l.place()
	l.claim(f)
	l.ok(l.finish(f, 0, ares.OutcomeSucceeded))
	l.ok(l.run.Void(l.job, f, 0, l.now))
	l.is(ares.Running)
	l.ok(l.finish(f, 1, ares.OutcomeSucceeded))
	l.is(ares.Succeeded)
}

// TestReportedLost checks rule R1 of docs/design/exactly-once.md for a rank that its agent reports as lost. When an
// agent reports one rank as lost, the other ranks are stopped and the job runs again.
func TestReportedLost(t *testing.T) {
	l := live(t, ares.Spec{Members: 2})
	f := l.place()
	l.claim(f)
	l.ok(l.finish(f, 0, ares.OutcomeLost))
	if l.run.Stop == nil || l.run.Stop.Why != ares.StopLost {
		t.Fatalf("stop = %+v", l.run.Stop)
	}
	l.ok(l.finish(f, 1, ares.OutcomeStopped))
	l.is(ares.Pending)
}

func TestAtMostOnce(t *testing.T) {
	l := live(t, ares.Spec{Mode: ares.AtMostOnce})
	f := l.place()
	l.claim(f)
	l.ok(l.run.Void(l.job, f, 0, l.now))
	l.is(ares.Lost)
	l.unchanged(ares.Conflict, func() error { return l.run.Place(nil, 0, l.now) })
	l.unchanged(ares.Fenced, func() error { return l.finish(f, 0, ares.OutcomeSucceeded) })
}

// In TestAtMostOnceIsNotRetried, an at_most_once job fails by itself. It must not be retried, even if its retry policy
// would allow it.
func TestAtMostOnceIsNotRetried(t *testing.T) {
	l := live(t, ares.Spec{Mode: ares.AtMostOnce, Retry: ares.RetryPolicy{MaxRetries: new(3)}})
	f := l.place()
	l.claim(f)
	l.ok(l.finish(f, 0, ares.OutcomeFailed))
	l.is(ares.Failed)
}

// TestMaxRetries checks that max_retries 3 allows at most four runs. Losses in between must not count.
func TestMaxRetries(t *testing.T) {
	l := live(t, ares.Spec{})
	runs, failures := 0, 0
	for !l.run.Phase.Final() {
		if l.run.Phase == ares.Retrying {
			l.now = l.run.NotBefore
			l.ok(l.run.Ready(l.now))
		}
		f := l.place()
		runs++
		l.claim(f)
		if runs%3 == 0 {
			l.ok(l.run.Void(l.job, f, 0, l.now))
			continue
		}
		failures++
		l.ok(l.finish(f, 0, ares.OutcomeFailed))
		l.ok(l.run.Release(f, 0))
	}
	l.is(ares.Failed)
	if failures != 4 || l.run.Retries != 3 {
		t.Errorf("%d failures, %d retries", failures, l.run.Retries)
	}
}

func TestWhatIsRetried(t *testing.T) {
	all := []string{ares.RetryOnFailure, ares.RetryOnSignal, ares.RetryOnTimeout}
	for _, c := range []struct {
		outcome ares.Outcome
		on      []string
		want    ares.Phase
	}{
		{ares.OutcomeFailed, nil, ares.Retrying},
		{ares.OutcomeSignaled, nil, ares.Retrying},
		{ares.OutcomeTimeout, nil, ares.Failed},
		{ares.OutcomeTimeout, all, ares.Retrying},
		{ares.OutcomeSpawnError, all, ares.Failed},
		{ares.OutcomeFailed, []string{ares.RetryOnSignal}, ares.Failed},
		{ares.OutcomeFailed, []string{}, ares.Failed},
	} {
		l := live(t, ares.Spec{Retry: ares.RetryPolicy{RetryOn: c.on}})
		l.ok(l.finish(l.place(), 0, c.outcome))
		if l.run.Phase != c.want {
			t.Errorf("%s with retry_on %v: %s, want %s", c.outcome, c.on, l.run.Phase, c.want)
		}
	}
}

// TestRunStaysSmall checks that the stored attempts and transitions are bounded, even if a seat never becomes free.
func TestRunStaysSmall(t *testing.T) {
	l := live(t, ares.Spec{Retry: ares.RetryPolicy{MaxRetries: new(100)}})
	f := l.place()
	l.ok(l.run.Void(l.job, f, 0, l.now)) // its node never returns
	for range 50 {
		if l.run.Phase == ares.Retrying {
			l.now = l.run.NotBefore
			l.ok(l.run.Ready(l.now))
		}
		g := l.place()
		l.claim(g)
		l.ok(l.finish(g, 0, ares.OutcomeFailed))
		l.ok(l.run.Release(g, 0))
	}
	if n := len(l.run.Attempts); n > ares.MaxAttemptsKept {
		t.Errorf("%d attempts are kept", n)
	}
	if l.run.Attempts[0].Fence != f || l.run.Placed != 51 || l.run.Last().Number != 51 {
		t.Errorf("first fence %d, %d placed", l.run.Attempts[0].Fence, l.run.Placed)
	}
	if n := len(l.run.Transitions); n != ares.MaxTransitionsKept || l.run.Dropped == 0 || l.run.Transitions[0].Message != "accepted" {
		t.Errorf("%d transitions are kept, %d dropped, first %q", n, l.run.Dropped, l.run.Transitions[0].Message)
	}
	l.unchanged("", func() error { return l.run.Release(2, 0) }) // the attempt was dropped long ago
}

// TestCloneSharesNothing checks that a clone and its original share no data that a transition or a
// caller may change.
func TestCloneSharesNothing(t *testing.T) {
	l := live(t, ares.Spec{Members: 2})
	l.claim(l.place())
	l.ok(l.stop(ares.StopDrain))
	want := fmt.Sprintf("%+v %+v", l.run, *l.run.Stop)
	c := l.run.Clone()
	if !reflect.DeepEqual(c, l.run) {
		t.Errorf("a clone is %+v, want %+v", c, l.run)
	}
	c.Stop.Why, c.Phase = ares.StopCancel, ares.Failed
	c.Attempts[0].Seats[1].State, c.Attempts[0].Outcome = ares.SeatVoided, ares.OutcomeLost
	c.Transitions[0].Message = "changed"
	c.Attempts, c.Transitions = append(c.Attempts, ares.Attempt{}), append(c.Transitions, ares.Transition{})
	if got := fmt.Sprintf("%+v %+v", l.run, *l.run.Stop); got != want {
		t.Errorf("changing a clone changed the run from %s to %s", want, got)
	}
}

// TestNoFenceNoRight uses an attempt whose fence the store has not assigned yet. No agent may act for this attempt,
// not even with fence 0.
func TestNoFenceNoRight(t *testing.T) {
	l := live(t, ares.Spec{})
	l.ok(l.run.Place([]ares.Seat{{Node: "n0"}}, 0, l.now))
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, 0, 0, "n0", l.now) })
	l.unchanged(ares.Fenced, func() error { return l.finish(0, 0, ares.OutcomeSucceeded) })
}

// This method returns every operation that can be applied to a run.
func (l *life) steps(t *rapid.T) map[string]func(*rapid.T) {
	fence := func() ares.Fence { return ares.Fence(rapid.IntRange(0, int(l.n)+1).Draw(t, "fence")) }
	rank := func() int { return rapid.IntRange(-1, l.job.Members).Draw(t, "rank") }
	outcomes := []ares.Outcome{
		ares.OutcomeSucceeded, ares.OutcomeFailed, ares.OutcomeSignaled, ares.OutcomeTimeout,
		ares.OutcomeSpawnError, ares.OutcomeStopped, ares.OutcomeLost,
	}
	return map[string]func(*rapid.T){
		"place": func(t *rapid.T) {
			var seats []ares.Seat
			for r := range rapid.IntRange(1, l.job.Members).Draw(t, "seats") { // an elastic gang gets as many seats as fit
				seats = append(seats, ares.Seat{Node: fmt.Sprint("n", r%2), Rank: r})
			}
			if l.run.Place(seats, 0, l.now) == nil {
				l.n++
				l.run.Last().Fence = l.n
			}
		},
		"ready": func(*rapid.T) { _ = l.run.Ready(l.now) },
		"claim": func(*rapid.T) { r := rank(); _ = l.run.Claim(l.job, fence(), r, fmt.Sprint("n", r%2), l.now) },
		"claim current": func(*rapid.T) {
			for r := range l.job.Members {
				_ = l.run.Claim(l.job, l.run.Fence(), r, fmt.Sprint("n", r%2), l.now)
			}
		},
		"finish":  func(t *rapid.T) { _ = l.finish(fence(), rank(), rapid.SampledFrom(outcomes).Draw(t, "outcome")) },
		"release": func(*rapid.T) { _ = l.run.Release(fence(), rank()) },
		"decline": func(*rapid.T) { _ = l.run.Decline(l.job, fence(), rank(), l.now) },
		"void":    func(*rapid.T) { _ = l.run.Void(l.job, fence(), rank(), l.now) },
		"clear": func(t *rapid.T) {
			l.run.Clear(fmt.Sprint("n", rank()), map[ares.Fence]bool{fence(): true}, math.MaxInt64)
		},
		"stop": func(t *rapid.T) {
			_ = l.stop(rapid.SampledFrom([]ares.StopWhy{ares.StopCancel, ares.StopPreempt, ares.StopDrain}).Draw(t, "why"))
		},
		"advance": func(t *rapid.T) {
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
		},
	}
}

// This map contains all allowed changes of a seat's state. The key is the old state, and the values
// are the possible new states.
var after = map[ares.SeatState][]ares.SeatState{
	ares.SeatPlaced:   {ares.SeatClaimed, ares.SeatFinished, ares.SeatVoided},
	ares.SeatClaimed:  {ares.SeatFinished, ares.SeatVoided},
	ares.SeatFinished: {ares.SeatReleased, ares.SeatVoided},
	ares.SeatVoided:   {ares.SeatCleared},
}

// This function compares two successive versions of a run. It returns an error if the change
// violates an invariant.
func follows(was, is *ares.Run, job *ares.Job) error {
	if was.Phase.Final() && (is.Phase != was.Phase || !is.FinishedAt.Equal(was.FinishedAt) || is.Reason != was.Reason) {
		return fmt.Errorf("a final job went from %s to %s", was.Phase, is.Phase)
	}
	if is.Phase.Active() != (is.Current() != nil) || is.Phase.Final() == is.FinishedAt.IsZero() {
		return fmt.Errorf("a %s job has attempt %+v and ended at %s", is.Phase, is.Current(), is.FinishedAt)
	}
	if is.Stop != nil && !is.Phase.Active() {
		return fmt.Errorf("a %s job is asked to stop", is.Phase)
	}
	if is.Retries > *job.Retry.MaxRetries || is.Placed < was.Placed || len(is.Transitions) > ares.MaxTransitionsKept {
		return fmt.Errorf("%d retries, %d placed after %d", is.Retries, is.Placed, was.Placed)
	}
	unsettled := 0
	for i := range is.Attempts {
		a := &is.Attempts[i]
		live := false
		for _, h := range a.Seats {
			live = live || !h.State.Settled()
		}
		if live {
			unsettled++
		}
		if i > 0 && (a.Number <= is.Attempts[i-1].Number || a.Fence <= is.Attempts[i-1].Fence) {
			return fmt.Errorf("attempt %d follows attempt %d", a.Number, is.Attempts[i-1].Number)
		}
		if !a.Ended() && i < len(is.Attempts)-1 {
			return fmt.Errorf("attempt %d has no outcome and is not the last", a.Number)
		}
	}
	if unsettled > 1 {
		return fmt.Errorf("%d attempts may be alive at once", unsettled)
	}
	return seatsFollow(was, is)
}

func seatsFollow(was, is *ares.Run) error {
	for _, before := range was.Attempts {
		found := false
		for _, a := range is.Attempts {
			if a.Number != before.Number {
				continue
			}
			found = true
			for k, h := range a.Seats {
				if err := seatFollows(before.Seats[k], h, before.Ended() || a.Ended()); err != nil {
					return fmt.Errorf("attempt %d, rank %d: %w", a.Number, k, err)
				}
			}
		}
		if !found && !before.Free() {
			return fmt.Errorf("attempt %d was dropped and is not free", before.Number)
		}
	}
	return nil
}

func seatFollows(was, is ares.SeatStatus, ended bool) error {
	if was.State == is.State {
		return nil
	}
	if slices.Contains(after[was.State], is.State) {
		return nil
	}
	// A seat may also change directly to Released in two cases. Either the agent declined the seat,
	// or the attempt had ended and the end of the seat's processes was verified.
	if is.State == ares.SeatReleased && (ended || is.Result != nil && is.Result.Outcome == ares.OutcomeStopped) {
		return nil
	}
	return fmt.Errorf("from %s to %s", was.State, is.State)
}

// TestRunMachine applies random operations in random order. It checks that two attempts are never alive at the same
// time and that a final phase never changes. Devices must be freed only after the end of the attempt.
func TestRunMachine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := ares.Spec{Members: rapid.IntRange(1, 3).Draw(rt, "members"), Retry: ares.RetryPolicy{MaxRetries: new(2)}}
		if rapid.Bool().Draw(rt, "once") {
			spec.Mode = ares.AtMostOnce
		}
		l := live(t, spec)
		was := l.run.Clone()
		kept := fmt.Sprintf("%+v", was)
		steps := l.steps(rt)
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{
				"place", "place", "ready", "claim", "claim current", "claim current", "finish", "finish", "release",
				"release", "decline", "void", "clear", "stop", "advance",
			}).Draw(rt, "step")
			steps[name](rt)
			if err := follows(&was, &l.run, l.job); err != nil {
				rt.Fatalf("after %s: %v", name, err)
			}
			if again := fmt.Sprintf("%+v", was); again != kept {
				rt.Fatalf("%s changed a clone taken before: %s, now %s", name, kept, again)
			}
			was = l.run.Clone()
			kept = fmt.Sprintf("%+v", was)
		}
	})
}
