package ares_test

import (
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func drainOf(node string, force bool) *ares.Cordon {
	return &ares.Cordon{Node: node, By: "ops", Drain: true, Force: force}
}

// TestDrainMovesAJob checks that a drained job waits for another allocation, and that the drain does not count
// against the job's retry limit.
func TestDrainMovesAJob(t *testing.T) {
	l := live(t, ares.Spec{Members: 2})
	if l.run.Drain(l.job, drainOf("n0", true), l.now) {
		t.Error("a job without an attempt was asked to end")
	}
	f := l.place()
	l.claim(f)
	if l.run.Drain(l.job, drainOf("elsewhere", true), l.now) || l.run.Drain(l.job, &ares.Cordon{Node: "n1", By: "ops"}, l.now) {
		t.Error("asked to end for another node, or for a cordon without a drain")
	}
	if !l.run.Drain(l.job, drainOf("n1", false), l.now) || l.run.Stop == nil || l.run.Stop.Why != ares.StopDrain {
		t.Fatalf("not asked to end: %+v", l.run.Stop)
	}
	if l.run.Drain(l.job, drainOf("n0", false), l.now) {
		t.Error("asked twice")
	}
	for rank := range 2 {
		l.ok(l.finish(f, rank, ares.OutcomeStopped))
		l.ok(l.run.Release(f, rank))
	}
	l.is(ares.Pending)
	if l.run.Retries != 0 || l.run.Losses != 0 || !strings.Contains(l.run.Reason, "drained by ops") {
		t.Errorf("%+v", l.run)
	}
	l.place()
}

// TestDrainOfAGangThatFalls checks that a gang is moved when one rank fails because a drain stopped
// another rank. The test also checks that a job with a single rank counts as failed if it fails
// while it is being drained.
func TestDrainOfAGangThatFalls(t *testing.T) {
	for members, want := range map[int]ares.Phase{1: ares.Retrying, 2: ares.Pending} {
		l := live(t, ares.Spec{Members: members})
		f := l.place()
		l.claim(f)
		l.run.Drain(l.job, drainOf("n0", false), l.now)
		for rank := range members - 1 {
			l.ok(l.finish(f, rank, ares.OutcomeStopped))
		}
		l.ok(l.finish(f, members-1, ares.OutcomeFailed))
		l.is(want)
		if used := l.run.Retries == 1; used != (members == 1) {
			t.Errorf("%d members: %d retries used", members, l.run.Retries)
		}
	}
}

// TestDrainLeavesOthersAlone checks a job with a rank that has already ended on the drained node. The other ranks
// of this job must not be stopped.
func TestDrainLeavesOthersAlone(t *testing.T) {
	l := live(t, ares.Spec{Members: 2})
	f := l.place()
	l.claim(f)
	l.ok(l.finish(f, 0, ares.OutcomeSucceeded))
	if l.run.Drain(l.job, drainOf("n0", true), l.now) {
		t.Error("nothing of it lives on n0")
	}
	l.ok(l.finish(f, 1, ares.OutcomeSucceeded))
	l.is(ares.Succeeded)
}

// TestDrainAndAtMostOnce checks that a drain leaves an at_most_once job alone once it may have started. If an at_most_once job has
// started, a forced drain ends it as lost. Before the first claim, a drain moves an at_most_once job like any other job.
func TestDrainAndAtMostOnce(t *testing.T) {
	l := live(t, ares.Spec{Members: 2, Mode: ares.AtMostOnce})
	f := l.place()
	if l.run.MustFinish(l.job) || !l.run.Drain(l.job, drainOf("n0", false), l.now) {
		t.Error("nothing of it has begun, yet it was left")
	}
	l.unchanged(ares.Fenced, func() error { return l.run.Claim(l.job, f, 0, "n0", l.now) })
	l.ok(l.run.Decline(l.job, f, 0, l.now))
	l.ok(l.run.Decline(l.job, f, 1, l.now))
	l.is(ares.Pending)

	f = l.place()
	l.ok(l.run.Claim(l.job, f, 1, "n1", l.now)) // one claimed rank is enough for a process to have started
	if !l.run.MustFinish(l.job) || l.run.Drain(l.job, drainOf("n0", false), l.now) {
		t.Error("it may have begun, yet it was asked to end")
	}
	if !l.run.Drain(l.job, drainOf("n0", true), l.now) {
		t.Error("force has no effect")
	}
	l.ok(l.run.Decline(l.job, f, 0, l.now))
	l.ok(l.finish(f, 1, ares.OutcomeStopped))
	l.is(ares.Lost)
	if !strings.Contains(l.run.Reason, "at_most_once jobs are not run again") {
		t.Errorf("the reason is %q", l.run.Reason)
	}
}

func TestTaints(t *testing.T) {
	for text, want := range map[string]string{
		"lab":                       "lab:NoSchedule",
		"lab=a b":                   "lab=a b:NoSchedule",
		" team = ml : NoSchedule ":  "team=ml:NoSchedule",
		"hot:PreferNoSchedule":      "hot:PreferNoSchedule",
		"":                          "",
		"=v:NoSchedule":             "",
		"a:NoExecute":               "",
		"a=b:c:NoSchedule":          "",
		"*":                         "",
		"a b=c":                     "",
		strings.Repeat("k", 10_000): "",
		"k=" + strings.Repeat("v", 10_000) + ":NoSchedule": "",
	} {
		got, err := ares.ParseTaint(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%.40q: %v, %v", text, got, err)
		}
		if again, err := ares.ParseTaint(want); want != "" && (err != nil || again != got) {
			t.Errorf("%q reads as %v: %v", want, again, err)
		}
	}
}
