package ares_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestTableOfMoves checks the table of transitions for every pair of phases.
func TestTableOfMoves(t *testing.T) {
	allowed := map[ares.Phase]string{
		ares.Pending:   "scheduled running failed cancelled lost returned",
		ares.Scheduled: "pending running retrying preempted succeeded failed cancelled lost",
		ares.Running:   "pending retrying preempted succeeded failed cancelled lost",
		ares.Retrying:  "pending failed cancelled lost returned",
		ares.Preempted: "pending failed cancelled lost returned",
	}
	for _, from := range ares.Phases() {
		for _, to := range ares.Phases() {
			if got, want := from.MayBecome(to), slices.Contains(strings.Fields(allowed[from]), string(to)); got != want {
				t.Errorf("%s → %s: %t, want %t", from, to, got, want)
			}
		}
		if kinds := count(from.Final(), from.Active(), from.Waiting()); kinds != 1 {
			t.Errorf("%s is final, active or waiting in %d ways", from, kinds)
		}
		if from.Final() != (allowed[from] == "") {
			t.Errorf("%s: final %t", from, from.Final())
		}
	}
}

// TestPlacedMessage checks the text of the event for gangs of several sizes.
func TestPlacedMessage(t *testing.T) {
	for n, want := range map[int]string{1: "placed on a", 2: "placed on a and 1 more seat", 3: "placed on a and 2 more seats"} {
		r := ares.NewRun(t0)
		if err := r.Place(slices.Repeat([]ares.Seat{{Node: "a"}}, n), 0, t0); err != nil {
			t.Fatal(err)
		}
		if got := r.Transitions[len(r.Transitions)-1].Message; got != want {
			t.Errorf("%d seats: got %q, want %q", n, got, want)
		}
	}
}

func count(of ...bool) (n int) {
	for _, b := range of {
		if b {
			n++
		}
	}
	return n
}

// The type `life` contains a job and its run for a test.
type life struct {
	t   *testing.T
	job *ares.Job
	run ares.Run
	now time.Time
	n   ares.Fence
}

func live(t *testing.T, spec ares.Spec) *life {
	t.Helper()
	l := &life{t: t, job: &ares.Job{Spec: spec.WithDefaults(), ID: ares.NewJobID("t", t.Name())}, run: ares.NewRun(t0), now: t0}
	return l
}

// place allocates one seat for each member, each on its own node: n0, n1, …
func (l *life) place() ares.Fence {
	l.t.Helper()
	var seats []ares.Seat
	for r := range l.job.Members {
		seats = append(seats, ares.Seat{Node: fmt.Sprint("n", r), Rank: r, Shares: []ares.Share{{Device: "d", Milli: 1000}}})
	}
	l.ok(l.run.Place(seats, 7, l.now))
	l.n++
	l.run.Last().Fence = l.n
	return l.n
}

func (l *life) claim(f ares.Fence) {
	l.t.Helper()
	for r := range l.job.Members {
		l.ok(l.run.Claim(l.job, f, r, fmt.Sprint("n", r), l.now))
	}
}

func (l *life) finish(f ares.Fence, rank int, o ares.Outcome) error {
	res := ares.RankResult{Outcome: o, Reason: string(o), EndedAt: l.now}
	if o == ares.OutcomeFailed {
		res.ExitCode = 1
	}
	return l.run.Finish(l.job, f, rank, res, l.now)
}

func (l *life) stop(why ares.StopWhy) error {
	return l.run.RequestStop(ares.Stop{Why: why, By: "ann", At: l.now})
}

func (l *life) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%v (the job is %s)", err, l.run.Phase)
	}
}

func (l *life) refused(code ares.Code, err error) {
	l.t.Helper()
	if ares.CodeOf(err) != code {
		l.t.Errorf("error %v, want code %s", err, code)
	}
}

func (l *life) is(p ares.Phase) {
	l.t.Helper()
	if l.run.Phase != p {
		l.t.Fatalf("the job is %s (%s), want %s", l.run.Phase, l.run.Reason, p)
	}
}

// This method calls the function `act`, which must not change the run. The call must fail with the given code, or
// succeed if the code is "".
func (l *life) unchanged(code ares.Code, act func() error) {
	l.t.Helper()
	before := l.run.Clone()
	l.refused(code, act())
	if after := l.run.Clone(); !reflect.DeepEqual(before, after) {
		l.t.Errorf("the run changed from %+v to %+v", before, after)
	}
}

func TestHappyLife(t *testing.T) {
	l := live(t, ares.Spec{Members: 2})
	f := l.place()
	l.is(ares.Scheduled)
	if a := l.run.Current(); a.Number != 1 || a.Score != 7 || l.run.Fence() != f {
		t.Errorf("attempt %+v", a)
	}
	l.ok(l.run.Claim(l.job, f, 0, "n0", t0))
	l.is(ares.Scheduled)
	l.unchanged("", func() error { return l.run.Claim(l.job, f, 0, "n0", t0) })
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f, 1, "n0", t0) })
	l.unchanged(ares.Invalid, func() error { return l.run.Claim(l.job, f, 2, "n0", t0) })
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f+1, 1, "n1", t0) })
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, 0, 1, "n1", t0) })
	l.ok(l.run.Claim(l.job, f, 1, "n1", t0))
	l.is(ares.Running)
	l.unchanged(ares.Conflict, func() error { return l.run.Release(f, 0) })
	l.ok(l.finish(f, 0, ares.OutcomeSucceeded))
	l.is(ares.Running)
	l.ok(l.run.Release(f, 0))
	l.ok(l.finish(f, 1, ares.OutcomeSucceeded))
	l.is(ares.Succeeded)
	if l.run.Settled() || l.run.Free() || l.run.Current() != nil || !l.run.FinishedAt.Equal(t0) {
		t.Errorf("after the last report: %+v", l.run)
	}
	l.ok(l.run.Release(f, 1))
	l.unchanged("", func() error { return l.run.Release(f, 1) })
	if !l.run.Free() {
		t.Error("devices are held after every release")
	}
}

// TestLateAndRepeatedReports checks that a repeated report changes nothing and that a report with an old fence is
// rejected. A final job must never change.
func TestLateAndRepeatedReports(t *testing.T) {
	l := live(t, ares.Spec{})
	f := l.place()
	l.claim(f)
	l.ok(l.finish(f, 0, ares.OutcomeFailed))
	l.is(ares.Retrying)
	l.unchanged("", func() error { return l.finish(f, 0, ares.OutcomeFailed) })
	l.unchanged(ares.Fenced, func() error { return l.finish(f, 0, ares.OutcomeSucceeded) })
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f, 0, "n0", l.now) })

	l.now = l.run.NotBefore
	l.ok(l.run.Ready(l.now))
	l.unchanged(ares.Conflict, func() error { return l.run.Ready(l.now) })
	l.unchanged(ares.Conflict, func() error { return l.run.Place(nil, 0, l.now) }) // a process on the old seat may still be alive
	l.ok(l.run.Release(f, 0))
	g := l.place()
	l.unchanged(ares.Fenced, func() error { return l.finish(f, 0, ares.OutcomeSucceeded) })
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f, 0, "n0", l.now) })
	l.claim(g)
	l.ok(l.finish(g, 0, ares.OutcomeSucceeded))
	l.is(ares.Succeeded)
	l.unchanged("", func() error { return l.finish(g, 0, ares.OutcomeSucceeded) })
	l.unchanged(ares.Fenced, func() error { return l.finish(g, 0, ares.OutcomeFailed) })
	l.unchanged(ares.Conflict, func() error { return l.stop(ares.StopCancel) })
	l.unchanged(ares.Conflict, func() error { return l.run.Ready(l.now) })
}

// TestGangStop checks that the other ranks of a gang are stopped when one rank fails. This failure must become the
// result of the attempt.
func TestGangStop(t *testing.T) {
	l := live(t, ares.Spec{Members: 3, Retry: ares.RetryPolicy{MaxRetries: new(0)}})
	f := l.place()
	l.ok(l.run.Claim(l.job, f, 0, "n0", l.now))
	l.ok(l.run.Claim(l.job, f, 1, "n1", l.now))
	l.ok(l.finish(f, 1, ares.OutcomeFailed))
	l.is(ares.Scheduled)
	if l.run.Stop == nil || l.run.Stop.Why != ares.StopMember {
		t.Fatalf("stop = %+v", l.run.Stop)
	}
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f, 2, "n2", l.now) })
	l.ok(l.run.Decline(l.job, f, 2, l.now))
	l.ok(l.finish(f, 0, ares.OutcomeStopped))
	l.is(ares.Failed)
	if l.run.Attempts[0].Outcome != ares.OutcomeFailed || l.run.Attempts[0].ExitCode != 1 || l.run.Stop != nil {
		t.Errorf("attempt %+v", l.run.Attempts[0])
	}
}

// TestStoppedByTheNode checks that a rank that stops without a stop intent counts as stopped by its
// node. The job then runs again on another node, whether it has one member or several. The stop
// does not count against its retry limit.
func TestStoppedByTheNode(t *testing.T) {
	for _, members := range []int{1, 2, 3} {
		for _, others := range []ares.Outcome{ares.OutcomeStopped, ares.OutcomeFailed, ares.OutcomeSucceeded} {
			l := live(t, ares.Spec{Members: members})
			f := l.place()
			l.claim(f)
			l.ok(l.finish(f, 0, ares.OutcomeStopped))
			for r := 1; r < members; r++ {
				l.ok(l.finish(f, r, others))
			}
			l.is(ares.Pending)
			if l.run.Retries != 0 || l.run.Losses != 1 {
				t.Errorf("%d members, others %s: %d retries, %d losses", members, others, l.run.Retries, l.run.Losses)
			}
		}
	}
}

// TestCancelRaces checks that a cancelled job ends as cancelled, no matter when the cancel arrives. The only
// exception is a job that was already final.
func TestCancelRaces(t *testing.T) {
	for name, play := range map[string]func(l *life){
		"while pending": func(l *life) { l.ok(l.stop(ares.StopCancel)) },
		"before a claim": func(l *life) { // R9
			f := l.place()
			l.ok(l.stop(ares.StopCancel))
			l.is(ares.Scheduled)
			l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f, 0, "n0", l.now) })
			l.unchanged(ares.Fenced, func() error { return l.run.Decline(l.job, f+1, 0, l.now) })
			l.ok(l.run.Decline(l.job, f, 0, l.now))
			l.unchanged("", func() error { return l.run.Decline(l.job, f, 0, l.now) })
			l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f, 0, "n0", l.now) })
			if !l.run.Free() {
				l.t.Error("a declined seat is held")
			}
		},
		"while running": func(l *life) {
			f := l.place()
			l.claim(f)
			l.unchanged(ares.Conflict, func() error { return l.run.Decline(l.job, f, 0, l.now) })
			l.ok(l.stop(ares.StopCancel))
			l.unchanged("", func() error { return l.stop(ares.StopCancel) })
			l.unchanged("", func() error { return l.stop(ares.StopDrain) })
			l.unchanged("", func() error { return l.run.Claim(l.job, f, 0, "n0", l.now) }) // it was already claimed
			l.unchanged(ares.Conflict, func() error { return l.run.Decline(l.job, f, 0, l.now) })
			l.ok(l.finish(f, 0, ares.OutcomeStopped))
		},
		"over a preemption": func(l *life) {
			f := l.place()
			l.claim(f)
			l.ok(l.stop(ares.StopPreempt))
			l.unchanged("", func() error { return l.stop(ares.StopDrain) })
			l.ok(l.stop(ares.StopCancel))
			l.ok(l.finish(f, 0, ares.OutcomeFailed))
		},
		"before its node is lost": func(l *life) { // R7
			f := l.place()
			l.claim(f)
			l.ok(l.stop(ares.StopCancel))
			l.ok(l.run.Void(l.job, f, 0, l.now))
		},
		"before it is reported lost": func(l *life) { // R7
			f := l.place()
			l.claim(f)
			l.ok(l.stop(ares.StopCancel))
			l.ok(l.finish(f, 0, ares.OutcomeLost))
		},
		"while backing off": func(l *life) {
			f := l.place()
			l.ok(l.finish(f, 0, ares.OutcomeFailed))
			l.is(ares.Retrying)
			l.ok(l.stop(ares.StopCancel))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := live(t, ares.Spec{})
			play(l)
			l.is(ares.Cancelled)
			l.unchanged(ares.Conflict, func() error { return l.stop(ares.StopCancel) })
			l.unchanged(ares.Conflict, func() error { return l.run.Place(nil, 0, l.now) })
		})
	}
}

// TestOtherStops checks the phase of a job after a preemption and after a drain.
func TestOtherStops(t *testing.T) {
	l := live(t, ares.Spec{})
	l.unchanged(ares.Conflict, func() error { return l.stop(ares.StopPreempt) })
	f := l.place()
	l.claim(f)
	l.ok(l.stop(ares.StopPreempt))
	l.ok(l.finish(f, 0, ares.OutcomeFailed)) // many programs exit with 1 on SIGTERM
	l.is(ares.Preempted)
	l.ok(l.run.Release(f, 0))
	l.ok(l.run.Ready(l.now))
	f = l.place()
	l.claim(f)
	l.ok(l.stop(ares.StopDrain))
	l.ok(l.finish(f, 0, ares.OutcomeStopped))
	l.is(ares.Pending)
	l.ok(l.run.Release(f, 0))
	f = l.place()
	l.claim(f)
	l.ok(l.stop(ares.StopPreempt))
	l.ok(l.finish(f, 0, ares.OutcomeSucceeded)) // the process ended before the stop arrived
	l.is(ares.Succeeded)
	if l.run.Retries != 0 {
		t.Errorf("%d retries used", l.run.Retries)
	}
}

// TestFixImage checks that the first digest counts for all ranks and attempts, and that a job without an image has none.
func TestFixImage(t *testing.T) {
	var r ares.Run
	r.FixImage(&ares.Job{Spec: ares.Spec{Image: "app:latest"}}, "")
	r.FixImage(&ares.Job{Spec: ares.Spec{Image: "app:latest"}}, "sha256:1")
	r.FixImage(&ares.Job{Spec: ares.Spec{Image: "app:latest"}}, "sha256:2")
	if r.ImageDigest != "sha256:1" {
		t.Errorf("the digest is %q", r.ImageDigest)
	}
	var plain ares.Run
	if plain.FixImage(&ares.Job{}, "sha256:1"); plain.ImageDigest != "" {
		t.Errorf("a job without an image has the digest %q", plain.ImageDigest)
	}
}
