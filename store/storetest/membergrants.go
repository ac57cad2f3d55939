package storetest

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var memberLaws = []law{
	{"AGrantedJobIsCreatedOnce", acceptOnce},
	{"AnIDOfAnotherOriginIsTaken", acceptTaken},
	{"AGrantNeedsItsTenant", acceptTenant},
	{"AReturnedJobKeepsItsFloor", returnFloor},
	{"AReturnCompetesWithAStart", returnRace},
	{"AStoppedJobIsReturned", returnStopped},
	{"AJobComesBackUnderAHigherGrant", acceptAgain},
	{"AnArchivedGrantIsReportedFromItsFloor", archiveGranted},
	{"ADroppedJobIsNotReported", dropGranted},
	{"AClaimIsRecorded", claimRecord},
	{"AMembershipIsOneRecord", membership},
}

// accept accepts a granted job and checks the answer.
func accept(t *testing.T, s *store.Store, job *ares.Job, want store.Accepted) {
	t.Helper()
	if got, err := s.Accept(t.Context(), job, Noon); err != nil || got != want {
		t.Fatalf("accept under the grant %d: %q, %v; want %q", job.Origin.Epoch, got, err, want)
	}
}

func floor(t *testing.T, s *store.Store, id ares.JobID) *store.Floor {
	t.Helper()
	f, err := s.Floor(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func acceptOnce(t *testing.T, s *store.Store) {
	job := Granted(t, s, 10)
	if err := s.RecordClaim(t.Context(), job.ID, 10, Noon); err != nil {
		t.Fatal(err)
	}
	accept(t, s, job, store.AcceptedNew)
	got := Get(t, s, job.ID)
	if got.Job.Origin == nil || *got.Job.Origin != *job.Origin || got.Run.Phase != ares.Pending {
		t.Errorf("stored: %+v, %s", got.Job.Origin, got.Run.Phase)
	}
	if left := Records(t, s, "federation/claims/"+string(job.ID)); len(left) > 0 {
		t.Errorf("the claim is left: %v", left)
	}
	wroteNothing(t, s, "the same answer again", func() error { accept(t, s, job, store.AcceptedRepeated); return nil })
	wroteNothing(t, s, "an older answer", func() error { accept(t, s, GrantedAgain(job, 9), store.AcceptedIgnored); return nil })
	_, err := s.Accept(t.Context(), GrantedAgain(job, 11), Noon)
	refused(t, err, ares.Conflict, "must end first")
	lead, _ := NewLead(t, s)
	node := NewNode(t, s)
	seats := Place(t, s, lead, job, node) // it is an ordinary job
	Claim(t, s, seats, node)
	wroteNothing(t, s, "the same answer while it runs", func() error { accept(t, s, job, store.AcceptedRepeated); return nil })
	_, err = s.Accept(t.Context(), GrantedAgain(job, 11), Noon)
	refused(t, err, ares.Conflict, "must end first")
}

func acceptTaken(t *testing.T, s *store.Store) {
	local := NewJob(t, s)
	job := Granted(t, s, 10)
	job.ID, job.Tenant = local.ID, local.Tenant
	accept(t, s, job, store.AcceptedTaken)
	if f := floor(t, s, job.ID); f == nil || f.Outcome != store.GrantTaken || f.Epoch != 10 || f.Acknowledged {
		t.Errorf("the floor is %+v", f)
	}
	if got := Get(t, s, job.ID); got.Job.Origin != nil {
		t.Error("the local job was adopted")
	}
	wroteNothing(t, s, "the same answer again", func() error { accept(t, s, job, store.AcceptedIgnored); return nil })
	accept(t, s, GrantedAgain(job, 11), store.AcceptedTaken)
	other := Granted(t, s, 3)
	accept(t, s, other, store.AcceptedNew)
	other = GrantedAgain(other, 4)
	other.Origin.Hub = "another hub"
	accept(t, s, other, store.AcceptedTaken)
	// An archived local job is another job, too.
	run := Get(t, s, local.ID).Run
	if err := run.RequestStop(ares.Stop{Why: ares.StopCancel, By: "somebody", At: Noon}); err != nil {
		t.Fatal(err)
	}
	stopped, err := s.RequestStop(t.Context(), local.ID, ares.Stop{Why: ares.StopCancel, By: "somebody", At: Noon})
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Archive(t.Context(), local, &stopped, nil); err != nil {
		t.Fatal(err)
	}
	accept(t, s, GrantedAgain(job, 12), store.AcceptedTaken)
}

func acceptTenant(t *testing.T, s *store.Store) {
	job := Granted(t, s, 10)
	job.Tenant = Name("nobody")
	_, err := s.Accept(t.Context(), job, Noon)
	refused(t, err, ares.Conflict, "does not exist in this cluster")
	job = Granted(t, s, 10)
	job.Queue = "research"
	_, err = s.Accept(t.Context(), job, Noon)
	refused(t, err, ares.Conflict, "research")
	plain := Granted(t, s, 10)
	plain.Origin = nil
	_, err = s.Accept(t.Context(), plain, Noon)
	refused(t, err, ares.Invalid, "has no grant")
}

// returnStopped stops a running job to return it. It is not placed again, and the floor is written when it is returned.
func returnStopped(t *testing.T, s *store.Store) {
	job := Granted(t, s, 10)
	accept(t, s, job, store.AcceptedNew)
	err := s.StopToReturn(t.Context(), job.ID, 10, "drained", Noon)
	refused(t, err, ares.Conflict, "no attempt to stop")
	lead, _ := NewLead(t, s)
	node := NewNode(t, s)
	seats := Place(t, s, lead, job, node)
	Claim(t, s, seats, node)
	err = s.StopToReturn(t.Context(), job.ID, 9, "drained", Noon)
	refused(t, err, ares.Fenced, "does not hold")
	stop := func() error { return s.StopToReturn(t.Context(), job.ID, 10, "drained", Noon) }
	if err = stop(); err != nil {
		t.Fatal(err)
	}
	if run := Get(t, s, job.ID).Run; run.Stop == nil || run.Stop.Why != ares.StopDrain || run.Returning != "drained" {
		t.Errorf("the stopped run is %+v", run)
	}
	wroteNothing(t, s, "the same stop again", stop)
	_, err = s.Return(t.Context(), job.ID, 10, "drained", Noon)
	refused(t, err, ares.Conflict, "only a waiting job")
	Finish(t, s, seats[0], ares.OutcomeStopped)
	Release(t, s, seats...)
	if _, err = s.Return(t.Context(), job.ID, 10, "drained", Noon); err != nil {
		t.Fatal(err)
	}
	if f := floor(t, s, job.ID); f == nil || f.Epoch != 10 || f.Outcome != store.GrantReturned {
		t.Errorf("the floor is %+v", f)
	}
	wroteNothing(t, s, "a stop after the return", stop)
}

func returnFloor(t *testing.T, s *store.Store) {
	job := Granted(t, s, 10)
	accept(t, s, job, store.AcceptedNew)
	_, err := s.Return(t.Context(), job.ID, 9, "full", Noon)
	refused(t, err, ares.Fenced, "does not hold")
	run, err := s.Return(t.Context(), job.ID, 10, "full", Noon)
	if err != nil || run.Phase != ares.Returned {
		t.Fatalf("returned: %s, %v", run.Phase, err)
	}
	phase(t, s, job.ID, ares.Returned)
	if f := floor(t, s, job.ID); f == nil || f.Epoch != 10 || f.Outcome != store.GrantReturned || f.Acknowledged {
		t.Errorf("the floor is %+v", f)
	}
	wroteNothing(t, s, "the same return again", func() error {
		_, err := s.Return(t.Context(), job.ID, 10, "full", Noon)
		return err
	})
	wroteNothing(t, s, "a late answer to the claim", func() error { accept(t, s, job, store.AcceptedIgnored); return nil })
	if err = s.Acknowledge(t.Context(), *floor(t, s, job.ID)); err != nil {
		t.Fatal(err)
	}
	wroteNothing(t, s, "acknowledged again", func() error { return s.Acknowledge(t.Context(), *floor(t, s, job.ID)) })
	local := NewJob(t, s)
	_, err = s.Return(t.Context(), local.ID, 10, "full", Noon)
	refused(t, err, ares.Fenced, "does not hold")
}

// returnRace checks that a start which was decided before the return is not written, and the other way round.
func returnRace(t *testing.T, s *store.Store) {
	job, node := Granted(t, s, 10), NewNode(t, s)
	accept(t, s, job, store.AcceptedNew)
	lead, _ := NewLead(t, s)
	decided := Placing(t, s, job, node)
	if _, err := s.Return(t.Context(), job.ID, 10, "full", Noon); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{decided}); err != nil || len(dropped) != 1 {
		t.Errorf("a returned job was started: dropped %v, %v", dropped, err)
	}
	phase(t, s, job.ID, ares.Returned)
	second := Granted(t, s, 12)
	accept(t, s, second, store.AcceptedNew)
	seats := Place(t, s, lead, second, node)
	_, err := s.Return(t.Context(), second.ID, 12, "full", Noon)
	refused(t, err, ares.Conflict, "only a waiting job")
	Claim(t, s, seats, node)
	Finish(t, s, seats[0], ares.OutcomeFailed)
	_, err = s.Return(t.Context(), second.ID, 12, "full", Noon)
	refused(t, err, ares.Conflict, "may still be alive")
	Release(t, s, seats[0])
	if _, err = s.Return(t.Context(), second.ID, 12, "full", Noon); err != nil {
		t.Errorf("a job that waits for its retry cannot be returned: %v", err)
	}
}

func acceptAgain(t *testing.T, s *store.Store) {
	job := Granted(t, s, 10)
	accept(t, s, job, store.AcceptedNew)
	first := Get(t, s, job.ID).Job.Revision
	if _, err := s.Return(t.Context(), job.ID, 10, "full", Noon); err != nil {
		t.Fatal(err)
	}
	again := GrantedAgain(job, 20)
	accept(t, s, again, store.AcceptedNew)
	got := Get(t, s, job.ID)
	if got.Job.Origin.Epoch != 20 || got.Run.Phase != ares.Pending || got.Job.Revision <= first {
		t.Errorf("it came back as %+v, %s, revision %d after %d", got.Job.Origin, got.Run.Phase, got.Job.Revision, first)
	}
	wroteNothing(t, s, "the first answer again", func() error { accept(t, s, job, store.AcceptedIgnored); return nil })
	wroteNothing(t, s, "the second answer again", func() error { accept(t, s, again, store.AcceptedRepeated); return nil })
	lead, _ := NewLead(t, s)
	Place(t, s, lead, again, NewNode(t, s))
}

// endGranted runs a granted job until it has ended, and archives it.
func endGranted(t *testing.T, s *store.Store, job *ares.Job) {
	t.Helper()
	lead, resign := NewLead(t, s)
	node := NewNode(t, s)
	seats := Place(t, s, lead, job, node)
	Claim(t, s, seats, node)
	Finish(t, s, seats[0], ares.OutcomeSucceeded)
	Release(t, s, seats[0])
	resign()
}

func archiveGranted(t *testing.T, s *store.Store) {
	archive := func(job *ares.Job) {
		t.Helper()
		snap := Get(t, s, job.ID)
		if err := s.Archive(t.Context(), snap.Job, &snap.Run, nil); err != nil {
			t.Fatal(err)
		}
	}
	job := Granted(t, s, 10)
	accept(t, s, job, store.AcceptedNew)
	endGranted(t, s, job)
	archive(job)
	f := floor(t, s, job.ID)
	if f == nil || f.Outcome != store.GrantFinal || f.Acknowledged || f.Run == nil || f.Run.Phase != ares.Succeeded || f.Run.Placed != 1 {
		t.Fatalf("the floor is %+v", f)
	}
	wroteNothing(t, s, "a late answer to the claim", func() error { accept(t, s, job, store.AcceptedIgnored); return nil })
	lead, _ := NewLead(t, s)
	week := Noon.Add(8 * 24 * time.Hour)
	if _, err := s.Forget(t.Context(), week, lead); err != nil {
		t.Fatal(err)
	}
	if floor(t, s, job.ID) == nil {
		t.Fatal("a floor that the hub has not acknowledged was forgotten")
	}
	if err := s.Acknowledge(t.Context(), *f); err != nil {
		t.Fatal(err)
	}
	if f = floor(t, s, job.ID); f == nil || !f.Acknowledged || f.Run != nil {
		t.Fatalf("after the acknowledgement: %+v", f)
	}
	if _, err := s.Forget(t.Context(), Noon, lead); err != nil || floor(t, s, job.ID) == nil {
		t.Fatalf("a young floor was forgotten: %v", err)
	}
	if _, err := s.Forget(t.Context(), week, lead); err != nil || floor(t, s, job.ID) != nil {
		t.Errorf("an old floor stays: %v", err)
	}
	// It ended, the hub took the end, and was restored since: it grants the job again.
	second := Granted(t, s, 10)
	accept(t, s, second, store.AcceptedNew)
	endGranted2 := store.Floor{Job: second.ID, Hub: "hub", Epoch: 10, Outcome: store.GrantFinal, At: Noon}
	node := NewNode(t, s)
	seats := Place(t, s, lead, second, node)
	Claim(t, s, seats, node)
	Finish(t, s, seats[0], ares.OutcomeSucceeded)
	Release(t, s, seats[0])
	if err := s.Acknowledge(t.Context(), endGranted2); err != nil {
		t.Fatal(err)
	}
	archive(second)
	if f = floor(t, s, second.ID); f == nil || !f.Acknowledged || f.Run != nil {
		t.Fatalf("an acknowledged end was archived with the floor %+v", f)
	}
	accept(t, s, GrantedAgain(second, 30), store.AcceptedNew)
	phase(t, s, second.ID, ares.Pending)
}

func dropGranted(t *testing.T, s *store.Store) {
	waiting := Granted(t, s, 10)
	accept(t, s, waiting, store.AcceptedNew)
	for range 2 {
		if run, err := s.Drop(t.Context(), waiting.ID, 10, "it is granted to another cluster", Noon); err != nil || run.Phase != ares.Returned {
			t.Fatalf("dropped: %s, %v", run.Phase, err)
		}
	}
	if f := floor(t, s, waiting.ID); f == nil || !f.Acknowledged {
		t.Errorf("the floor is %+v", f)
	}
	running, node := Granted(t, s, 10), NewNode(t, s)
	accept(t, s, running, store.AcceptedNew)
	lead, _ := NewLead(t, s)
	seats := Place(t, s, lead, running, node)
	Claim(t, s, seats, node)
	run, err := s.Drop(t.Context(), running.ID, 10, "this cluster was declared dead", Noon)
	if err != nil || run.Stop == nil || run.Phase != ares.Running {
		t.Fatalf("dropped while it runs: %+v, %v", run.Stop, err)
	}
	Finish(t, s, seats[0], ares.OutcomeStopped)
	phase(t, s, running.ID, ares.Cancelled)
	if f := floor(t, s, running.ID); f == nil || !f.Acknowledged || f.Epoch != 10 {
		t.Errorf("the floor is %+v", f)
	}
	wroteNothing(t, s, "a late answer to the claim", func() error { accept(t, s, running, store.AcceptedIgnored); return nil })
}

func claimRecord(t *testing.T, s *store.Store) {
	id := ares.NewHubJobID(Name("tenant"), "x")
	for _, epoch := range []int64{5, 7} {
		if err := s.RecordClaim(t.Context(), id, epoch, Noon); err != nil {
			t.Fatal(err)
		}
	}
	has := func() bool {
		t.Helper()
		list, err := s.GrantClaims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Job == id {
				if c.Epoch != 7 || !c.At.Equal(Noon) {
					t.Errorf("the claim is %+v", c)
				}
				return true
			}
		}
		return false
	}
	wroteNothing(t, s, "forget an earlier claim", func() error { return s.ForgetClaim(t.Context(), id, 5) })
	if !has() {
		t.Fatal("the later claim is gone")
	}
	for range 2 {
		if err := s.ForgetClaim(t.Context(), id, 7); err != nil {
			t.Fatal(err)
		}
	}
	if has() {
		t.Error("the claim stays")
	}
}

func membership(t *testing.T, s *store.Store) {
	if m, err := s.Membership(t.Context()); m != nil || err != nil {
		t.Fatalf("a new store has the membership %+v, %v", m, err)
	}
	want := store.Membership{
		Name: "west", HubURL: "https://hub:8080", HubStore: "hub", HubIncarnation: "first", Cookie: "a", PendingCookie: "b", Mode: "federated", Rejoins: 2, At: Noon,
	}
	set := func(m *store.Membership) error { rev := m.Revision; *m = want; m.Revision = rev; return nil }
	if _, err := s.UpdateMembership(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	wroteNothing(t, s, "the same membership again", func() error { _, err := s.UpdateMembership(t.Context(), set); return err })
	m, err := s.Membership(t.Context())
	if err != nil || m == nil {
		t.Fatalf("got %+v, %v", m, err)
	}
	want.Revision = m.Revision
	if *m != want {
		t.Errorf("got %+v, want %+v", *m, want)
	}
	for range 2 {
		if err = s.DeleteMembership(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if m, err = s.Membership(t.Context()); m != nil || err != nil {
		t.Errorf("after leaving: %+v, %v", m, err)
	}
}
