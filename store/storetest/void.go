package storetest

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var voidLaws = []law{
	{"AVoidedJobWaitsAgain", voidRequeues},
	{"ASeatIsVoidedByItsOwnNode", voidSeatBySeat},
	{"ANodeThatCameBackIsNotVoided", voidStaleTimer},
	{"OnlyTheLeaderVoids", voidLeader},
	{"CancelSurvivesAVoid", voidCancelled},
	{"AtMostOnceEndsAsLost", voidAtMostOnce},
	{"AReportedResultSurvivesAVoid", voidReported},
}

func (st *stage) void(t *testing.T, s *store.Store, rank int) error {
	t.Helper()
	return s.Void(t.Context(), st.lead, st.seats[rank], st.nodes[rank].Revision(t, s), Noon)
}

func voidRequeues(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	refused(t, st.void(t, s, 0), ares.Conflict, "has reconnected or changed")
	phase(t, s, st.job.ID, ares.Running)
	st.nodes[0].Close(t, s)
	if err := st.void(t, s, 0); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, st.job.ID, ares.Pending)
	if run.Retries != 0 || run.Losses != 1 || !run.Settled() || run.Free() {
		t.Errorf("voided: %d retries, %d losses, settled %v, free %v", run.Retries, run.Losses, run.Settled(), run.Free())
	}
	if left := Records(t, s, "leases/"+string(st.job.ID)); len(left) > 0 {
		t.Errorf("the voided attempt left %+v", left)
	}
	refused(t, st.void(t, s, 0), ares.Conflict, "no void")
	unknown := st.seats[0]
	unknown.Fence++
	refused(t, s.Void(t.Context(), st.lead, unknown, st.nodes[0].Revision(t, s), Noon), ares.Fenced)
}

// voidSeatBySeat checks rule R2. In this test, one rank of a gang is lost. The gang's next
// attempt must wait until the seat of the healthy rank is also free.
func voidSeatBySeat(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2)
	st.claim(t, s)
	st.nodes[0].Close(t, s)
	if err := st.void(t, s, 0); err != nil {
		t.Fatal(err)
	}
	refused(t, st.void(t, s, 1), ares.Conflict, "has reconnected or changed")
	run := phase(t, s, st.job.ID, ares.Pending)
	if err := run.Place([]ares.Seat{{Node: st.nodes[1].ID}}, 0, Noon); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("placed beside a live rank: %v", err)
	}
	st.nodes[1].Close(t, s)
	if err := st.void(t, s, 1); err != nil {
		t.Fatal(err)
	}
	run = phase(t, s, st.job.ID, ares.Pending)
	if run.Losses != 1 || !run.Settled() {
		t.Errorf("the second void: %d losses, settled %v", run.Losses, run.Settled())
	}
	fresh := NewNode(t, s)
	Place(t, s, st.lead, st.job, fresh, fresh)
}

// voidStaleTimer checks rule R3. A timer that was started before the node returned must have no
// effect, even when the node is lost again.
func voidStaleTimer(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	node := st.nodes[0]
	st.claim(t, s)
	node.Close(t, s)
	seen := node.Revision(t, s)
	void := func(revision int64) error { return s.Void(t.Context(), st.lead, st.seats[0], revision, Noon) }
	node.Open(t, s, time.Minute)
	refused(t, void(seen), ares.Conflict)
	refused(t, void(node.Revision(t, s)), ares.Conflict) // the node has a session
	node.Close(t, s)
	refused(t, void(seen), ares.Conflict)
	phase(t, s, st.job.ID, ares.Running)
	if err := void(node.Revision(t, s)); err != nil {
		t.Fatal(err)
	}
	phase(t, s, st.job.ID, ares.Pending)
}

func voidLeader(t *testing.T, s *store.Store) {
	job, node := NewJob(t, s), NewNode(t, s)
	old, resign := NewLead(t, s)
	seats := Place(t, s, old, job, node)
	Claim(t, s, seats, node)
	node.Close(t, s)
	resign()
	rev := node.Revision(t, s)
	refused(t, s.Void(t.Context(), old, seats[0], rev, Noon), ares.Conflict, "no longer the leader")
	lead, _ := NewLead(t, s)
	refused(t, s.Void(t.Context(), old, seats[0], rev, Noon), ares.Conflict, "no longer the leader")
	phase(t, s, job.ID, ares.Running)
	if err := s.Void(t.Context(), lead, seats[0], rev, Noon); err != nil {
		t.Fatal(err)
	}
}

// voidCancelled checks rule R7. One transaction must end both the attempt and the job.
func voidCancelled(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	asked := st.cancel(t, s)
	st.nodes[0].Close(t, s)
	if err := st.void(t, s, 0); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, st.job.ID, ares.Cancelled)
	if run.Stop != nil || run.Revision <= asked.Revision || !run.Settled() {
		t.Errorf("got %+v", run)
	}
}

func voidAtMostOnce(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1, func(spec *ares.Spec) { spec.Mode = ares.AtMostOnce })
	st.claim(t, s)
	st.nodes[0].Close(t, s)
	if err := st.void(t, s, 0); err != nil {
		t.Fatal(err)
	}
	phase(t, s, st.job.ID, ares.Lost)
}

// voidReported voids the seat of a rank that had already ended by itself. The ended rank's result
// must be preserved, and the other rank of the job must continue.
func voidReported(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2)
	st.claim(t, s)
	Finish(t, s, st.seats[0], ares.OutcomeSucceeded)
	st.nodes[0].Close(t, s)
	if err := st.void(t, s, 0); err != nil {
		t.Fatal(err)
	}
	phase(t, s, st.job.ID, ares.Running)
	if run := Finish(t, s, st.seats[1], ares.OutcomeSucceeded); run.Phase != ares.Succeeded {
		t.Errorf("the job is %s", run.Phase)
	}
}
