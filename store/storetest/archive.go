package storetest

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var archiveLaws = []law{
	{"ATombstoneIsFound", archiveFound},
	{"OnlyAFreeAndFinalJobIsArchived", archiveRefuses},
	{"AForgottenRequestMayBeUsedAnew", archiveForget},
}

func archiveFound(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	ask := JobOf(tenant, Sleep())
	create(t, s, ask)
	archiveCancelled(t, s, ask.Job)
	snap := Get(t, s, ask.Job.ID)
	if snap.Job != nil || snap.Tombstone == nil || snap.Tombstone.Phase != ares.Cancelled ||
		snap.Tombstone.Digest != ask.Job.Digest || !snap.Tombstone.EndedAt.Equal(Noon) {
		t.Fatalf("got %+v, tombstone %+v", snap, snap.Tombstone)
	}
	if left := Records(t, s, "runs/"+string(ask.Job.ID)); len(left) > 0 {
		t.Errorf("the archived job left %+v", left)
	}
	got := create(t, s, ask)[0]
	if got.Err != nil || !got.Duplicate || got.Phase != ares.Cancelled {
		t.Errorf("a late repetition: %+v", got)
	}
	other := Sleep()
	other.RequestID, other.GPUs = ask.Job.RequestID, 7
	refused(t, create(t, s, JobOf(tenant, other))[0].Err, ares.Conflict, "request_id")
	_, err := s.Finish(t.Context(), store.SeatRef{Job: ask.Job.ID, Fence: 1}, Result(ares.OutcomeSucceeded), Noon)
	refused(t, err, ares.Conflict, "cancelled")
}

func archiveRefuses(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	archive := func() error {
		run := Get(t, s, st.job.ID).Run
		return s.Archive(t.Context(), st.job, &run, nil)
	}
	refused(t, archive(), ares.Conflict, "scheduled")
	st.claim(t, s)
	refused(t, archive(), ares.Conflict, "running")
	Finish(t, s, st.seats[0], ares.OutcomeSucceeded)
	refused(t, archive(), ares.Conflict, "cannot be archived")
	old := Get(t, s, st.job.ID).Run
	Release(t, s, st.seats...)
	// The store rejects a state that was read before the release, because its
	// revision is outdated.
	for i := range old.Attempts {
		for k := range old.Attempts[i].Seats {
			old.Attempts[i].Seats[k].State = ares.SeatReleased
		}
	}
	refused(t, s.Archive(t.Context(), st.job, &old, nil), ares.Conflict, "changed")
	// A server that is no longer the leader cannot archive.
	run := Get(t, s, st.job.ID).Run
	refused(t, s.Archive(t.Context(), st.job, &run, &store.Leadership{Revision: 1}), ares.Conflict, "no longer the leader")
	if err := archive(); err != nil {
		t.Fatal(err)
	}
}

func archiveForget(t *testing.T, s *store.Store) {
	// The jobs of this test ended long before the jobs of any other test.
	long := Noon.Add(-1000 * time.Hour)
	tenant := NewTenant(t, s)
	var asks []store.Creation
	for range 3 {
		ask := JobOf(tenant, Sleep())
		asks = append(asks, ask)
		create(t, s, ask)
		run, err := s.RequestStop(t.Context(), ask.Job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: long})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Archive(t.Context(), ask.Job, &run, nil); err != nil {
			t.Fatal(err)
		}
	}
	live := JobOf(tenant, Sleep())
	create(t, s, live)
	for i, want := range []int{0, 3, 0} {
		before := long.Add(time.Duration(i) * time.Second)
		if n, err := s.Forget(t.Context(), before, nil); err != nil || n != want {
			t.Errorf("forgot %d before %v, want %d, %v", n, before, want, err)
		}
	}
	Get(t, s, live.Job.ID)
	other := Sleep()
	other.RequestID, other.GPUs = asks[0].Job.RequestID, 7
	got := create(t, s, JobOf(tenant, other), asks[1])
	if got[0].Err != nil || got[0].Duplicate || got[1].Err != nil || got[1].Duplicate {
		t.Errorf("a forgotten request used anew: %+v", got)
	}
}
