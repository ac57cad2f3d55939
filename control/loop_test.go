package control

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// server is one replica: a view and a loop on a store of its own.
type server struct {
	s    *store.Store
	view *View
	loop *Loop
	stop func()

	mu        sync.Mutex
	decisions []Decision
}

func newServer(t *testing.T, name string, s *store.Store, change ...func(*Loop)) *server {
	t.Helper()
	srv := &server{s: s, view: NewView(time.Now)}
	srv.loop = NewLoop(srv.view, config.Default())
	// A term ends when its server stops; by its lease only where a test says so, for a
	// machine may stand still for longer than a short one lasts.
	srv.loop.Store, srv.loop.Server, srv.loop.TTL, srv.loop.Now, srv.loop.Log = s, name, time.Minute, time.Now, quiet
	srv.loop.Observe = func(time.Duration) {}
	srv.loop.Interval = 50 * time.Millisecond
	srv.loop.Judge = func(state *engine.State, plan *ares.Plan) {
		for _, broken := range laws.Check(state, plan) {
			t.Errorf("a decision of %s: %v", name, broken)
		}
	}
	srv.loop.Record = func(d Decision) {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		srv.decisions = append(srv.decisions, d)
	}
	for _, c := range change {
		c(srv.loop)
	}
	stopView := run(t, func(ctx context.Context) error { return srv.view.Run(ctx, s, func(error) {}) })
	stopLoop := run(t, srv.loop.Run)
	srv.stop = func() { stopLoop(); stopView() }
	return srv
}

// placed sums what the server's recorded decisions placed.
func (srv *server) placed(t *testing.T) int {
	t.Helper()
	srv.mu.Lock()
	defer srv.mu.Unlock()
	n := 0
	for _, d := range srv.decisions {
		if d.Digest == "" || d.Config != config.Default().Digest() || d.Revision == 0 || d.Server != srv.loop.Server || d.Now.IsZero() || d.Placed+d.Ready+d.Arrays+d.Stopped == 0 {
			t.Errorf("a decision is recorded as %+v", d)
		}
		n += d.Placed - d.Dropped
	}
	return n
}

// placedAll waits until the placing of each of n jobs is recorded, by whichever
// server: a loop records a decision after its commit, and by then the job it
// placed may have ended.
func placedAll(t *testing.T, n int, servers ...*server) {
	t.Helper()
	await(t, servers[0].view, "the decisions to be recorded", func() bool {
		sum := 0
		for _, srv := range servers {
			sum += srv.placed(t)
		}
		if sum > n {
			t.Fatalf("%d placings are recorded for %d jobs", sum, n)
		}
		return sum == n
	})
}

// submitMany stores jobs of one tenant; every third is a gang.
func submitMany(t *testing.T, s *store.Store, n int) []ares.JobID {
	t.Helper()
	tenant := storetest.NewTenant(t, s)
	asks := make([]store.Creation, n)
	out := make([]ares.JobID, n)
	for i := range asks {
		sp := storetest.Sleep()
		sp.Members = 1 + 2*(i%3/2)
		asks[i] = storetest.JobOf(tenant, sp)
		out[i] = asks[i].Job.ID
	}
	for _, got := range s.Create(t.Context(), asks) {
		if got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	return out
}

// over says whether every job has succeeded and holds nothing.
func over(v *View, jobs []ares.JobID) bool {
	for _, id := range jobs {
		e := v.Job(id)
		if e == nil || e.Run.Phase != ares.Succeeded || !e.Run.Free() {
			return false
		}
	}
	return true
}

// onlyOnce wants every job to have been placed once, on devices nobody else
// held at that time.
func onlyOnce(t *testing.T, s *store.Store, jobs []ares.JobID) {
	t.Helper()
	for _, id := range jobs {
		run := storetest.Get(t, s, id).Run
		if run.Placed != 1 || len(run.Attempts) != 1 {
			t.Errorf("job %s was placed %d times: %+v", id, run.Placed, run.Transitions)
		}
	}
}

// TestLoopRunsJobsToTheirEnd is a whole life of many jobs on a real store, with
// agents that only speak to it.
func TestLoopRunsJobsToTheirEnd(t *testing.T) {
	s := storetest.Embedded(t)
	srv := newServer(t, "server-1", s)
	open := make(chan struct{})
	close(open)
	for range 3 {
		agent(t, s, srv.view, storetest.NewNode(t, s), open)
	}
	jobs := submitMany(t, s, 60)
	await(t, srv.view, "every job to succeed", func() bool { return over(srv.view, jobs) })
	onlyOnce(t, s, jobs)
	placedAll(t, len(jobs), srv)
	use, waiting := srv.view.Use(srv.view.Job(jobs[0]).Job.Tenant)
	if use != (ares.Use{}) || waiting != 0 {
		t.Errorf("everything has ended, yet %+v is held and %d wait", use, waiting)
	}
	if phases := srv.view.Phases(); phases[ares.Succeeded] != len(jobs) || srv.view.Waiting() != 0 {
		t.Errorf("phases are %v", phases)
	}
	// A job nobody has room for waits, and can say why.
	sp := storetest.Sleep()
	sp.GPUs = 9
	big := storetest.JobOf(storetest.NewTenant(t, s), sp)
	if got := s.Create(t.Context(), []store.Creation{big})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	await(t, srv.view, "the job that fits nowhere", func() bool { return srv.view.Job(big.Job.ID) != nil })
	if why := srv.loop.Explain(big.Job.ID); len(why.Blockers) == 0 {
		t.Error("a job that fits nowhere has no reason to wait")
	}
}

// TestLoopNoticesACancel places nothing for a job that was cancelled, and goes
// on with the others.
func TestLoopNoticesACancel(t *testing.T) {
	s := storetest.Embedded(t)
	srv := newServer(t, "server-1", s)
	gate := make(chan struct{})
	node := storetest.NewNode(t, s)
	agent(t, s, srv.view, node, gate)
	jobs := submitMany(t, s, 12) // more than eight devices hold
	await(t, srv.view, "the node to be full", func() bool { return srv.view.Phases()[ares.Running] >= 4 })
	var cancelled []ares.JobID
	for i, id := range jobs {
		if i%2 == 0 {
			if _, err := s.RequestStop(t.Context(), id, ares.Stop{Why: ares.StopCancel, By: "me", At: time.Now()}); err != nil {
				t.Fatal(err)
			}
			cancelled = append(cancelled, id)
		}
	}
	close(gate)
	await(t, srv.view, "every job to end", func() bool {
		for _, id := range jobs {
			if e := srv.view.Job(id); e == nil || !e.Run.Phase.Final() || !e.Run.Free() {
				return false
			}
		}
		return true
	})
	for i, id := range jobs {
		want := ares.Succeeded
		if i%2 == 0 {
			want = ares.Cancelled
		}
		if got := phaseOf(srv.view, id); got != want {
			t.Errorf("job %d is %s, want %s", i, got, want)
		}
	}
	if len(cancelled) != srv.view.Phases()[ares.Cancelled] {
		t.Errorf("%d cancelled, want %d", srv.view.Phases()[ares.Cancelled], len(cancelled))
	}
}

// TestLoopWaitsForItsOwnPlan stops the watch: a leader that has not seen what it
// committed decides nothing, for it would decide on devices it has given away.
func TestLoopWaitsForItsOwnPlan(t *testing.T) {
	s := storetest.Embedded(t)
	v := NewView(time.Now)
	l := NewLoop(v, config.Default())
	decisions := 0
	l.Store, l.Now, l.Log, l.Observe = s, time.Now, quiet, func(time.Duration) {}
	l.Record = func(Decision) { decisions++ }
	stop := run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	storetest.NewNode(t, s)
	job := storetest.NewJob(t, s)
	lead, _ := storetest.NewLead(t, s)
	await(t, v, "the term's own state", func() bool { return v.Revision() >= lead.Revision })
	stop()
	for range 3 {
		if _, err := l.turn(t.Context(), lead); err != nil {
			t.Fatal(err)
		}
	}
	if decisions != 1 {
		t.Errorf("it decided again before it had seen its own plan: %d decisions", decisions)
	}
	if run := storetest.Get(t, s, job.ID).Run; run.Phase != ares.Scheduled || run.Placed != 1 {
		t.Errorf("the job is %s, placed %d times", run.Phase, run.Placed)
	}
}

// TestTakeover kills the leader without letting it resign: the other server
// takes over when its lease has expired, and places nothing a second time.
func TestTakeover(t *testing.T) {
	etcd := storetest.External(t)
	agents := etcd.Open(t)
	seen := follow(t, agents)
	gate := make(chan struct{})
	for range 2 {
		agent(t, agents, seen, storetest.NewNode(t, agents), gate)
	}
	doomed, err := store.Open(t.Context(), store.Config{Endpoints: etcd.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	first := newServer(t, "server-1", doomed, func(l *Loop) { l.TTL = 5 * time.Second })
	await(t, seen, "the first leader", func() bool { name, _ := agents.Leader(t.Context()); return name == "server-1" })
	jobs := submitMany(t, agents, 40) // 66 devices asked for, 16 there
	await(t, seen, "the jobs", func() bool { return seen.Job(jobs[0]) != nil })
	await(t, seen, "the nodes to be full and the decisions about it recorded", func() bool {
		use, _ := seen.Use(seen.Job(jobs[0]).Job.Tenant)
		phases := seen.Phases()
		return use.GPUs == 16 && first.placed(t) == phases[ares.Scheduled]+phases[ares.Running]
	})

	second := newServer(t, "server-2", etcd.Open(t)) // stands, and waits for the lease
	// A cut connection: it cannot even resign.
	_ = doomed.Close()
	first.stop()
	jobs = append(jobs, submitMany(t, agents, 10)...)
	await(t, seen, "the second leader", func() bool { name, _ := agents.Leader(t.Context()); return name == "server-2" })
	close(gate)
	await(t, seen, "every job to succeed", func() bool { return over(seen, jobs) })
	onlyOnce(t, agents, jobs)
	placedAll(t, len(jobs), second, first)
	if a, b := first.placed(t), second.placed(t); a == 0 || b == 0 {
		t.Errorf("%d and %d placings are recorded, of %d jobs", a, b, len(jobs))
	}
}

// TestTwoLoopsTakeTurns hands leadership to and fro while jobs run: a term that
// is over writes nothing, whatever its loop had in hand.
func TestTwoLoopsTakeTurns(t *testing.T) {
	etcd := storetest.External(t)
	agents := etcd.Open(t)
	seen := follow(t, agents)
	open := make(chan struct{})
	close(open)
	for range 3 {
		agent(t, agents, seen, storetest.NewNode(t, agents), open)
	}
	var jobs []ares.JobID
	total := 0
	for turn := range 4 {
		srv := newServer(t, fmt.Sprint("server-", turn), etcd.Open(t))
		jobs = append(jobs, submitMany(t, agents, 30)...)
		await(t, seen, "some of the jobs to end", func() bool { return seen.Phases()[ares.Succeeded] > turn*30+5 })
		srv.stop() // resigns, perhaps with a commit under way
		total += srv.placed(t)
	}
	newServer(t, "server-last", etcd.Open(t))
	await(t, seen, "every job to succeed", func() bool { return over(seen, jobs) })
	onlyOnce(t, agents, jobs)
	if total == 0 || total > len(jobs) {
		t.Errorf("%d placings are recorded for %d jobs", total, len(jobs))
	}
}
