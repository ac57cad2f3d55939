package control

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// ttl of sessions here: the shortest that an external etcd keeps too.
const ttl = storetest.SessionTTL

// reaping is a store with a leader whose only part is a reaper, and the times
// at which its view saw sessions end and jobs lose their seats.
type reaping struct {
	s      *store.Store
	view   *View
	reaper *Reaper
	lead   *store.Leadership

	mu    sync.Mutex
	gone  map[string]time.Time
	freed map[ares.JobID]time.Time
}

func newReaping(t *testing.T) *reaping {
	t.Helper()
	r := &reaping{s: storetest.Embedded(t), gone: map[string]time.Time{}, freed: map[ares.JobID]time.Time{}}
	r.view = follow(t, r.s, r.note)
	r.lead, _ = storetest.NewLead(t, r.s)
	r.reaper = &Reaper{Store: r.s, View: r.view, TTL: ttl, Now: time.Now, Log: quiet, BrakePercent: 55, Tick: 20 * time.Millisecond}
	return r
}

func (r *reaping) start(t *testing.T) {
	t.Helper()
	run(t, func(ctx context.Context) error { return r.reaper.Run(ctx, r.lead) })
}

func (r *reaping) note(b ares.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range b.Events {
		if e.Gone.Kind == ares.KindSession {
			r.gone[e.Gone.ID] = time.Now()
		}
		if e.Run != nil && e.Run.Run.Losses > 0 && r.freed[e.Run.Job].IsZero() {
			r.freed[e.Run.Job] = time.Now()
		}
	}
}

// away says whether the view has seen the sessions of nodes end; it knows nothing
// of a node until it has heard of it.
func (r *reaping) away(nodes ...*storetest.Node) bool {
	for _, n := range nodes {
		if seen := r.view.Node(n.ID); seen == nil || seen.Session != nil {
			return false
		}
	}
	return true
}

// busy is a node with a running job on it, which the view has seen. Its session
// lasts until the test ends it.
func (r *reaping) busy(t *testing.T, lostAfter time.Duration) (*storetest.Node, *ares.Job) {
	t.Helper()
	n := storetest.NewNode(t, r.s)
	return n, r.job(t, n, lostAfter)
}

// job is a job that runs on a node, as the view has seen.
func (r *reaping) job(t *testing.T, n *storetest.Node, lostAfter time.Duration) *ares.Job {
	t.Helper()
	j := storetest.NewJob(t, r.s, func(s *ares.Spec) { s.LostAfterSeconds = int(lostAfter / time.Second) })
	storetest.Claim(t, r.s, storetest.Place(t, r.s, r.lead, j, n), n)
	await(t, r.view, "a job to run", func() bool { return phaseOf(r.view, j.ID) == ares.Running })
	return j
}

// TestReaperWaitsForThePatience lets a node fall silent: its job is taken back
// lost_after − TTL after its session was seen to end, not before.
func TestReaperWaitsForThePatience(t *testing.T) {
	r := newReaping(t)
	r.start(t)
	silent, patient := r.busy(t, ttl+2*time.Second)
	same := r.job(t, silent, time.Second) // less than the TTL: clamped at 0
	healthy, running := r.busy(t, ttl)
	silent.Open(t, r.s, ttl) // and not a word since

	await(t, r.view, "the patient job to be taken back", func() bool { return phaseOf(r.view, patient.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.gone[silent.ID]
	if end.IsZero() {
		t.Fatal("taken back while its session lived")
	}
	if waited := r.freed[patient.ID].Sub(end); waited < 2*time.Second {
		t.Errorf("taken back after %v, its patience was %v longer than the session's", waited, 2*time.Second)
	}
	if r.freed[same.ID].IsZero() || !r.freed[same.ID].Before(r.freed[patient.ID]) || r.freed[same.ID].Before(end) {
		t.Errorf("the impatient job was taken back at %v, the session ended at %v", r.freed[same.ID], end)
	}
	if got := phaseOf(r.view, running.ID); got != ares.Running || !r.gone[healthy.ID].IsZero() {
		t.Errorf("a healthy node's job is %s", got)
	}
	if run := r.view.Job(patient.ID).Run; !run.Settled() || run.Free() || run.Retries != 0 {
		t.Errorf("taken back: %+v", run)
	}
}

// TestReaperWaitsLongerForACutSession revokes a node that is well: its session
// ends at once, but a renewal may have been acknowledged a moment before, so the
// job is taken back when the whole of lost_after has passed, not lost_after − TTL.
func TestReaperWaitsLongerForACutSession(t *testing.T) {
	r := newReaping(t)
	r.start(t)
	const lostAfter = ttl + time.Second
	n, j := r.busy(t, lostAfter)
	began := time.Now()
	_, err := r.s.Revoke(t.Context(), store.Revocation{Node: n.ID, At: storetest.Noon}, storetest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	await(t, r.view, "its session to end", func() bool { return r.away(n) })
	await(t, r.view, "its job to be taken back", func() bool { return phaseOf(r.view, j.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited := r.freed[j.ID].Sub(began); waited < lostAfter {
		t.Errorf("taken back %s after the revocation, its process may live for %s", waited, lostAfter*4/5)
	}
}

// TestReaperSparesANodeThatReturns compares two nodes that go together: one
// comes back in time and keeps its job, the other does not.
func TestReaperSparesANodeThatReturns(t *testing.T) {
	r := newReaping(t)
	r.start(t)
	back, kept := r.busy(t, time.Hour) // in time, however slow the machine is
	away, lost := r.busy(t, ttl+time.Second)
	back.Close(t, r.s)
	away.Close(t, r.s)
	await(t, r.view, "both sessions to end", func() bool { return r.away(back, away) })
	back.Open(t, r.s, 5*time.Minute)
	await(t, r.view, "the other's job to be taken back", func() bool { return phaseOf(r.view, lost.ID) == ares.Pending })
	if run := storetest.Get(t, r.s, kept.ID).Run; run.Phase != ares.Running || len(run.Attempts) != 1 || run.Losses != 0 {
		t.Errorf("the node came back in time, yet its job is %+v", run)
	}
	// Its timer starts anew when it goes again: the first one would be over by now.
	hasty := r.job(t, back, ttl+time.Second)
	back.Close(t, r.s)
	await(t, r.view, "its job to be taken back", func() bool { return phaseOf(r.view, hasty.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited := r.freed[hasty.ID].Sub(r.gone[back.ID]); waited < time.Second {
		t.Errorf("taken back %v after it went again, want a second", waited)
	}
}

// TestReaperActsOnWhatItFinds begins its term when the session is long gone.
func TestReaperActsOnWhatItFinds(t *testing.T) {
	r := newReaping(t)
	n, j := r.busy(t, ttl+time.Second)
	n.Close(t, r.s)
	await(t, r.view, "the session to end", func() bool { return r.away(n) })
	began := time.Now()
	r.start(t)
	await(t, r.view, "the job to be taken back", func() bool { return phaseOf(r.view, j.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited := r.freed[j.ID].Sub(began); waited < time.Second {
		t.Errorf("taken back %v into the term: timers start anew with a leader", waited)
	}
}

// TestReaperBrakes loses three of four nodes at once: nothing is taken back
// until enough are back, and what came back keeps its job.
func TestReaperBrakes(t *testing.T) {
	r := newReaping(t)
	var nodes []*storetest.Node
	var jobs []*ares.Job
	for range 4 {
		n, j := r.busy(t, ttl) // no patience beyond the session
		nodes, jobs = append(nodes, n), append(jobs, j)
	}
	for _, n := range nodes[:3] {
		n.Close(t, r.s)
	}
	await(t, r.view, "three sessions to end", func() bool { return r.away(nodes[:3]...) })
	r.start(t)
	await(t, r.view, "the alert", func() bool { return r.reaper.Alert() != "" })
	for i, j := range jobs {
		if run := storetest.Get(t, r.s, j.ID).Run; run.Phase != ares.Running {
			t.Errorf("under the brake job %d is %s", i, run.Phase)
		}
	}
	nodes[0].Open(t, r.s, 5*time.Minute)
	await(t, r.view, "the jobs of the two that stayed away", func() bool {
		return phaseOf(r.view, jobs[1].ID) == ares.Pending && phaseOf(r.view, jobs[2].ID) == ares.Pending
	})
	if r.reaper.Alert() != "" {
		t.Errorf("the alert stays: %s", r.reaper.Alert())
	}
	for _, i := range []int{0, 3} {
		if run := storetest.Get(t, r.s, jobs[i].ID).Run; run.Phase != ares.Running || run.Losses != 0 {
			t.Errorf("job %d of a node that is there is %s", i, run.Phase)
		}
	}
}

// TestReaperDoesNotBrakeForRevokedNodes: three of four nodes are revoked on purpose.
// They do not return, so to wait for them would be to keep their jobs for ever.
func TestReaperDoesNotBrakeForRevokedNodes(t *testing.T) {
	r := newReaping(t)
	var nodes []*storetest.Node
	var jobs []*ares.Job
	for range 4 {
		n, j := r.busy(t, time.Second)
		nodes, jobs = append(nodes, n), append(jobs, j)
	}
	for _, n := range nodes[:3] {
		if _, err := r.s.Revoke(t.Context(), store.Revocation{Node: n.ID, At: storetest.Noon}, storetest.Noon); err != nil {
			t.Fatal(err)
		}
	}
	await(t, r.view, "three sessions to end", func() bool { return r.away(nodes[:3]...) })
	r.start(t)
	await(t, r.view, "the jobs of the revoked nodes to be taken back", func() bool {
		return !slices.ContainsFunc(jobs[:3], func(j *ares.Job) bool { return phaseOf(r.view, j.ID) != ares.Pending })
	})
	if got := phaseOf(r.view, jobs[3].ID); got != ares.Running || r.reaper.Alert() != "" {
		t.Errorf("the job of the node that is well is %s, and the alert %q", got, r.reaper.Alert())
	}
}

// TestBrakeArithmetic is the share at which the brake holds.
func TestBrakeArithmetic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gone, cut, of, percent int // cut are further ones, which were revoked
		want                   bool
	}{
		{0, 0, 10, 55, false},
		{2, 0, 2, 55, false},
		{3, 0, 3, 55, true},
		{3, 0, 5, 55, true},
		{3, 0, 6, 55, false},
		{5, 0, 10, 55, false},
		{6, 0, 10, 55, true},
		{55, 0, 100, 55, false},
		{56, 0, 100, 55, true},
		{90, 0, 100, 100, false},
		{90, 0, 100, 90, false},
		{91, 0, 100, 90, true},
		{0, 3, 4, 55, false},
		{2, 8, 12, 55, false},
		{3, 5, 10, 55, true},  // 3 of 5
		{3, 4, 10, 55, false}, // 3 of 6
	} {
		v := fixedView()
		b := ares.Batch{Revision: 2, Reset: true}
		for i := range c.of {
			id := fmt.Sprint("n", i)
			cut := i >= c.gone && i < c.gone+c.cut
			b.Events = append(b.Events, ares.Event{Revision: 1, Node: &ares.Node{ID: id, Revision: 1, SessionCut: cut}})
			if i >= c.gone+c.cut {
				b.Events = append(b.Events, ares.Event{Revision: 2, Session: &ares.Session{Node: id, Revision: 2}})
			}
			// Each has a job; a node that is gone and empty is no news.
			job := ares.Job{ID: ares.NewJobID("t", id), Revision: 1}
			run := ares.NewRun(job.AcceptedAt)
			if err := run.Place([]ares.Seat{{Node: id}}, 0, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			b.Events = append(b.Events, ares.Event{Revision: 1, Job: &job},
				ares.Event{Revision: 2, Run: &ares.RunEvent{Job: job.ID, Run: run}})
		}
		for i := range 20 { // taken out of service long ago
			b.Events = append(b.Events, ares.Event{Revision: 1, Node: &ares.Node{ID: fmt.Sprint("old", i), Revision: 1}})
		}
		v.Apply(b)
		r := &Reaper{View: v, Log: quiet, BrakePercent: c.percent}
		gone := map[string]absence{}
		r.look(gone)
		if len(gone) != c.gone+c.cut+20 {
			t.Errorf("%d of %d gone, %d cut: %d timers", c.gone, c.of, c.cut, len(gone))
		}
		if got := r.braked(gone); got != c.want || (r.Alert() != "") != c.want {
			t.Errorf("%d of %d gone, %d cut, at %d %%: braked is %v (alert %q), want %v", c.gone, c.of, c.cut, c.percent, got, r.Alert(), c.want)
		}
	}
}

// TestTimersFollowTheNodesRecord is R3 in the reaper: a node that came and went
// between two looks has a new record, and so a new timer.
func TestTimersFollowTheNodesRecord(t *testing.T) {
	t.Parallel()
	v := fixedView()
	v.Apply(ares.Batch{Revision: 2, Reset: true, Events: []ares.Event{{Revision: 1, Node: &ares.Node{ID: "n", Revision: 1}}}})
	r := &Reaper{View: v, Log: quiet}
	old := time.Now().Add(-time.Hour)
	gone := map[string]absence{"n": {since: old, revision: 1}}
	r.look(gone)
	if !gone["n"].since.Equal(old) {
		t.Error("nothing happened, yet the timer starts anew")
	}
	v.Apply(ares.Batch{Revision: 4, Events: []ares.Event{{Revision: 4, Node: &ares.Node{ID: "n", Revision: 4}}}})
	r.look(gone)
	if a := gone["n"]; a.revision != 4 || a.since.Equal(old) {
		t.Errorf("the node was back in between, yet its timer is %+v", a)
	}
	v.Apply(ares.Batch{Revision: 5, Events: []ares.Event{{Revision: 5, Session: &ares.Session{Node: "n", Revision: 5}}}})
	r.look(gone)
	if len(gone) != 0 {
		t.Errorf("the node is there, yet it has a timer: %+v", gone)
	}
}

// TestPatienceGoesByTheNodesOwnTTL: a leader with another session TTL than the
// server that opened the session must not take its seats back too early.
func TestPatienceGoesByTheNodesOwnTTL(t *testing.T) {
	t.Parallel()
	v := fixedView()
	v.Apply(ares.Batch{Revision: 2, Reset: true, Events: []ares.Event{
		{Revision: 1, Node: &ares.Node{ID: "told", Revision: 1, SessionTTL: 20 * time.Second}},
		{Revision: 2, Node: &ares.Node{ID: "untold", Revision: 2}},
		{Revision: 2, Node: &ares.Node{ID: "cut", Revision: 2, SessionTTL: 20 * time.Second, SessionCut: true}},
	}})
	r := &Reaper{View: v, TTL: 5 * time.Minute, Log: quiet, BrakePercent: 55}
	gone := map[string]absence{}
	r.look(gone)
	if got := gone["told"].silent; got != 20*time.Second {
		t.Errorf("the node was silent for %s when its session ended, not for its TTL", got)
	}
	if got := gone["cut"].silent; got != 0 {
		t.Errorf("a node whose session was cut counts as silent for %s", got)
	}
	if got := gone["untold"].silent; got != r.TTL {
		t.Errorf("an old record counts as %s", got)
	}
}

// A node that was removed while a plan was under way has a seat and no record:
// the seat is taken back all the same, after the job's whole patience.
func TestReaperTakesBackFromRemovedNodes(t *testing.T) {
	t.Parallel()
	r := newReaping(t)
	n, job := r.busy(t, 2*time.Second)
	n.Close(t, r.s)
	if _, _, err := r.s.RemoveNode(t.Context(), n.ID, nil, false, storetest.Noon); err != nil { // none of its jobs is named
		t.Fatal(err)
	}
	await(t, r.view, "the node to go", func() bool { return r.view.Node(n.ID) == nil && len(r.view.Unknown()) == 1 })
	r.start(t)
	await(t, r.view, "its void", func() bool { return phaseOf(r.view, job.ID) == ares.Pending })
	if n, _, err := r.s.RemoveNode(t.Context(), n.ID, []ares.JobID{job.ID}, false, storetest.Noon); n != 1 || err != nil {
		t.Errorf("%d seats freed, %v", n, err)
	}
}
