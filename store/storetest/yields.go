package storetest

import (
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var yieldLaws = []law{
	{"ANominationIsReadAsItWasWritten", yieldReads},
	{"ANominationAndItsStopsAreOne", yieldOne},
	{"AnyChangeDropsTheWholeGroup", yieldDrops},
	{"AnOldLeaderNominatesNobody", yieldOldLeader},
	{"AGroupLargerThanATransactionIsBegun", yieldLarge},
	{"ACheckpointCountsForItsOwnAttempt", yieldCheckpoint},
	{"ACheckpointInTheGraceCounts", yieldGrace},
}

// Victims starts n jobs, each on its own node.
func Victims(tb testing.TB, s *store.Store, lead *store.Leadership, n int) (seats []store.SeatRef, nodes []*Node) {
	tb.Helper()
	for range n {
		node := NewNode(tb, s)
		ref := Place(tb, s, lead, NewJob(tb, s), node)
		Claim(tb, s, ref, node)
		seats, nodes = append(seats, ref[0]), append(nodes, node)
	}
	return seats, nodes
}

// Nominating returns the changes that reserve the victims' seats for a job and stop the victims.
func Nominating(tb testing.TB, s *store.Store, job *ares.Job, victims []store.SeatRef) []store.Change {
	tb.Helper()
	n := ares.Nomination{Why: ares.PreemptByClass, At: Noon, Until: Noon.Add(time.Minute)}
	var stops []store.Change
	for rank, v := range victims {
		run := Get(tb, s, v.Job).Run
		y := ares.Preemption{
			To: job.ID, Tenant: job.Tenant, Why: ares.PreemptByClass,
			Milli: 1000, Lost: 7_200_000, Restart: 60_000, Asked: int64(1000 * len(victims)),
		}
		n.Victims = append(n.Victims, ares.Victim{Job: v.Job, Fence: v.Fence, Preemption: y})
		seat := run.Last().Seats[0].Seat
		seat.Rank = rank
		n.Seats = append(n.Seats, seat)
		if err := run.RequestStop(ares.Stop{Why: ares.StopPreempt, By: "a critical job", At: Noon, Preemption: &y}); err != nil {
			tb.Fatalf("stop: %v", err)
		}
		stops = append(stops, store.Change{Job: v.Job, Next: run, Group: job.ID})
	}
	run := Get(tb, s, job.ID).Run
	if err := run.Nominate(n); err != nil {
		tb.Fatalf("nominate: %v", err)
	}
	return append([]store.Change{{Job: job.ID, Next: run, Group: job.ID}}, stops...)
}

func yieldReads(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	victims, _ := Victims(t, s, lead, 2)
	job := NewJob(t, s, Gang(2))
	plan := Nominating(t, s, job, victims)
	rev, dropped, err := s.Commit(t.Context(), lead, "digest", plan)
	if err != nil || len(dropped) > 0 {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	want, got := plan[0].Next.Nominated, phase(t, s, job.ID, ares.Pending).Nominated
	if got == nil || !slices.EqualFunc(got.Seats, want.Seats, func(a, b ares.Seat) bool {
		return a.Node == b.Node && a.Rank == b.Rank && slices.Equal(a.Shares, b.Shares) && a.CPUs == b.CPUs && a.NUMA == b.NUMA
	}) || !slices.Equal(got.Victims, want.Victims) || got.Why != want.Why || !got.At.Equal(want.At) || !got.Until.Equal(want.Until) {
		t.Errorf("wrote %+v, read %+v", want, got)
	}
	for i, v := range victims {
		run := phase(t, s, v.Job, ares.Running)
		if run.Revision != rev || run.Stop == nil || run.Stop.Why != ares.StopPreempt || run.Stop.Preemption == nil || *run.Stop.Preemption != want.Victims[i].Preemption {
			t.Errorf("victim %d is at revision %d with stop %+v", i, run.Revision, run.Stop)
		}
	}
	run := Get(t, s, job.ID).Run
	if err := run.Withdraw("time is up", Noon); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{{Job: job.ID, Next: run}}); err != nil || len(dropped) > 0 {
		t.Fatalf("withdraw: dropped %v, %v", dropped, err)
	}
	if n := phase(t, s, job.ID, ares.Pending).Nominated; n != nil {
		t.Errorf("withdrawn, and still nominated: %+v", n)
	}
}

func yieldOne(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	victims, _ := Victims(t, s, lead, 3)
	job := NewJob(t, s, Gang(3))
	rev, _, err := s.Commit(t.Context(), lead, "digest", Nominating(t, s, job, victims))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []ares.JobID{job.ID, victims[0].Job, victims[1].Job, victims[2].Job} {
		if got := Get(t, s, id).Run.Revision; got != rev {
			t.Errorf("%s was written at %d, the plan at %d", id, got, rev)
		}
	}
}

// yieldDrops commits a group of changes several times. Before each commit, another writer
// changes a different member of the group. The rest of the group must stay unchanged, and
// changes outside the group must be written.
func yieldDrops(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	for name, meddle := range map[string]func(job *ares.Job, victims []store.SeatRef){
		"a victim ended": func(_ *ares.Job, victims []store.SeatRef) {
			Finish(t, s, victims[1], ares.OutcomeSucceeded)
		},
		"a victim was cancelled": func(_ *ares.Job, victims []store.SeatRef) {
			if _, err := s.RequestStop(t.Context(), victims[2].Job, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}); err != nil {
				t.Fatal(err)
			}
		},
		"the job was cancelled": func(job *ares.Job, _ []store.SeatRef) {
			if _, err := s.RequestStop(t.Context(), job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		victims, _ := Victims(t, s, lead, 3)
		others, _ := Victims(t, s, lead, 1)
		job, other, beside, node := NewJob(t, s, Gang(3)), NewJob(t, s), NewJob(t, s), NewNode(t, s)
		plan := slices.Concat(Nominating(t, s, job, victims), Nominating(t, s, other, others), []store.Change{Placing(t, s, beside, node)})
		meddle(job, victims)
		_, dropped, err := s.Commit(t.Context(), lead, "digest", plan)
		want := []ares.JobID{job.ID, victims[0].Job, victims[1].Job, victims[2].Job}
		if err != nil || !slices.Equal(dropped, want) {
			t.Fatalf("%s: dropped %v, want %v, %v", name, dropped, want, err)
		}
		if Get(t, s, job.ID).Run.Nominated != nil {
			t.Errorf("%s: the job is nominated all the same", name)
		}
		for i, v := range victims {
			if stop := Get(t, s, v.Job).Run.Stop; stop != nil && stop.Why == ares.StopPreempt {
				t.Errorf("%s: victim %d is stopped all the same", name, i)
			}
		}
		if Get(t, s, other.ID).Run.Nominated == nil || Get(t, s, others[0].Job).Run.Stop == nil {
			t.Errorf("%s: the other group dropped out too", name)
		}
		phase(t, s, beside.ID, ares.Scheduled)
	}
}

func yieldOldLeader(t *testing.T, s *store.Store) {
	old, resign := NewLead(t, s)
	victims, _ := Victims(t, s, old, 2)
	job := NewJob(t, s, Gang(2))
	plan := Nominating(t, s, job, victims)
	resign()
	_, _, err := s.Commit(t.Context(), old, "digest", plan)
	refused(t, err, ares.Fenced, "no longer the leader")
	NewLead(t, s)
	_, _, err = s.Commit(t.Context(), old, "digest", plan)
	refused(t, err, ares.Fenced, "no longer the leader")
	if Get(t, s, job.ID).Run.Nominated != nil || Get(t, s, victims[0].Job).Run.Stop != nil {
		t.Error("a leader of the past preempts")
	}
}

// yieldLarge preempts more victims than fit into one transaction. The nomination is written
// together with the first victims. Commit drops the other victims from the plan, and a later
// plan stops them.
func yieldLarge(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	const n = 140
	var places []store.Change
	var victims []store.SeatRef
	node := NewNode(t, s)
	for range n {
		places = append(places, Placing(t, s, NewJob(t, s), node))
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", places); err != nil || len(dropped) > 0 {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	for _, p := range places {
		run := Get(t, s, p.Job).Run
		victims = append(victims, store.SeatRef{Job: p.Job, Fence: run.Fence(), Node: node.ID})
	}
	job, beside := NewJob(t, s, Gang(n)), NewJob(t, s)
	plan := append(Nominating(t, s, job, victims), Placing(t, s, beside, node))
	_, dropped, err := s.Commit(t.Context(), lead, "digest", plan)
	if err != nil || len(dropped) == 0 || len(dropped) >= n/2 {
		t.Fatalf("%d dropped out, %v", len(dropped), err)
	}
	if got := Get(t, s, job.ID).Run.Nominated; got == nil || len(got.Victims) != n {
		t.Fatalf("nominated: %+v", got)
	}
	phase(t, s, beside.ID, ares.Scheduled)
	begun := n - len(dropped)
	for i, v := range victims {
		if stopped := Get(t, s, v.Job).Run.Stop != nil; stopped != (i < begun) || stopped == slices.Contains(dropped, v.Job) {
			t.Errorf("victim %d of %d begun: stopped %v", i, begun, stopped)
		}
	}
	// If a member of such a large group has changed, the whole group is
	// dropped, even in nested transactions.
	again := NewJob(t, s, Gang(n))
	rest := victims[begun:]
	plan = Nominating(t, s, again, rest)
	if _, err := s.RequestStop(t.Context(), rest[0].Job, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", plan); err != nil || len(dropped) != len(plan) {
		t.Errorf("%d of %d dropped out, %v", len(dropped), len(plan), err)
	}
}

func yieldCheckpoint(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, job := NewNode(t, s), NewJob(t, s)
	first := Place(t, s, lead, job, node)
	Claim(t, s, first, node)
	at := Noon.Add(time.Minute)
	for range 2 { // the second changes nothing
		if err := s.Checkpointed(t.Context(), first[0], node.Session, at); err != nil {
			t.Fatal(err)
		}
	}
	run := phase(t, s, job.ID, ares.Running)
	if got := run.Last(); !got.CheckpointedAt.Equal(at) || !got.SavedUntil().Equal(at) {
		t.Errorf("checkpointed at %v, kept until %v", got.CheckpointedAt, got.SavedUntil())
	}
	if err := s.Checkpointed(t.Context(), first[0], node.Session, at.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := phase(t, s, job.ID, ares.Running); got.Revision != run.Revision {
		t.Error("an earlier checkpoint changed the run")
	}
	elsewhere := first[0]
	stranger := NewNode(t, s)
	elsewhere.Node = stranger.ID
	refused(t, s.Checkpointed(t.Context(), elsewhere, stranger.Session, at.Add(time.Second)), ares.Fenced, "is placed on node")
	refused(t, s.Checkpointed(t.Context(), first[0], node.Session-1, at.Add(time.Second)), ares.Fenced, "session")
	Finish(t, s, first[0], ares.OutcomeLost)
	Release(t, s, first[0])
	second := Place(t, s, lead, job, node)
	Claim(t, s, second, node)
	refused(t, s.Checkpointed(t.Context(), first[0], node.Session, at.Add(time.Hour)), ares.Fenced, "is not current")
	run = phase(t, s, job.ID, ares.Running)
	if got := run.Last(); !got.CheckpointedAt.IsZero() {
		t.Errorf("the second attempt is checkpointed at %v by the first", got.CheckpointedAt)
	}
}

func yieldGrace(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	victims, _ := Victims(t, s, lead, 1)
	job := NewJob(t, s)
	if _, _, err := s.Commit(t.Context(), lead, "digest", Nominating(t, s, job, victims)); err != nil {
		t.Fatal(err)
	}
	at := Noon.Add(10 * time.Second)
	if err := s.Checkpointed(t.Context(), victims[0], SessionOf(t, s, victims[0].Node), at); err != nil {
		t.Fatal(err)
	}
	run, err := s.Finish(t.Context(), victims[0], Result(ares.OutcomeStopped), at.Add(2*time.Second))
	if err != nil || run.Phase != ares.Preempted || run.Preemptions != 1 {
		t.Fatalf("the victim is %+v, %v", run, err)
	}
	// The preemption costs two seconds of work on one device, plus the time of the restart.
	run = Get(t, s, victims[0].Job).Run
	if y := run.Last().Preemption; y == nil || y.To != job.ID || y.Lost != 62_000 || y.Restart != 60_000 {
		t.Errorf("the reckoning is %+v", y)
	}
}
