package ares_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestGivesWay: the reckoning goes with the stop into the attempt, and the job
// waits again without having used a retry.
func TestGivesWay(t *testing.T) {
	l := live(t, ares.Spec{})
	f := l.place()
	l.claim(f)
	saved := l.now.Add(time.Minute)
	l.ok(l.run.Checkpointed(f, saved))
	l.ok(l.run.Checkpointed(f, l.now)) // an older word changes nothing
	l.unchanged(ares.Fenced, func() error { return l.run.Checkpointed(f+1, saved) })
	if got := l.run.Current().Kept(); !got.Equal(saved) {
		t.Errorf("its progress is kept until %s, want %s", got, saved)
	}
	yield := ares.Preemption{To: "urgent", Tenant: "b", Why: ares.PreemptByClass, Milli: 1000, Lost: 60_000, Asked: 1000}
	l.ok(l.run.RequestStop(ares.Stop{Why: ares.StopPreempt, By: "job urgent", At: l.now, Yield: &yield}))
	l.now = saved.Add(time.Minute) // it still ran for a minute
	l.ok(l.finish(f, 0, ares.OutcomeStopped))
	l.is(ares.Preempted)
	if a := l.run.Last(); a.Yield == nil || *a.Yield != yield || l.run.Yields != 1 || l.run.Retries != 0 {
		t.Errorf("after it gave way: %+v, %d yields, %d retries", a.Yield, l.run.Yields, l.run.Retries)
	}
	l.unchanged(ares.Fenced, func() error { return l.run.Checkpointed(f, saved) })
}

// TestLostWhileGivingWay: who is lost before it has stopped gave way all the same,
// and it is known to whom.
func TestLostWhileGivingWay(t *testing.T) {
	l := live(t, ares.Spec{})
	f := l.place()
	l.claim(f)
	yield := ares.Preemption{To: "urgent", Tenant: "b", Why: ares.PreemptByClass, Milli: 1000, Asked: 1000}
	l.ok(l.run.RequestStop(ares.Stop{Why: ares.StopPreempt, By: "job urgent", At: l.now, Yield: &yield}))
	l.ok(l.finish(f, 0, ares.OutcomeLost))
	l.is(ares.Pending)
	if a := l.run.Last(); a.Yield == nil || a.Yield.To != "urgent" || l.run.Yields != 1 || l.run.Losses != 1 {
		t.Errorf("after it was lost: %+v, %d yields, %d losses", a.Yield, l.run.Yields, l.run.Losses)
	}
}

// TestNominated: seats are kept for a waiting job alone, and no longer than it
// waits.
func TestNominated(t *testing.T) {
	l := live(t, ares.Spec{})
	keep := ares.Nomination{Seats: []ares.Seat{{Node: "n0"}}, Why: ares.PreemptByQuota, At: l.now, Until: l.now.Add(time.Minute)}
	l.unchanged(ares.Conflict, func() error { return l.run.Withdraw("nothing is kept", l.now) })
	l.ok(l.run.Nominate(keep))
	l.ok(l.run.Withdraw("its node is gone", l.now))
	if l.run.Nominated != nil {
		t.Error("seats are kept that were given up")
	}
	l.ok(l.run.Nominate(keep))
	copied := l.run.Clone()
	copied.Nominated.Until = time.Time{}
	if l.run.Nominated.Until.IsZero() {
		t.Error("a copy of the run shares its nomination")
	}
	f := l.place()
	if l.run.Nominated != nil {
		t.Error("a placed job still has seats kept for it")
	}
	l.unchanged(ares.Conflict, func() error { return l.run.Nominate(keep) })
	l.claim(f)
	l.unchanged(ares.Conflict, func() error { return l.run.Nominate(keep) })

	waits := live(t, ares.Spec{})
	waits.ok(waits.run.Nominate(keep))
	waits.ok(waits.stop(ares.StopCancel))
	waits.is(ares.Cancelled)
	if waits.run.Nominated != nil {
		t.Error("a cancelled job still has seats kept for it")
	}
}
