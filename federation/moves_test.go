package federation_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// retried makes a job with enough retries, and with a delay before the second one that is long enough to move the job meanwhile.
func retried(s *ares.Spec) {
	s.GPUs = 8
	s.Retry = ares.RetryPolicy{MaxRetries: new(5), InitialBackoffSeconds: 0.2, Multiplier: 20, MaxBackoffSeconds: 60}
}

// A try is one attempt of a job in a cluster.
type try struct {
	cluster    string
	token      int64
	began, end time.Time
}

// The method `tries` returns the attempts of a job that a cluster remembers.
func (m *member) tries(id ares.JobID) (out []try) {
	e := m.view.Job(id)
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		out = append(out, try{m.name, e.Run.FencingToken(e.Job, a), a.PlacedAt, a.EndedAt})
	}
	return out
}

// apart checks that no two attempts of a job ran at the same time (O7), and that the token of each is higher than those of the
// ones before (O9).
func apart(t *testing.T, tries []try) {
	t.Helper()
	slices.SortFunc(tries, func(a, b try) int { return cmp.Compare(a.token, b.token) })
	for i, now := range tries[1:] {
		if was := tries[i]; was.end.IsZero() || was.end.After(now.began) || now.token <= was.token {
			t.Errorf("the attempt %+v was placed before the end of %+v, or has no higher token", now, was)
		}
	}
}

// The method `try` waits until a job is placed, runs its only rank and ends it.
func (m *member) try(t *testing.T, id ares.JobID, outcome ares.Outcome) {
	t.Helper()
	controltest.Await(t, m.view, "job "+string(id)+" to be placed in "+m.name, func() bool {
		phase := controltest.PhaseOf(m.view, id)
		return phase == ares.Scheduled || phase == ares.Returned
	})
	if controltest.PhaseOf(m.view, id) == ares.Returned {
		t.Fatalf("cluster %s has returned job %s", m.name, id)
	}
	ref := m.seat(id)
	if err := m.s.Claim(t.Context(), ref, m.node.Session, time.Now()); err != nil {
		t.Fatal(err)
	}
	m.await(id, ares.Running)
	m.finishNow(t, id, outcome)
}

// finishNow ends the only rank of a job, and releases its seat.
func (m *member) finishNow(t *testing.T, id ares.JobID, outcome ares.Outcome) {
	t.Helper()
	ref := m.seat(id)
	if _, err := m.s.Finish(t.Context(), ref, storetest.Result(outcome), time.Now()); err != nil {
		t.Fatal(err)
	}
	storetest.Release(t, m.s, ref)
	controltest.Await(t, m.view, "the end of the attempt", func() bool { return m.view.Job(id).Run.Fence() != ref.Fence })
}

// TestMoveAfterFailures lets a job fail twice in one cluster. It must move to the other one, with its attempts, retries and usage, and
// must not come back when it fails there too.
func TestMoveAfterFailures(t *testing.T) { moveAfterFailures(t, newHub(t)) }

// TestMoveByChooser is TestMoveAfterFailures with a hub that chooses clusters by their summaries.
func TestMoveByChooser(t *testing.T) {
	moveAfterFailures(t, newHub(t, func(h *hub) { h.choosing = true }))
}

func moveAfterFailures(t *testing.T, h *hub) {
	t.Helper()
	a := newIdleMember(t, h, "a")
	id := h.submit(retried, func(s *ares.Spec) { s.MaxQueueMinutes = 1 })
	a.try(t, id, ares.OutcomeFailed)
	first := h.view.Job(id).Run.Epoch
	b := newIdleMember(t, h, "b")
	h.awaitKnown("b")
	a.try(t, id, ares.OutcomeFailed)
	a.await(id, ares.Returned)
	b.await(id, ares.Scheduled)
	controltest.Await(t, h.view, "the job to be b's", func() bool { e := h.view.Job(id); return e.Run.Cluster == "b" && e.Run.Placed == 3 })
	there := b.view.Job(id)
	if r := there.Job.Retry.MaxRetries; r == nil || *r != 3 || there.Job.MaxQueueMinutes != 0 {
		t.Errorf("after 2 of 5 retries, the job has the retries %v and the queue timeout %d", r, there.Job.MaxQueueMinutes)
	}
	for range 2 { // a had it lately, so it is tried again here
		b.try(t, id, ares.OutcomeFailed)
	}
	b.try(t, id, ares.OutcomeSucceeded)
	e := h.await(id, ares.Succeeded)
	if r := &e.Run; r.Cluster != "b" || r.Epoch <= first || r.Placed != 5 || r.Retries != 4 || r.Last().Number != 5 || len(r.Attempts) != 5 || len(r.DroppedUsage) > 0 {
		t.Errorf("the hub's run is %+v", r)
	}
	for i := range e.Run.Attempts {
		if at := &e.Run.Attempts[i]; at.Number != i+1 || at.Cluster != []string{"a", "a", "b", "b", "b"}[i] || !at.Free() {
			t.Errorf("attempt %d at the hub is %+v", i+1, at)
		}
	}
	if left := e.Run.Left; len(left) != 1 || left[0].Cluster != "a" || left[0].Times != 1 {
		t.Errorf("the clusters that gave the job back: %+v", left)
	}
	apart(t, append(a.tries(id), b.tries(id)...))
}

// TestLateJobMoves lets a cluster claim a job that it cannot start soon. The job stays there while no other cluster could run it, and
// moves when there is one.
func TestLateJobMoves(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a", func(m *member) { m.lateAfter = time.Millisecond })
	full := func(s *ares.Spec) { s.GPUs = 8 }
	running := h.submit(full)
	h.await(running, ares.Running)
	a.claimAll.Store(true)
	id := h.submit(full)
	first := a.grantNow(t, h, id)
	a.claimAll.Store(false)
	b := newMember(t, h, "b")
	close(b.gate)
	a.await(id, ares.Returned)
	if e := h.await(id, ares.Succeeded); e.Run.Cluster != "b" || e.Run.Epoch <= first || e.Run.Placed != 1 {
		t.Errorf("the job ran in %q with epoch %d after %d, %d times", e.Run.Cluster, e.Run.Epoch, first, e.Run.Placed)
	}
	close(a.gate)
	if e := h.await(running, ares.Succeeded); e.Run.Cluster != "a" || e.Run.Placed != 1 {
		t.Errorf("the running job ran in %q, %d times", e.Run.Cluster, e.Run.Placed)
	}
}

// TestDrainStops drains a cluster and stops its jobs. Those that may run elsewhere must run in the other cluster, without a retry; an
// at_most_once job must run to its end. The stopped job that is cancelled meanwhile must be cancelled.
func TestDrainStops(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	two := func(s *ares.Spec) { s.GPUs = 2 }
	once, moves, cancelled := h.submit(two, func(s *ares.Spec) { s.Mode = ares.AtMostOnce }), h.submit(two), h.submit(two)
	for _, id := range []ares.JobID{once, moves, cancelled} {
		a.await(id, ares.Scheduled)
		if err := a.s.Claim(t.Context(), a.seat(id), a.node.Session, time.Now()); err != nil {
			t.Fatal(err)
		}
		h.await(id, ares.Running)
	}
	first := h.view.Job(moves).Run.Epoch
	b := newMember(t, h, "b")
	h.awaitKnown("b")
	h.drain("a", true)
	for _, id := range []ares.JobID{moves, cancelled} {
		a.awaitStop(id)
	}
	if e := a.view.Job(once); e.Run.Stop != nil {
		t.Errorf("an at_most_once job is stopped: %+v", e.Run.Stop)
	}
	h.cancel(cancelled)
	controltest.Await(t, a.view, "the cancellation", func() bool { return a.view.Job(cancelled).Run.Stop.Why == ares.StopCancel })
	a.finishNow(t, cancelled, ares.OutcomeStopped)
	h.await(cancelled, ares.Cancelled)
	ref := a.seat(moves)
	if _, err := a.s.Finish(t.Context(), ref, storetest.Result(ares.OutcomeStopped), time.Now()); err != nil {
		t.Fatal(err)
	}
	// Its seat is not released: a process may be alive.
	controltest.Await(t, h.view, "the end of the attempt at the hub", func() bool {
		e := h.view.Job(moves)
		return e.Run.Phase == ares.Pending || e.Run.Cluster != "a"
	})
	if e := h.view.Job(moves); e.Run.Cluster != "a" || e.Run.Epoch != first {
		t.Errorf("the job was returned while a process may be alive: %+v", e.Run)
	}
	storetest.Release(t, a.s, ref)
	a.await(moves, ares.Returned)
	close(b.gate)
	e := h.await(moves, ares.Succeeded)
	if r := &e.Run; r.Cluster != "b" || r.Epoch <= first || r.Placed != 2 || r.Retries != 0 || len(r.Left) != 0 {
		t.Errorf("the hub's run is %+v", r)
	}
	apart(t, append(a.tries(moves), b.tries(moves)...))
	a.finishNow(t, once, ares.OutcomeSucceeded)
	if e := h.await(once, ares.Succeeded); e.Run.Cluster != "a" || e.Run.Placed != 1 {
		t.Errorf("the at_most_once job ran in %q, %d times", e.Run.Cluster, e.Run.Placed)
	}
}

// TestDrainStopsWhatStarts begins to drain a cluster before the hub knows that a job there was started: the job is stopped and
// returned as well.
func TestDrainStopsWhatStarts(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	id := h.submit()
	a.await(id, ares.Scheduled)
	h.drain("a", true)
	a.awaitStop(id)
	if err := a.s.Decline(t.Context(), a.seat(id), a.node.Session, time.Now()); err != nil {
		t.Fatal(err)
	}
	a.await(id, ares.Returned)
	b := newMember(t, h, "b")
	close(b.gate)
	if e := h.await(id, ares.Succeeded); e.Run.Cluster != "b" || e.Run.Placed != 2 {
		t.Errorf("the job ran in %q, %d times", e.Run.Cluster, e.Run.Placed)
	}
}

// The method `drain` writes what `ares cluster drain` writes.
func (h *hub) drain(cluster string, stop bool) {
	h.t.Helper()
	if _, err := h.s.UpdateCluster(h.t.Context(), cluster, func(c *store.Cluster) error {
		c.Decided, c.Stops = store.ClusterDraining, stop
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}
