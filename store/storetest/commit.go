package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var commitLaws = []law{
	{"OneLeads", leadAlone},
	{"ACandidateMayGiveUp", leadGiveUp},
	{"AnOldLeaderWritesNothing", commitOldLeader},
	{"APlanOutOfSequenceIsRefused", commitSequence},
	{"AnUnknownOutcomeIsReadAgain", commitUnknown},
	{"ACancelInBetweenDropsOnlyThatJob", commitDrops},
	{"TheFenceIsWhereTheLeaseWasCreated", commitFence},
	{"ALargePlanIsCommittedInChunks", commitLarge},
	{"AJobIsPlacedOnce", commitOnce},
	{"AnArchivedJobIsNotPlaced", commitArchived},
}

func leadAlone(t *testing.T, s *store.Store) {
	first, resign := NewLead(t, s)
	if name, err := s.Leader(t.Context()); err != nil || name != "server-1" {
		t.Fatalf("the leader is %q, %v", name, err)
	}
	second := make(chan int64, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Lead(t.Context(), "server-2", time.Minute, func(_ context.Context, l *store.Leadership) error {
			second <- l.Revision
			return errors.New("had enough")
		})
	}()
	select {
	case <-second:
		t.Fatal("two lead at once")
	case err := <-ended:
		t.Fatalf("the second did not wait: %v", err)
	default:
	}
	resign()
	if rev := <-second; rev <= first.Revision {
		t.Errorf("the second's term is at revision %d, the first's at %d", rev, first.Revision)
	}
	if err := <-ended; err == nil || err.Error() != "had enough" {
		t.Errorf("lead answered %v, want what its work returned", err)
	}
	if name, err := s.Leader(t.Context()); err != nil || name != "" {
		t.Errorf("after resigning the leader is %q, %v", name, err)
	}
}

func leadGiveUp(t *testing.T, s *store.Store) {
	_, resign := NewLead(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Lead(ctx, "server-2", time.Minute, func(context.Context, *store.Leadership) error {
			t.Error("it had given up")
			return nil
		})
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	resign()
	if name, err := s.Leader(t.Context()); err != nil || name != "" {
		t.Errorf("somebody who gave up leads: %q, %v", name, err)
	}
}

func commitOldLeader(t *testing.T, s *store.Store) {
	job, node := NewJob(t, s), NewNode(t, s)
	old, resign := NewLead(t, s)
	resign()
	_, _, err := s.Commit(t.Context(), old, "digest", []store.Change{Placing(t, s, job, node)})
	refused(t, err, ares.Fenced, "no longer the leader")
	lead, _ := NewLead(t, s)
	_, _, err = s.Commit(t.Context(), old, "digest", []store.Change{Placing(t, s, job, node)})
	refused(t, err, ares.Fenced, "no longer the leader")
	if run := phase(t, s, job.ID, ares.Pending); run.Revision != 0 {
		t.Errorf("the old leader wrote a run: %+v", run)
	}
	if left := Records(t, s, "leases/"+string(job.ID)); len(left) > 0 {
		t.Errorf("the old leader wrote a lease: %+v", left)
	}
	Place(t, s, lead, job, node)
	phase(t, s, job.ID, ares.Scheduled)
}

func commitSequence(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	paused := *lead
	node, a, b := NewNode(t, s), NewJob(t, s), NewJob(t, s)
	Place(t, s, lead, a, node)
	_, _, err := s.Commit(t.Context(), &paused, "digest", []store.Change{Placing(t, s, b, node)})
	refused(t, err, ares.Fenced)
	phase(t, s, b.ID, ares.Pending)
	if lead.Plan() <= paused.Plan() {
		t.Errorf("the plan's revision is %d, before it was %d", lead.Plan(), paused.Plan())
	}
}

func commitUnknown(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	unsure := *lead
	node, a, b := NewNode(t, s), NewJob(t, s), NewJob(t, s)
	// Place writes a plan that the copied leadership does not know of. The effect is the same
	// as if the answer to the commit was lost.
	Place(t, s, lead, a, node)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	change := Placing(t, s, b, node)
	if _, _, err := s.Commit(gone, &unsure, "digest", []store.Change{change}); err == nil || ares.CodeOf(err) == ares.Fenced {
		t.Fatalf("a lost answer is no clean refusal: %v", err)
	}
	if err := s.Refresh(t.Context(), &unsure); err != nil {
		t.Fatal(err)
	}
	if unsure.Plan() != lead.Plan() {
		t.Errorf("refreshed to plan %d, it is %d", unsure.Plan(), lead.Plan())
	}
	rev, dropped, err := s.Commit(t.Context(), &unsure, "digest", []store.Change{change})
	if err != nil || len(dropped) > 0 || rev != unsure.Plan() {
		t.Fatalf("committed at %d (plan %d), dropped %v, %v", rev, unsure.Plan(), dropped, err)
	}
}

func commitDrops(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, kept, cancelled := NewNode(t, s), NewJob(t, s), NewJob(t, s)
	plan := []store.Change{Placing(t, s, cancelled, node), Placing(t, s, kept, node)}
	if _, err := s.RequestStop(t.Context(), cancelled.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}); err != nil {
		t.Fatal(err)
	}
	rev, dropped, err := s.Commit(t.Context(), lead, "digest", plan)
	if err != nil || rev == 0 || !slices.Equal(dropped, []ares.JobID{cancelled.ID}) {
		t.Fatalf("revision %d, dropped %v, %v", rev, dropped, err)
	}
	phase(t, s, cancelled.ID, ares.Cancelled)
	if run := phase(t, s, kept.ID, ares.Scheduled); run.Revision != rev || int64(run.Fence()) != rev {
		t.Errorf("the kept job's run is at %d with fence %d, committed at %d", run.Revision, run.Fence(), rev)
	}
}

func commitFence(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, job := NewNode(t, s), NewJob(t, s)
	last := ares.Fence(0)
	for range 3 {
		seat := Place(t, s, lead, job, node)[0]
		leases := Records(t, s, "leases/"+string(job.ID))
		if len(leases) != 1 || leases[0].CreateRevision != int64(seat.Fence) {
			t.Fatalf("fence %d, lease %+v", seat.Fence, leases)
		}
		if runs := Records(t, s, "runs/"+string(job.ID)); runs[0].Revision != int64(seat.Fence) {
			t.Errorf("fence %d, run %+v", seat.Fence, runs)
		}
		if seat.Fence <= last {
			t.Errorf("fence %d after %d: a fence only grows", seat.Fence, last)
		}
		last = seat.Fence
		Claim(t, s, []store.SeatRef{seat}, node)
		if got := fenceOf(t, s, job); got != seat.Fence {
			t.Errorf("the claim changed the fence from %d to %d", seat.Fence, got)
		}
		Finish(t, s, seat, ares.OutcomeFailed)
		Release(t, s, seat)
		if left := Records(t, s, "leases/"+string(job.ID)); len(left) > 0 {
			t.Errorf("the attempt ended and left %+v", left)
		}
		makeReady(t, s, lead, job)
	}
}

func fenceOf(t *testing.T, s *store.Store, job *ares.Job) ares.Fence {
	t.Helper()
	run := Get(t, s, job.ID).Run
	return run.Fence()
}

// makeReady commits a plan that ends a job's start delay.
func makeReady(t *testing.T, s *store.Store, lead *store.Leadership, job *ares.Job) {
	t.Helper()
	run := Get(t, s, job.ID).Run
	if err := run.Ready(Noon.Add(24 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{{Job: job.ID, Next: run}}); err != nil || len(dropped) > 0 {
		t.Fatalf("ready: dropped %v, %v", dropped, err)
	}
	phase(t, s, job.ID, ares.Pending)
}

func commitLarge(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	tenant, node := NewTenant(t, s), NewNode(t, s)
	asks := make([]store.Creation, 150)
	for i := range asks {
		asks[i] = JobOf(tenant, Sleep())
	}
	create(t, s, asks...)
	var plan []store.Change
	for _, a := range asks {
		plan = append(plan, Placing(t, s, a.Job, node))
	}
	var want []ares.JobID
	for _, i := range []int{3, 77, 149} { // one in each chunk
		if _, err := s.RequestStop(t.Context(), asks[i].Job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}); err != nil {
			t.Fatal(err)
		}
		want = append(want, asks[i].Job.ID)
	}
	rev, dropped, err := s.Commit(t.Context(), lead, "digest", plan)
	if err != nil || !slices.Equal(dropped, want) || lead.Plan() != rev {
		t.Fatalf("revision %d (plan %d), dropped %v, want %v, %v", rev, lead.Plan(), dropped, want, err)
	}
	for i, a := range asks {
		if slices.Contains(want, a.Job.ID) {
			continue
		}
		if run := phase(t, s, a.Job.ID, ares.Scheduled); run.Fence() == 0 {
			t.Errorf("job %d has no fence", i)
		}
	}
	plans := Records(t, s, "loop/plan")
	if len(plans) != 1 || body(t, plans[0], "plan")["digest"] != "digest" {
		t.Errorf("the sequence is %+v", plans)
	}
}

// commitOnce commits a plan twice, as a leader with an outdated state would.
func commitOnce(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, job := NewNode(t, s), NewJob(t, s)
	change := Placing(t, s, job, node)
	for i, want := range []int{0, 1} {
		_, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{change})
		if err != nil || len(dropped) != want {
			t.Fatalf("commit %d: dropped %v, %v", i, dropped, err)
		}
	}
	if run := phase(t, s, job.ID, ares.Scheduled); len(run.Attempts) != 1 {
		t.Errorf("placed %d times", len(run.Attempts))
	}
}

// commitArchived commits a plan that was made before the job was cancelled and archived. The
// archived job has no run, and the pending job had no run either when the plan was made.
func commitArchived(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, job := NewNode(t, s), NewJob(t, s)
	change := Placing(t, s, job, node)
	archiveCancelled(t, s, job)
	_, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{change})
	if err != nil || len(dropped) != 1 {
		t.Errorf("an archived job was placed: dropped %v, %v", dropped, err)
	}
	if left := Records(t, s, "runs/"+string(job.ID)); len(left) > 0 {
		t.Errorf("an archived job has a run: %+v", left)
	}
}

// archiveCancelled cancels a waiting job and archives it.
func archiveCancelled(t *testing.T, s *store.Store, job *ares.Job) {
	t.Helper()
	run, err := s.RequestStop(t.Context(), job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Archive(t.Context(), job, &run, nil); err != nil {
		t.Fatal(err)
	}
}
