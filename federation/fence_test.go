package federation_test

import (
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// fenced makes a job with on_partition: fence and a short time, which only a test can use.
func fenced(s *ares.Spec) {
	s.GraceSeconds, s.LostAfterSeconds = new(0), 1
	p := s.EditPlacement()
	p.OnPartition, p.ClusterLostAfterSeconds = ares.PartitionFence, 3
}

// TestFence cuts the link of a cluster with two fenced jobs, one of which runs, and a job that stays. The cluster must stop
// the fenced jobs before the hub gives them to another cluster. When it is back, it must not run them again.
func TestFence(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	large := func(s *ares.Spec) { s.GPUs = 7 }
	running, stays := h.submit(fenced, large), h.submit()
	for _, id := range []ares.JobID{running, stays} {
		a.claimSeat(t, id)
		h.await(id, ares.Running)
	}
	a.claimAll.Store(true)
	waiting := h.submit(fenced, large)
	a.grantNow(t, h, waiting)
	b := newMember(t, h, "b")
	close(b.gate)
	h.awaitKnown("b")
	a.wire.set(true)
	a.awaitStop(running)
	controltest.Await(t, a.view, "the waiting job to be suspended", func() bool { return a.view.Job(waiting).Run.Unconfirmed })
	if e := h.view.Job(running); e.Run.Cluster != "a" {
		t.Errorf("the hub took the job before its owner stopped it: %+v", e.Run)
	}
	a.finishSeat(t, running, ares.OutcomeStopped)
	a.await(running, ares.Pending)
	for _, id := range []ares.JobID{running, waiting} {
		if e := h.await(id, ares.Succeeded); e.Run.Cluster != "b" {
			t.Errorf("job %s ended in %q", id, e.Run.Cluster)
		}
	}
	a.await(stays, ares.Running)
	a.wire.set(false)
	for _, id := range []ares.JobID{running, waiting} {
		a.await(id, ares.Returned)
	}
	a.finishSeat(t, stays, ares.OutcomeSucceeded)
	h.await(stays, ares.Succeeded)
}

// TestSuspendedAndBack cuts the link for so long that a fenced job is suspended, but the hub does not take it. The job must
// go on in its cluster.
func TestSuspendedAndBack(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	long := func(s *ares.Spec) { s.EditPlacement().ClusterLostAfterSeconds = 12 }
	id := h.submit(fenced, long)
	a.claimSeat(t, id)
	first := h.await(id, ares.Running).Run.Epoch
	a.wire.set(true)
	a.awaitStop(id)
	a.finishSeat(t, id, ares.OutcomeStopped)
	a.await(id, ares.Pending)
	a.wire.set(false)
	a.claimSeat(t, id)
	a.finishSeat(t, id, ares.OutcomeSucceeded)
	if e := h.await(id, ares.Succeeded); e.Run.Cluster != "a" || e.Run.Epoch != first || e.Run.Placed != 2 {
		t.Errorf("%+v", e.Run)
	}
}

// TestFenceAfterSuspend lets the machine of a cluster's server sleep for an hour while its link is cut. When it wakes up, it must stop
// its fenced job at once, and not run it again before the hub has confirmed it.
func TestFenceAfterSuspend(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	id := h.submit(fenced, func(s *ares.Spec) { s.EditPlacement().ClusterLostAfterSeconds = 3600 })
	a.claimSeat(t, id)
	first := h.await(id, ares.Running).Run.Epoch
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	if e := a.view.Job(id); e.Run.Stop != nil {
		t.Fatalf("the job is stopped: %+v", e.Run.Stop)
	}
	a.ahead.Add(int64(time.Hour))
	from := a.readings.Load()
	controltest.Await(t, a.view, "the uplink to look at the clock", func() bool { return a.readings.Load() > from+2 })
	controltest.CaughtUp(t, a.s, a.view)
	if e := a.view.Job(id); e.Run.Stop == nil {
		t.Fatal("after an hour, the job is not stopped")
	}
	a.finishSeat(t, id, ares.OutcomeStopped)
	a.await(id, ares.Pending)
	a.wire.set(false)
	a.claimSeat(t, id)
	a.finishSeat(t, id, ares.OutcomeSucceeded)
	if e := h.await(id, ares.Succeeded); e.Run.Cluster != "a" || e.Run.Epoch != first || e.Run.Placed != 2 {
		t.Errorf("%+v", e.Run)
	}
}

// TestLateAnswers lets the clock of a cluster's server jump between each heartbeat and its answer, as if the machine were suspended
// then. The hub may have taken the fenced job since it sent the answer, so the cluster must not run the job again.
func TestLateAnswers(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	id := h.submit(fenced, func(s *ares.Spec) { s.EditPlacement().ClusterLostAfterSeconds = 3600 })
	a.claimSeat(t, id)
	h.await(id, ares.Running)
	a.leap.Store(int64(time.Hour))
	a.awaitStop(id)
	from := a.readings.Load()
	const several = 200 // of each, sessions, heartbeats and answers
	controltest.Await(t, a.view, "several answers", func() bool { return a.readings.Load() > from+several })
	if e := a.view.Job(id); !e.Run.Unconfirmed || slices.ContainsFunc(e.Run.Transitions, func(t ares.Transition) bool { return t.Message == "confirmed by the hub" }) {
		t.Errorf("a late answer has confirmed the job: %+v", e.Run.Transitions)
	}
	a.finishSeat(t, id, ares.OutcomeStopped)
	a.leap.Store(0)
	a.claimSeat(t, id)
	a.finishSeat(t, id, ares.OutcomeSucceeded)
	if e := h.await(id, ares.Succeeded); e.Run.Cluster != "a" || e.Run.Placed != 2 {
		t.Errorf("%+v", e.Run)
	}
}

// claimSeat waits until a job is placed and claims its seat, as an agent does.
func (m *member) claimSeat(t *testing.T, id ares.JobID) {
	t.Helper()
	m.await(id, ares.Scheduled)
	storetest.Claim(t, m.s, []store.SeatRef{m.seat(id)}, m.node)
}

// finishSeat ends the only rank of a job, and releases its seat.
func (m *member) finishSeat(t *testing.T, id ares.JobID, outcome ares.Outcome) {
	t.Helper()
	ref := m.seat(id)
	storetest.Finish(t, m.s, ref, outcome)
	storetest.Release(t, m.s, ref)
}

func (m *member) seat(id ares.JobID) store.SeatRef {
	return store.SeatRef{Job: id, Fence: m.view.Job(id).Run.Fence(), Node: m.node.ID}
}
