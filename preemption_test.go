package ares_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestGivesWay checks that the cost of a preemption is stored with the stop intent and then with the attempt. The
// preempted job must wait again. The preemption must not count against the job's retry limit.
func TestGivesWay(t *testing.T) {
	l := live(t, ares.Spec{})
	f := l.place()
	l.claim(f)
	saved := l.now.Add(time.Minute)
	l.ok(l.run.Checkpointed(f, saved))
	l.ok(l.run.Checkpointed(f, l.now)) // an older checkpoint changes nothing
	l.unchanged(ares.Fenced, func() error { return l.run.Checkpointed(f+1, saved) })
	if got := l.run.Current().SavedUntil(); !got.Equal(saved) {
		t.Errorf("its progress is kept until %s, want %s", got, saved)
	}
	yield := ares.Preemption{To: "urgent", Tenant: "b", Why: ares.PreemptByClass, Milli: 1000, Lost: 60_000, Asked: 1000}
	l.ok(l.run.RequestStop(ares.Stop{Why: ares.StopPreempt, By: "job urgent", At: l.now, Preemption: &yield}))
	l.now = saved.Add(time.Minute) // the job still ran for a minute after its checkpoint
	l.ok(l.finish(f, 0, ares.OutcomeStopped))
	l.is(ares.Preempted)
	if a := l.run.Last(); a.Preemption == nil || *a.Preemption != yield || l.run.Preemptions != 1 || l.run.Retries != 0 {
		t.Errorf("after the preemption: %+v, %d preemptions, %d retries", a.Preemption, l.run.Preemptions, l.run.Retries)
	}
	l.unchanged(ares.Fenced, func() error { return l.run.Checkpointed(f, saved) })
}

// In TestLostWhileGivingWay, a job is lost while it is being preempted. It must still count as preempted, and its
// preemptor must be recorded.
func TestLostWhileGivingWay(t *testing.T) {
	l := live(t, ares.Spec{})
	f := l.place()
	l.claim(f)
	yield := ares.Preemption{To: "urgent", Tenant: "b", Why: ares.PreemptByClass, Milli: 1000, Asked: 1000}
	l.ok(l.run.RequestStop(ares.Stop{Why: ares.StopPreempt, By: "job urgent", At: l.now, Preemption: &yield}))
	l.ok(l.finish(f, 0, ares.OutcomeLost))
	l.is(ares.Pending)
	if a := l.run.Last(); a.Preemption == nil || a.Preemption.To != "urgent" || l.run.Preemptions != 1 || l.run.Losses != 1 {
		t.Errorf("after it was lost: %+v, %d yields, %d losses", a.Preemption, l.run.Preemptions, l.run.Losses)
	}
}

// TestNominated checks that only a waiting job can have a nomination. The nomination must end when the job no longer
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
