package storetest

import (
	"math"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var seatLaws = []law{
	{"ASeatRunsToItsEnd", seatHappy},
	{"ALateCommitWithAnOldFenceIsRefused", ALateCommitWithAnOldFenceIsRefused},
	{"AnotherNodeMayNotAct", seatWrongNode},
	{"AClaimNeedsTheSession", claimSession},
	{"ARepeatedClaimNeedsTheSessionToo", claimAgain},
	{"ARepeatedClaimWritesNothing", claimWritesOnce},
	{"AnEndNeedsAClaim", endNeedsClaim},
	{"ARejectedClaimReturnsTheJob", claimRejected},
	{"NoSessionHasANumberBelowOne", noSession},
	{"EveryVerbMayBeRepeated", seatRepeats},
	{"ReleaseFollowsTheEnd", releaseRules},
	{"AnEndMayReleaseItsSeat", finishAndRelease},
	{"AClaimedSeatOfAnEndedAttemptMayBeReleased", releaseClaimed},
	{"ACleanReportFreesOldFencesOnly", clearRules},
	{"AStopBeforeTheClaimIsAnsweredByDecline", declineRules},
	{"CancelWorksInEveryPhase", cancelPhases},
	{"ProgressFollowsTheFence", progressRules},
}

// A `stage` holds a leader, a job, and the nodes on which the job is placed.
type stage struct {
	lead  *store.Leadership
	job   *ares.Job
	nodes []*Node
	seats []store.SeatRef
}

// newStage places a job of n ranks, each on its own node.
func newStage(t *testing.T, s *store.Store, n int, edit ...func(*ares.Spec)) *stage {
	t.Helper()
	st := &stage{job: NewJob(t, s, append([]func(*ares.Spec){Gang(n)}, edit...)...)}
	st.lead, _ = NewLead(t, s)
	for range n {
		st.nodes = append(st.nodes, NewNode(t, s))
	}
	st.seats = Place(t, s, st.lead, st.job, st.nodes...)
	return st
}

func (st *stage) claim(t *testing.T, s *store.Store) {
	t.Helper()
	Claim(t, s, st.seats, st.nodes...)
}

func (st *stage) cancel(t *testing.T, s *store.Store) ares.Run {
	t.Helper()
	run, err := s.RequestStop(t.Context(), st.job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	return run
}

func seatHappy(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	if run := phase(t, s, st.job.ID, ares.Running); !run.Attempts[0].StartedAt.Equal(Noon) {
		t.Errorf("started at %v", run.Attempts[0].StartedAt)
	}
	claims := Records(t, s, "leases/"+string(st.job.ID)+"/")
	if len(claims) != 1 || body(t, claims[0], "claim")["node"] != st.nodes[0].ID {
		t.Errorf("claims are %+v", claims)
	}
	run := Finish(t, s, st.seats[0], ares.OutcomeSucceeded)
	if run.Phase != ares.Succeeded || run.Free() {
		t.Errorf("finished: %s, free %v", run.Phase, run.Free())
	}
	stored := phase(t, s, st.job.ID, ares.Succeeded)
	if stored.Revision != run.Revision {
		t.Errorf("finish answered revision %d, stored is %d", run.Revision, stored.Revision)
	}
	if left := Records(t, s, "leases/"+string(st.job.ID)); len(left) > 0 {
		t.Errorf("the ended attempt left %+v", left)
	}
	Release(t, s, st.seats...)
	if run := Get(t, s, st.job.ID).Run; !run.Free() {
		t.Errorf("released, yet seats are %+v", run.Attempts[0].Seats)
	}
}

// ALateCommitWithAnOldFenceIsRefused tests the guarantee that a job's result is committed only
// once. An attempt may be voided without its node knowing it. The reports of this node must then
// change nothing.
func ALateCommitWithAnOldFenceIsRefused(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	old, paused := st.seats[0], st.nodes[0]
	paused.Close(t, s)
	if err := s.Void(t.Context(), st.lead, old, paused.Revision(t, s), Noon); err != nil {
		t.Fatal(err)
	}
	healthy := NewNode(t, s)
	now := Place(t, s, st.lead, st.job, healthy)[0]
	if now.Fence <= old.Fence {
		t.Fatalf("fence %d after %d", now.Fence, old.Fence)
	}
	before := Get(t, s, st.job.ID).Run
	try := func(when string) {
		t.Helper()
		refused(t, s.Claim(t.Context(), old, paused.Session, Noon), ares.Fenced)
		for _, outcome := range []ares.Outcome{ares.OutcomeSucceeded, ares.OutcomeFailed} {
			_, err := s.Finish(t.Context(), old, Result(outcome), Noon)
			refused(t, err, ares.Fenced, "not current")
		}
		refused(t, s.Decline(t.Context(), old, paused.Session, Noon), ares.Fenced)
		refused(t, s.ReportProgress(t.Context(), old, SessionOf(t, s, healthy.ID), ares.Progress{Percent: 99, At: Noon}), ares.Fenced)
		// The store also rejects a fence that never existed, and fence 0.
		for _, f := range []ares.Fence{0, now.Fence + 1_000_000} {
			never := now
			never.Fence = f
			_, err := s.Finish(t.Context(), never, Result(ares.OutcomeSucceeded), Noon)
			refused(t, err, ares.Fenced)
			refused(t, s.Claim(t.Context(), never, healthy.Session, Noon), ares.Fenced)
		}
		if after := Get(t, s, st.job.ID).Run; after.Revision != before.Revision {
			t.Errorf("%s: an old fence changed the run: %+v", when, after)
		}
	}
	try("while the next attempt is scheduled")
	Claim(t, s, []store.SeatRef{now}, healthy)
	before = phase(t, s, st.job.ID, ares.Running)
	try("while the next attempt runs")
	Finish(t, s, now, ares.OutcomeSucceeded)
	before = phase(t, s, st.job.ID, ares.Succeeded)
	try("after the job is final")
	// A release with the old fence still frees the devices of the old seat, but no other devices.
	Release(t, s, old)
	run := Get(t, s, st.job.ID).Run
	if run.Attempts[0].Seats[0].State != ares.SeatCleared || run.Attempts[1].Seats[0].State != ares.SeatFinished {
		t.Errorf("released the old seat: %+v", run.Attempts)
	}
}

func seatWrongNode(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	stranger := NewNode(t, s)
	ref := st.seats[0]
	ref.Node = stranger.ID
	try := func() {
		t.Helper()
		refused(t, s.Claim(t.Context(), ref, stranger.Session, Noon), ares.Fenced, st.nodes[0].ID)
		_, err := s.Finish(t.Context(), ref, Result(ares.OutcomeSucceeded), Noon)
		refused(t, err, ares.Fenced, st.nodes[0].ID)
		refused(t, s.Decline(t.Context(), ref, stranger.Session, Noon), ares.Fenced)
		refused(t, s.Release(t.Context(), ref), ares.Fenced)
	}
	try()
	st.claim(t, s)
	try()
	Finish(t, s, st.seats[0], ares.OutcomeSucceeded)
	refused(t, s.Release(t.Context(), ref), ares.Fenced)
	if err := s.Clear(t.Context(), st.job.ID, stranger.ID, stranger.Session, nil); err != nil {
		t.Fatal(err)
	}
	if run := Get(t, s, st.job.ID).Run; run.Free() {
		t.Error("a stranger freed the seat")
	}
	// A report for a rank that does not exist is the caller's mistake.
	none := st.seats[0]
	none.Rank = 9
	refused(t, s.Release(t.Context(), none), ares.Invalid)
}

func claimSession(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	node := st.nodes[0]
	first := node.Session
	node.Open(t, s, time.Minute) // the same agent, a new session
	refused(t, s.Claim(t.Context(), st.seats[0], first, Noon), ares.Fenced, "session")
	refused(t, s.Claim(t.Context(), st.seats[0], 0, Noon), ares.Fenced, "session")
	phase(t, s, st.job.ID, ares.Scheduled)
	node.Close(t, s)
	refused(t, s.Claim(t.Context(), st.seats[0], node.Session, Noon), ares.Fenced, "session")
	// A node without a session must not pass as a node whose session is 0.
	refused(t, s.Claim(t.Context(), st.seats[0], 0, Noon), ares.Fenced, "session")
	refused(t, s.Decline(t.Context(), st.seats[0], 0, Noon), ares.Fenced, "session")
	refused(t, s.UpdateNode(t.Context(), node.Node, 0), ares.Fenced, "session")
	refused(t, s.Clear(t.Context(), st.job.ID, node.ID, 0, nil), ares.Fenced, "session")
	if left := Records(t, s, "leases/"+string(st.job.ID)+"/"); len(left) > 0 {
		t.Errorf("a refused claim left %+v", left)
	}
	node.Open(t, s, time.Minute)
	Claim(t, s, st.seats, node)
	phase(t, s, st.job.ID, ares.Running)
}

// claimAgain repeats a claim that is already stored. The answer to a claim allows the agent to
// start a process. The repeated claim therefore also needs the current session (R5).
func claimAgain(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	node, first := st.nodes[0], st.nodes[0].Session
	run := phase(t, s, st.job.ID, ares.Running)
	if err := s.Claim(t.Context(), st.seats[0], first, Noon); err != nil {
		t.Errorf("the same claim again: %v", err)
	}
	node.Close(t, s)
	refused(t, s.Claim(t.Context(), st.seats[0], first, Noon), ares.Fenced, "session")
	node.Open(t, s, time.Minute)
	refused(t, s.Claim(t.Context(), st.seats[0], first, Noon), ares.Fenced, "session")
	if err := s.Claim(t.Context(), st.seats[0], node.Session, Noon); err != nil {
		t.Errorf("claimed again under the new session: %v", err)
	}
	claims := Records(t, s, "leases/"+string(st.job.ID)+"/0")
	if len(claims) != 1 || claims[0].Revision <= node.Session {
		t.Errorf("the claim does not name the new session: %+v", claims)
	}
	if after := Get(t, s, st.job.ID).Run; after.Revision != run.Revision {
		t.Error("a repeated claim rewrote the run")
	}
}

// claimWritesOnce repeats a claim, as a hostile node may do without end. The store's revision must stay.
func claimWritesOnce(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	before := Get(t, s, st.job.ID).Revision
	for range 5 {
		if err := s.Claim(t.Context(), st.seats[0], st.nodes[0].Session, Noon); err != nil {
			t.Fatal(err)
		}
	}
	if after := Get(t, s, st.job.ID).Revision; after != before {
		t.Errorf("the store went from revision %d to %d", before, after)
	}
}

// endNeedsClaim reports ends of a rank that was never claimed. Only an end without a process counts.
func endNeedsClaim(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	for _, outcome := range []ares.Outcome{ares.OutcomeSucceeded, ares.OutcomeFailed, ares.OutcomeSignaled, ares.OutcomeTimeout} {
		_, err := s.Finish(t.Context(), st.seats[0], Result(outcome), Noon)
		refused(t, err, ares.Fenced, "was not claimed")
	}
	for _, change := range []func(*store.SeatRef){
		func(r *store.SeatRef) { r.Fence-- }, func(r *store.SeatRef) { r.Fence += 1000 }, func(r *store.SeatRef) { r.Fence = 0 }, func(r *store.SeatRef) { r.Fence = -1 },
	} {
		other := st.seats[0]
		change(&other)
		for _, outcome := range []ares.Outcome{ares.OutcomeSucceeded, ares.OutcomeLost} {
			_, err := s.Finish(t.Context(), other, Result(outcome), Noon)
			refused(t, err, ares.Fenced, "is not current")
		}
	}
	phase(t, s, st.job.ID, ares.Scheduled)
	if _, err := s.Finish(t.Context(), st.seats[0], Result(ares.OutcomeLost), Noon); err != nil {
		t.Errorf("a rank whose process cannot be started: %v", err)
	}
}

// claimRejected rejects the claim of one rank. The job must wait again, also if it may run only once, and its seat must be free.
func claimRejected(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node := NewNode(t, s)
	for _, mode := range []ares.Mode{"", ares.AtMostOnce} {
		job := NewJob(t, s, func(spec *ares.Spec) { spec.Mode = mode })
		seat := Place(t, s, lead, job, node)[0]
		no := ares.Errorf(ares.Forbidden, "not here")
		err := s.Claim(t.Context(), seat, node.Session, Noon, func(*ares.Job) error { return no })
		refused(t, err, ares.Forbidden, "not here")
		phase(t, s, job.ID, ares.Scheduled)
		refused(t, s.RejectClaim(t.Context(), seat, 0, "me", Noon), ares.Fenced, "session")
		if err = s.RejectClaim(t.Context(), seat, node.Session, "me", Noon); err != nil {
			t.Fatal(err)
		}
		if run := phase(t, s, job.ID, ares.Pending); !run.Free() || !strings.Contains(run.Reason, "by me") {
			t.Errorf("%q: free %v, %s", mode, run.Free(), run.Reason)
		}
	}
	job := NewJob(t, s)
	seat := Place(t, s, lead, job, node)[0]
	if err := s.RejectClaim(t.Context(), seat, node.Session, "me", Noon); err != nil {
		t.Fatal(err)
	}
	old := seat
	seat = Place(t, s, lead, job, node)[0]
	if err := s.RejectClaim(t.Context(), old, node.Session, "me", Noon); err != nil {
		t.Fatal(err)
	}
	if run := phase(t, s, job.ID, ares.Scheduled); run.Stop != nil || seat.Fence == old.Fence {
		t.Errorf("the rejected claim of attempt %d stops attempt %d: %+v", old.Fence, seat.Fence, run.Stop)
	}
	Claim(t, s, []store.SeatRef{seat}, node)
	if err := s.RejectClaim(t.Context(), seat, node.Session, "me", Noon); err != nil {
		t.Fatal(err)
	}
	if run := phase(t, s, job.ID, ares.Running); run.Stop != nil {
		t.Error("a rank that is claimed was stopped")
	}
}

// noSession calls every method that takes a session with numbers below 1, for a node that has no session. The revision of a
// missing session is 0, so that a mere comparison would succeed.
func noSession(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	node, seat := st.nodes[0], st.seats[0]
	node.Close(t, s)
	for _, session := range []int64{0, -1, -2, math.MinInt64} {
		for name, call := range map[string]func() error{
			"renew": func() error { return s.RenewSession(t.Context(), node.ID, session) },
			"close": func() error { return s.CloseSession(t.Context(), node.ID, session) },
			"check": func() error { return s.CheckSession(t.Context(), node.ID, session) },
			"node":  func() error { return s.UpdateNode(t.Context(), ares.Node{ID: node.ID}, session) },
			"clear": func() error { return s.Clear(t.Context(), st.job.ID, node.ID, session, nil) },
			"secrets": func() error {
				_, _, err := s.ClaimedJob(t.Context(), seat, session)
				return err
			},
			"ranks": func() error {
				_, _, err := s.HeldJob(t.Context(), seat, session)
				return err
			},
			"claim":      func() error { return s.Claim(t.Context(), seat, session, Noon) },
			"decline":    func() error { return s.Decline(t.Context(), seat, session, Noon) },
			"progress":   func() error { return s.ReportProgress(t.Context(), seat, session, ares.Progress{}) },
			"checkpoint": func() error { return s.Checkpointed(t.Context(), seat, session, Noon) },
		} {
			if err := call(); ares.CodeOf(err) != ares.Fenced {
				t.Errorf("%s with session %d: %v", name, session, err)
			}
		}
	}
}

func seatRepeats(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	same := func(what string, act func() error) {
		t.Helper()
		if err := act(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		before := Get(t, s, st.job.ID).Run.Revision
		if err := act(); err != nil {
			t.Errorf("%s again: %v", what, err)
		}
		if after := Get(t, s, st.job.ID).Run.Revision; after != before {
			t.Errorf("%s again changed the run from %d to %d", what, before, after)
		}
	}
	same("claim", func() error { return s.Claim(t.Context(), st.seats[0], st.nodes[0].Session, Noon) })
	same("finish", func() error {
		_, err := s.Finish(t.Context(), st.seats[0], Result(ares.OutcomeFailed), Noon)
		return err
	})
	same("release", func() error { return s.Release(t.Context(), st.seats[0]) })
	same("clear", func() error {
		return s.Clear(t.Context(), st.job.ID, st.nodes[0].ID, st.nodes[0].Session, nil)
	})
	same("cancel", func() error {
		_, err := s.RequestStop(t.Context(), st.job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
		return err
	})
	// A second report with a different result does not count as a repetition of the first report.
	_, err := s.Finish(t.Context(), st.seats[0], Result(ares.OutcomeSucceeded), Noon)
	refused(t, err, ares.Fenced)
}

func releaseRules(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	refused(t, s.Release(t.Context(), st.seats[0]), ares.Conflict, "has not reported")
	st.claim(t, s)
	refused(t, s.Release(t.Context(), st.seats[0]), ares.Conflict, "has not reported")
	Finish(t, s, st.seats[0], ares.OutcomeSucceeded)
	Release(t, s, st.seats...)
	run := Get(t, s, st.job.ID).Run
	if err := s.Archive(t.Context(), st.job, &run, nil); err != nil {
		t.Fatal(err)
	}
	Release(t, s, st.seats...) // the job is archived, so its seats were already free
	gone := st.seats[0]
	gone.Job = ares.NewJobID("nobody", "nothing")
	Release(t, s, gone)
}

// finishAndRelease ends two ranks, each together with the release of its seat. The combined report must be rejected where the report of an
// end alone is rejected, and must then release nothing.
func finishAndRelease(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2)
	seats := func() [2]ares.SeatState {
		all := Get(t, s, st.job.ID).Run.Attempts[0].Seats
		return [2]ares.SeatState{all[0].State, all[1].State}
	}
	end := func(ref store.SeatRef) error {
		_, err := s.FinishAndRelease(t.Context(), ref, Result(ares.OutcomeSucceeded), Noon)
		return err
	}
	refused(t, end(st.seats[0]), ares.Fenced, "was not claimed")
	st.claim(t, s)
	foreign, old := st.seats[0], st.seats[0]
	foreign.Node, old.Fence = st.seats[1].Node, st.seats[0].Fence-1
	refused(t, end(foreign), ares.Fenced, "is placed on node")
	refused(t, end(old), ares.Fenced, "is not current")
	if got := seats(); got != [2]ares.SeatState{ares.SeatClaimed, ares.SeatClaimed} {
		t.Fatalf("rejected reports left the seats %v", got)
	}
	for range 2 { // a repeated report changes nothing
		if err := end(st.seats[0]); err != nil {
			t.Fatal(err)
		}
	}
	if got := seats(); got != [2]ares.SeatState{ares.SeatReleased, ares.SeatClaimed} {
		t.Errorf("after the first end the seats are %v", got)
	}
	phase(t, s, st.job.ID, ares.Running)
	if err := end(st.seats[1]); err != nil {
		t.Fatal(err)
	}
	if run := phase(t, s, st.job.ID, ares.Succeeded); !run.Settled() {
		t.Errorf("the seats are %v", seats())
	}
}

// releaseClaimed ends an attempt of two ranks because one rank is lost. The agent of the healthy
// rank does not report how that rank ended. The agent only reports later that the rank's
// processes are dead.
func releaseClaimed(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2)
	st.claim(t, s)
	st.nodes[0].Close(t, s)
	if err := s.Void(t.Context(), st.lead, st.seats[0], st.nodes[0].Revision(t, s), Noon); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, st.job.ID, ares.Pending)
	if state := run.Attempts[0].Seats[1].State; state != ares.SeatClaimed || run.Settled() {
		t.Fatalf("the healthy rank's seat is %s, settled %v", state, run.Settled())
	}
	Release(t, s, st.seats[1])
	run = Get(t, s, st.job.ID).Run
	if state := run.Attempts[0].Seats[1].State; state != ares.SeatReleased || !run.Settled() {
		t.Errorf("released: the seat is %s, settled %v", state, run.Settled())
	}
	Place(t, s, st.lead, st.job, st.nodes[1], st.nodes[1])
}

func clearRules(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	node := st.nodes[0]
	st.claim(t, s)
	node.Close(t, s)
	refused(t, s.Clear(t.Context(), st.job.ID, node.ID, node.Session, nil), "") // nothing to clear, so nothing is compared
	if err := s.Void(t.Context(), st.lead, st.seats[0], node.Revision(t, s), Noon); err != nil {
		t.Fatal(err)
	}
	gone := node.Session
	node.Open(t, s, time.Minute)
	refused(t, s.Clear(t.Context(), st.job.ID, node.ID, node.Session+1, nil), ares.Fenced, "session")
	state := func(attempt int) ares.SeatState { return Get(t, s, st.job.ID).Run.Attempts[attempt].Seats[0].State }
	refused(t, s.Clear(t.Context(), st.job.ID, node.ID, gone, nil), "") // the seat was placed after that session began
	if state(0) != ares.SeatVoided {
		t.Errorf("a report from before the seat was placed made it %s", state(0))
	}
	second := Place(t, s, st.lead, st.job, node)[0]
	if err := s.Clear(t.Context(), st.job.ID, node.ID, node.Session, map[ares.Fence]bool{st.seats[0].Fence: true}); err != nil {
		t.Fatal(err)
	}
	if state(0) != ares.SeatVoided {
		t.Errorf("the node still holds the fence, yet its seat is %s", state(0))
	}
	if err := s.Clear(t.Context(), st.job.ID, node.ID, node.Session, nil); err != nil {
		t.Fatal(err)
	}
	if state(0) != ares.SeatCleared || state(1) != ares.SeatPlaced {
		t.Errorf("cleared: the old seat is %s, the current one %s", state(0), state(1))
	}
	Claim(t, s, []store.SeatRef{second}, node)
}

func declineRules(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	decline := func() error { return s.Decline(t.Context(), st.seats[0], st.nodes[0].Session, Noon) }
	refused(t, decline(), ares.Conflict, "no stop intent")
	st.cancel(t, s)
	refused(t, s.Claim(t.Context(), st.seats[0], st.nodes[0].Session, Noon), ares.Fenced, "stopped")
	refused(t, s.Decline(t.Context(), st.seats[0], st.nodes[0].Session-1, Noon), ares.Fenced, "session")
	if err := decline(); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, st.job.ID, ares.Cancelled)
	if !run.Free() {
		t.Errorf("nothing was ever spawned, yet the seats are %+v", run.Attempts[0].Seats)
	}
	if err := decline(); err != nil {
		t.Errorf("decline again: %v", err)
	}
	refused(t, s.Claim(t.Context(), st.seats[0], st.nodes[0].Session, Noon), ares.Fenced)
	// The agent cannot decline a claimed seat, because a process may be alive
	// there.
	claimed := newStageUnder(t, s, st.lead)
	claimed.claim(t, s)
	claimed.cancel(t, s)
	refused(t, s.Decline(t.Context(), claimed.seats[0], claimed.nodes[0].Session, Noon), ares.Conflict)
}

// newStageUnder places another job with an existing leader.
func newStageUnder(t *testing.T, s *store.Store, lead *store.Leadership) *stage {
	t.Helper()
	st := &stage{lead: lead, job: NewJob(t, s), nodes: []*Node{NewNode(t, s)}}
	st.seats = Place(t, s, lead, st.job, st.nodes...)
	return st
}

func cancelPhases(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	waiting := &stage{job: NewJob(t, s)}
	if run := waiting.cancel(t, s); run.Phase != ares.Cancelled {
		t.Errorf("a pending job: %s", run.Phase)
	}
	scheduled := newStageUnder(t, s, lead)
	if run := scheduled.cancel(t, s); run.Phase != ares.Scheduled || run.Stop == nil {
		t.Errorf("a scheduled job: %+v", run)
	}
	running := newStageUnder(t, s, lead)
	running.claim(t, s)
	if run := running.cancel(t, s); run.Phase != ares.Running || run.Stop == nil || run.Stop.By != "me" {
		t.Errorf("a running job: %+v", run)
	}
	// The job may still end by itself, but the cancellation was requested
	// first.
	if run := Finish(t, s, running.seats[0], ares.OutcomeStopped); run.Phase != ares.Cancelled || run.Stop != nil {
		t.Errorf("a stopped job: %+v", run)
	}
	retrying := newStageUnder(t, s, lead)
	retrying.claim(t, s)
	if run := Finish(t, s, retrying.seats[0], ares.OutcomeFailed); run.Phase != ares.Retrying {
		t.Fatalf("a failed job: %+v", run)
	}
	if run := retrying.cancel(t, s); run.Phase != ares.Cancelled {
		t.Errorf("a retrying job: %s", run.Phase)
	}
	final := newStageUnder(t, s, lead)
	final.claim(t, s)
	Finish(t, s, final.seats[0], ares.OutcomeSucceeded)
	_, err := s.RequestStop(t.Context(), final.job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
	refused(t, err, ares.Conflict, "succeeded")
	_, err = s.RequestStop(t.Context(), ares.NewJobID("nobody", "nothing"), ares.Stop{Why: ares.StopCancel})
	refused(t, err, ares.NotFound)
	archived := NewJob(t, s)
	archiveCancelled(t, s, archived)
	_, err = s.RequestStop(t.Context(), archived.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
	refused(t, err, ares.Conflict, "cancelled")
}

func progressRules(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	said := ares.Progress{Percent: 41.5, Message: "epoch 3", At: Noon}
	if err := s.ReportProgress(t.Context(), st.seats[0], st.nodes[0].Session, said); err != nil {
		t.Fatal(err)
	}
	if got := Get(t, s, st.job.ID).Progress; got == nil || *got != said {
		t.Errorf("got %+v, want %+v", got, said)
	}
	wrong := st.seats[0]
	wrong.Fence--
	refused(t, s.ReportProgress(t.Context(), wrong, st.nodes[0].Session, said), ares.Fenced)
	// Another node, an outdated session and a rank that does not exist are refused too, and change nothing.
	stranger, none := NewNode(t, s), st.seats[0]
	wrong, none.Rank = st.seats[0], 9
	wrong.Node = stranger.ID
	refused(t, s.ReportProgress(t.Context(), wrong, stranger.Session, ares.Progress{Percent: 1}), ares.Fenced, st.nodes[0].ID)
	refused(t, s.ReportProgress(t.Context(), st.seats[0], st.nodes[0].Session-1, ares.Progress{Percent: 1}), ares.Fenced, "session")
	refused(t, s.ReportProgress(t.Context(), none, st.nodes[0].Session, ares.Progress{Percent: 1}), ares.Invalid)
	if got := Get(t, s, st.job.ID).Progress; got == nil || *got != said {
		t.Errorf("a refused report made the progress %+v", got)
	}
	Finish(t, s, st.seats[0], ares.OutcomeSucceeded)
	refused(t, s.ReportProgress(t.Context(), st.seats[0], st.nodes[0].Session, said), ares.Fenced)
	if got := Get(t, s, st.job.ID).Progress; got != nil {
		t.Errorf("the attempt ended and left %+v", got)
	}
}
