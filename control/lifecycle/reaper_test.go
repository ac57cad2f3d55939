package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The constant `ttl` is the TTL of sessions in these tests, which is the shortest TTL that an external etcd allows.
const ttl = storetest.SessionTTL

// The type `reaping` is a store with a leader that runs only a Reaper. It also records when its view saw sessions end and jobs lose
// their seats.
type reaping struct {
	s      *store.Store
	view   *cache.View
	reaper *Reaper
	lead   *store.Leadership

	mu    sync.Mutex
	gone  map[string]time.Time
	freed map[ares.JobID]time.Time
}

func newReaping(t *testing.T) *reaping {
	t.Helper()
	r := &reaping{s: storetest.Embedded(t), gone: map[string]time.Time{}, freed: map[ares.JobID]time.Time{}}
	r.view = controltest.Follow(t, r.s, r.note)
	r.lead, _ = storetest.NewLead(t, r.s)
	r.reaper = &Reaper{Store: r.s, View: r.view, TTL: ttl, Now: time.Now, Log: controltest.Quiet, BrakePercent: 55, Tick: 20 * time.Millisecond}
	return r
}

func (r *reaping) start(t *testing.T) {
	t.Helper()
	controltest.Run(t, func(ctx context.Context) error { return r.reaper.Run(ctx, r.lead) })
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

// The method `away` reports whether the view knows the nodes and has seen their sessions end.
func (r *reaping) away(nodes ...*storetest.Node) bool {
	for _, n := range nodes {
		if seen := r.view.Node(n.ID); seen == nil || seen.Session != nil {
			return false
		}
	}
	return true
}

// The method `busy` returns a node with a running job, after the view has seen both. The node's session lasts until the test ends it.
func (r *reaping) busy(t *testing.T, lostAfter time.Duration) (*storetest.Node, *ares.Job) {
	t.Helper()
	n := storetest.NewNode(t, r.s)
	return n, r.job(t, n, lostAfter)
}

// The method `job` returns a job that runs on a node, after the view has seen it.
func (r *reaping) job(t *testing.T, n *storetest.Node, lostAfter time.Duration) *ares.Job {
	t.Helper()
	j := storetest.NewJob(t, r.s, func(s *ares.Spec) { s.LostAfterSeconds = int(lostAfter / time.Second) })
	storetest.Claim(t, r.s, storetest.Place(t, r.s, r.lead, j, n), n)
	controltest.Await(t, r.view, "a job to run", func() bool { return controltest.PhaseOf(r.view, j.ID) == ares.Running })
	return j
}

// TestReaperWaitsForLostAfter checks when the Reaper voids a seat on a silent node. The Reaper must first see the end of the node's
// session, and then wait for lost_after − TTL.
func TestReaperWaitsForLostAfter(t *testing.T) {
	r := newReaping(t)
	r.start(t)
	silent, patient := r.busy(t, ttl+2*time.Second)
	same := r.job(t, silent, time.Second) // less than the TTL, so the remaining wait is 0
	healthy, running := r.busy(t, ttl)
	silent.Open(t, r.s, ttl) // this session is never renewed

	controltest.Await(t, r.view, "the patient job to be taken back", func() bool { return controltest.PhaseOf(r.view, patient.ID) == ares.Pending })
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
	if got := controltest.PhaseOf(r.view, running.ID); got != ares.Running || !r.gone[healthy.ID].IsZero() {
		t.Errorf("a healthy node's job is %s", got)
	}
	if run := r.view.Job(patient.ID).Run; !run.Settled() || run.Free() || run.Retries != 0 {
		t.Errorf("taken back: %+v", run)
	}
}

// TestReaperActsWithoutATick checks that the Reaper notices the end of a session and the end of its own wait by itself. Between two ticks
// of this Reaper lies an hour.
func TestReaperActsWithoutATick(t *testing.T) {
	r := &reaping{s: storetest.Embedded(t), gone: map[string]time.Time{}, freed: map[ares.JobID]time.Time{}}
	r.view = cache.NewView(time.Now)
	r.view.Feed(r.note)
	r.reaper = &Reaper{Store: r.s, View: r.view, TTL: ttl, Now: time.Now, Log: controltest.Quiet, BrakePercent: 55, Tick: time.Hour}
	r.reaper.Feed()
	controltest.Run(t, func(ctx context.Context) error { return r.view.Run(ctx, r.s, func(error) {}) })
	r.lead, _ = storetest.NewLead(t, r.s)
	r.start(t)
	n, j := r.busy(t, ttl+time.Second)
	n.Close(t, r.s)
	controltest.Await(t, r.view, "the job to be taken back", func() bool { return controltest.PhaseOf(r.view, j.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited := r.freed[j.ID].Sub(r.gone[n.ID]); waited < time.Second {
		t.Errorf("taken back after %v, want a second", waited)
	}
}

// TestReaperWaitsLongerForARevokedSession revokes a healthy node. The revoked session ends immediately, but a renewal
// may have been acknowledged just before. Therefore the Reaper must wait for the whole lost_after, not only for
// lost_after − TTL, before it voids the seat.
func TestReaperWaitsLongerForARevokedSession(t *testing.T) {
	r := newReaping(t)
	r.start(t)
	const lostAfter = ttl + time.Second
	n, j := r.busy(t, lostAfter)
	began := time.Now()
	_, err := r.s.Revoke(t.Context(), store.Revocation{Node: n.ID, At: storetest.Noon}, storetest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	controltest.Await(t, r.view, "its session to end", func() bool { return r.away(n) })
	controltest.Await(t, r.view, "its job to be taken back", func() bool { return controltest.PhaseOf(r.view, j.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited := r.freed[j.ID].Sub(began); waited < lostAfter {
		t.Errorf("taken back %s after the revocation, its process may live for %s", waited, lostAfter*4/5)
	}
}

// TestReaperKeepsJobsOfAReturningNode loses two nodes at the same time. One node returns in time and keeps its job; the other node does
// not return.
func TestReaperKeepsJobsOfAReturningNode(t *testing.T) {
	r := newReaping(t)
	r.start(t)
	back, kept := r.busy(t, time.Hour) // long enough to return in time even on a slow machine
	away, lost := r.busy(t, ttl+time.Second)
	back.Close(t, r.s)
	away.Close(t, r.s)
	controltest.Await(t, r.view, "both sessions to end", func() bool { return r.away(back, away) })
	back.Open(t, r.s, 5*time.Minute)
	controltest.Await(t, r.view, "the other's job to be taken back", func() bool { return controltest.PhaseOf(r.view, lost.ID) == ares.Pending })
	if run := storetest.Get(t, r.s, kept.ID).Run; run.Phase != ares.Running || len(run.Attempts) != 1 || run.Losses != 0 {
		t.Errorf("the node came back in time, yet its job is %+v", run)
	}
	// When the node is lost again, a new timer starts. The first timer would have expired by now.
	hasty := r.job(t, back, ttl+time.Second)
	back.Close(t, r.s)
	controltest.Await(t, r.view, "its job to be taken back", func() bool { return controltest.PhaseOf(r.view, hasty.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited := r.freed[hasty.ID].Sub(r.gone[back.ID]); waited < time.Second {
		t.Errorf("taken back %v after it went again, want a second", waited)
	}
}

// TestReaperOfANewLeader checks the Reaper of a leader whose term begins long after the session ended.
func TestReaperOfANewLeader(t *testing.T) {
	r := newReaping(t)
	n, j := r.busy(t, ttl+time.Second)
	n.Close(t, r.s)
	controltest.Await(t, r.view, "the session to end", func() bool { return r.away(n) })
	began := time.Now()
	r.start(t)
	controltest.Await(t, r.view, "the job to be taken back", func() bool { return controltest.PhaseOf(r.view, j.ID) == ares.Pending })
	r.mu.Lock()
	defer r.mu.Unlock()
	if waited := r.freed[j.ID].Sub(began); waited < time.Second {
		t.Errorf("taken back %v into the term: timers start anew with a leader", waited)
	}
}

// TestReaperBrakes loses three of four nodes at once. No seat may be voided until enough nodes are back, and nodes that
// returned must keep their jobs.
func TestReaperBrakes(t *testing.T) {
	r := newReaping(t)
	var nodes []*storetest.Node
	var jobs []*ares.Job
	for range 4 {
		n, j := r.busy(t, ttl) // lost_after is no longer than the session's TTL
		nodes, jobs = append(nodes, n), append(jobs, j)
	}
	for _, n := range nodes[:3] {
		n.Close(t, r.s)
	}
	controltest.Await(t, r.view, "three sessions to end", func() bool { return r.away(nodes[:3]...) })
	r.start(t)
	controltest.Await(t, r.view, "the alert", func() bool { return r.reaper.Alert() != "" })
	for i, j := range jobs {
		if run := storetest.Get(t, r.s, j.ID).Run; run.Phase != ares.Running {
			t.Errorf("under the brake job %d is %s", i, run.Phase)
		}
	}
	nodes[0].Open(t, r.s, 5*time.Minute)
	controltest.Await(t, r.view, "the jobs of the two that stayed away", func() bool {
		return controltest.PhaseOf(r.view, jobs[1].ID) == ares.Pending && controltest.PhaseOf(r.view, jobs[2].ID) == ares.Pending
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

// TestReaperDoesNotBrakeForRevokedNodes revokes three of four nodes on purpose. Revoked nodes do not return, so waiting
// for them would block their jobs forever.
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
	controltest.Await(t, r.view, "three sessions to end", func() bool { return r.away(nodes[:3]...) })
	r.start(t)
	controltest.Await(t, r.view, "the jobs of the revoked nodes to be taken back", func() bool {
		return !slices.ContainsFunc(jobs[:3], func(j *ares.Job) bool { return controltest.PhaseOf(r.view, j.ID) != ares.Pending })
	})
	if got := controltest.PhaseOf(r.view, jobs[3].ID); got != ares.Running || r.reaper.Alert() != "" {
		t.Errorf("the job of the node that is well is %s, and the alert %q", got, r.reaper.Alert())
	}
}

// TestReaperKeepsSeatsOfNodesThatDoNotFence loses three nodes whose jobs outlive a session, and then one with an agent.
// Only the seat on the last one is voided, although the others were lost earlier, and they do not brake the Reaper. The
// job of one continues when its node returns. The seat of another is free when an administrator removes its node.
func TestReaperKeepsSeatsOfNodesThatDoNotFence(t *testing.T) {
	t.Parallel()
	r := newReaping(t)
	r.start(t)
	var nodes []*storetest.Node
	var jobs []*ares.Job
	for i := range 3 {
		n := storetest.NewNode(t, r.s)
		n.JobsOutliveSession = true
		n.Open(t, r.s, 5*time.Minute)
		nodes, jobs = append(nodes, n), append(jobs, r.job(t, n, time.Second))
		if i == 2 { // a revoked session ends no job there either
			if _, err := r.s.Revoke(t.Context(), store.Revocation{Node: n.ID, By: "ann", At: storetest.Noon}, storetest.Noon); err != nil {
				t.Fatal(err)
			}
			continue
		}
		n.Close(t, r.s)
	}
	controltest.Await(t, r.view, "the sessions to end", func() bool { return r.away(nodes...) })
	fenced, lost := r.busy(t, time.Second)
	fenced.Close(t, r.s)
	controltest.Await(t, r.view, "the job of the agent's node to be taken back", func() bool { return controltest.PhaseOf(r.view, lost.ID) == ares.Pending })
	for i, j := range jobs {
		if got := controltest.PhaseOf(r.view, j.ID); got != ares.Running {
			t.Errorf("job %d on a node that does not fence itself is %s", i, got)
		}
		if got := r.view.Node(nodes[i].ID).State(time.Now().Add(24 * time.Hour)); got != ares.Suspect {
			t.Errorf("node %d is %s, but its job may be alive", i, got)
		}
	}
	nodes[0].Open(t, r.s, 5*time.Minute)
	controltest.Await(t, r.view, "the node to return", func() bool { return r.view.Node(nodes[0].ID).Session != nil })
	if run := r.view.Job(jobs[0].ID).Run; run.Phase != ares.Running || run.Losses != 0 {
		t.Errorf("the job of the returned node: %+v", run)
	}
	if n, _, err := r.s.RemoveNode(t.Context(), nodes[1].ID, []ares.JobID{jobs[1].ID}, true, storetest.Noon); n != 1 || err != nil {
		t.Errorf("%d seats freed, %v", n, err)
	}
}

// TestBrakeArithmetic checks at which share of lost nodes the Reaper stops voiding seats.
func TestBrakeArithmetic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gone, cut, of, percent int // cut counts further nodes, which were revoked
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
		v := cache.NewView(func() time.Time { return storetest.Noon })
		b := ares.Batch{Revision: 2, Reset: true}
		for i := range c.of {
			id := fmt.Sprint("n", i)
			cut := i >= c.gone && i < c.gone+c.cut
			b.Events = append(b.Events, ares.Event{Revision: 1, Node: &ares.Node{ID: id, Revision: 1, SessionCut: cut}})
			if i >= c.gone+c.cut {
				b.Events = append(b.Events, ares.Event{Revision: 2, Session: &ares.Session{Node: id, Revision: 2}})
			}
			// Each node has a job, because the brake ignores lost nodes without jobs.
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
		r := &Reaper{View: v, Log: controltest.Quiet, BrakePercent: c.percent}
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

// TestTimersFollowTheNodesRecord checks rule R3 in the Reaper: a new record of a node starts a new timer. If a node returned and was
// lost again between two checks, it has a new record and must therefore get a new timer.
func TestTimersFollowTheNodesRecord(t *testing.T) {
	t.Parallel()
	v := cache.NewView(func() time.Time { return storetest.Noon })
	v.Apply(ares.Batch{Revision: 2, Reset: true, Events: []ares.Event{{Revision: 1, Node: &ares.Node{ID: "n", Revision: 1}}}})
	r := &Reaper{View: v, Log: controltest.Quiet}
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

// TestReaperUsesTheTTLOfTheNode checks a leader whose session TTL differs from that of the server that opened the session. The leader
// must not void seats too early.
func TestReaperUsesTheTTLOfTheNode(t *testing.T) {
	t.Parallel()
	v := cache.NewView(func() time.Time { return storetest.Noon })
	v.Apply(ares.Batch{Revision: 2, Reset: true, Events: []ares.Event{
		{Revision: 1, Node: &ares.Node{ID: "told", Revision: 1, SessionTTL: 20 * time.Second}},
		{Revision: 2, Node: &ares.Node{ID: "untold", Revision: 2}},
		{Revision: 2, Node: &ares.Node{ID: "cut", Revision: 2, SessionTTL: 20 * time.Second, SessionCut: true}},
	}})
	r := &Reaper{View: v, TTL: 5 * time.Minute, Log: controltest.Quiet, BrakePercent: 55}
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

// TestReaperVoidsSeatsOfRemovedNodes removes a node during a commit. This leaves a seat on a node without a record. The seat on the
// removed node must be voided after the whole lost_after of the job.
func TestReaperVoidsSeatsOfRemovedNodes(t *testing.T) {
	t.Parallel()
	r := newReaping(t)
	n, job := r.busy(t, 2*time.Second)
	n.Close(t, r.s)
	if _, _, err := r.s.RemoveNode(t.Context(), n.ID, nil, false, storetest.Noon); err != nil { // the request does not list any of the node's jobs
		t.Fatal(err)
	}
	controltest.Await(t, r.view, "the node to go", func() bool { return r.view.Node(n.ID) == nil && len(r.view.UnknownNodes()) == 1 })
	r.start(t)
	controltest.Await(t, r.view, "its void", func() bool { return controltest.PhaseOf(r.view, job.ID) == ares.Pending })
	if n, _, err := r.s.RemoveNode(t.Context(), n.ID, []ares.JobID{job.ID}, false, storetest.Noon); n != 1 || err != nil {
		t.Errorf("%d seats freed, %v", n, err)
	}
}
