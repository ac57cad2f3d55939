package storetest

import (
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var gangLaws = []law{
	{"AGangRunsWhenAllHaveClaimed", gangRuns},
	{"AFailureStopsTheOthers", gangFails},
	{"ALostRankIsReported", gangLost},
	{"RanksMayEndTogether", gangFinishTogether},
	{"RanksMayClaimTogether", gangClaimTogether},
	{"PartOfAGangMayBeDeclined", gangDeclined},
}

func gangRuns(t *testing.T, s *store.Store) {
	st := newStage(t, s, 3)
	for i := range st.seats {
		phase(t, s, st.job.ID, ares.Scheduled)
		Claim(t, s, st.seats[i:i+1], st.nodes[i])
	}
	phase(t, s, st.job.ID, ares.Running)
	for i, ref := range st.seats {
		run := Finish(t, s, ref, ares.OutcomeSucceeded)
		if done := i == len(st.seats)-1; (run.Phase == ares.Succeeded) != done || (run.Current() == nil) != done {
			t.Errorf("rank %d ended: the job is %s", i, run.Phase)
		}
	}
	if run := phase(t, s, st.job.ID, ares.Succeeded); run.Free() || run.Settled() {
		t.Error("no seat was released yet")
	}
	Release(t, s, st.seats[0], st.seats[1])
	if run := Get(t, s, st.job.ID).Run; run.Free() {
		t.Error("one seat is still held")
	}
	Release(t, s, st.seats[2])
	if run := Get(t, s, st.job.ID).Run; !run.Free() {
		t.Error("every seat is released")
	}
}

func gangFails(t *testing.T, s *store.Store) {
	st := newStage(t, s, 3)
	st.claim(t, s)
	run := Finish(t, s, st.seats[1], ares.OutcomeFailed)
	if run.Phase != ares.Running || run.Stop == nil || run.Stop.Why != ares.StopMember {
		t.Fatalf("one rank failed: %s, stop %+v", run.Phase, run.Stop)
	}
	Finish(t, s, st.seats[0], ares.OutcomeStopped)
	run = Finish(t, s, st.seats[2], ares.OutcomeStopped)
	if run.Phase != ares.Retrying || run.Retries != 1 || run.Stop != nil || run.Attempts[0].Outcome != ares.OutcomeFailed {
		t.Errorf("every rank ended: %+v", run)
	}
}

// gangLost checks rule R1. If a claimed seat has no process, the agent reports the rank as lost.
// That loss does not count against the job's retry limit.
func gangLost(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2)
	st.claim(t, s)
	run := Finish(t, s, st.seats[0], ares.OutcomeLost)
	if run.Stop == nil || run.Stop.Why != ares.StopLost || run.Phase != ares.Running {
		t.Fatalf("one rank was lost: %s, stop %+v", run.Phase, run.Stop)
	}
	run = Finish(t, s, st.seats[1], ares.OutcomeStopped)
	if run.Phase != ares.Pending || run.Retries != 0 || run.Losses != 1 || run.Stop != nil {
		t.Errorf("every rank ended: %+v", run)
	}
	if left := Records(t, s, "leases/"+string(st.job.ID)); len(left) > 0 {
		t.Errorf("the attempt left %+v", left)
	}
}

func gangFinishTogether(t *testing.T, s *store.Store) {
	st := newStage(t, s, 8)
	st.claim(t, s)
	runs := make([]ares.Run, len(st.seats))
	errs := make([]error, len(st.seats))
	var wg sync.WaitGroup
	for i, ref := range st.seats {
		wg.Go(func() { runs[i], errs[i] = s.Finish(t.Context(), ref, Result(ares.OutcomeSucceeded), Noon) })
	}
	wg.Wait()
	final := 0
	for i := range runs {
		if errs[i] != nil {
			t.Errorf("rank %d: %v", i, errs[i])
		}
		if runs[i].Phase == ares.Succeeded {
			final++
		}
	}
	if final != 1 {
		t.Errorf("%d reports made the job final, want exactly one", final)
	}
	run := phase(t, s, st.job.ID, ares.Succeeded)
	ends := 0
	for _, tr := range run.Transitions {
		if tr.Phase.Final() {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("the job ended %d times: %+v", ends, run.Transitions)
	}
}

func gangClaimTogether(t *testing.T, s *store.Store) {
	st := newStage(t, s, 8)
	var wg sync.WaitGroup
	for i, ref := range st.seats {
		wg.Go(func() {
			if err := s.Claim(t.Context(), ref, st.nodes[i].Session, Noon); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	phase(t, s, st.job.ID, ares.Running)
	if claims := Records(t, s, "leases/"+string(st.job.ID)+"/"); len(claims) != len(st.seats) {
		t.Errorf("%d claims of %d ranks", len(claims), len(st.seats))
	}
}

func gangDeclined(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2)
	Claim(t, s, st.seats[:1], st.nodes[0])
	st.cancel(t, s)
	if err := s.Decline(t.Context(), st.seats[1], st.nodes[1].Session, Noon); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, st.job.ID, ares.Scheduled)
	if run.Attempts[0].Seats[1].State != ares.SeatReleased {
		t.Errorf("declined: the seat is %s", run.Attempts[0].Seats[1].State)
	}
	run = Finish(t, s, st.seats[0], ares.OutcomeStopped)
	if run.Phase != ares.Cancelled {
		t.Errorf("both ended: %s", run.Phase)
	}
}
