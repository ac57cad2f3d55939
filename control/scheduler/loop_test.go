package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestLoopRunsJobsToTheirEnd runs many jobs on a real store, with agents that use only the
// store.
func TestLoopRunsJobsToTheirEnd(t *testing.T) {
	s := storetest.Embedded(t)
	srv := controltest.NewServer(t, "server-1", s)
	open := make(chan struct{})
	close(open)
	for range 3 {
		controltest.Agent(t, s, srv.View, storetest.NewNode(t, s), open)
	}
	jobs := controltest.SubmitMany(t, s, 60)
	controltest.Await(t, srv.View, "every job to succeed", func() bool { return controltest.AllSucceeded(srv.View, jobs) })
	controltest.CheckPlacedOnce(t, s, jobs)
	controltest.AwaitPlaced(t, len(jobs), srv)
	use, waiting := srv.View.Use(srv.View.Job(jobs[0]).Job.Tenant)
	if use != (ares.Use{}) || waiting != 0 {
		t.Errorf("everything has ended, yet %+v is held and %d wait", use, waiting)
	}
	if phases := srv.View.Phases(); phases[ares.Succeeded] != len(jobs) || srv.View.Waiting() != 0 {
		t.Errorf("phases are %v", phases)
	}
	// A job that fits on no node must wait, and its refusal must give the reason.
	sp := storetest.Sleep()
	sp.GPUs = 9
	big := storetest.JobOf(storetest.NewTenant(t, s), sp)
	if got := s.Create(t.Context(), []store.Creation{big})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	controltest.Await(t, srv.View, "the job that fits nowhere", func() bool { return srv.View.Job(big.Job.ID) != nil })
	if why := srv.Loop.Explain(big.Job.ID); len(why.Blockers) == 0 {
		t.Error("a job that fits nowhere has no reason to wait")
	}
}

// TestLoopNoticesACancel checks that a cancelled job is not placed, and that all other jobs are
// placed.
func TestLoopNoticesACancel(t *testing.T) {
	s := storetest.Embedded(t)
	srv := controltest.NewServer(t, "server-1", s)
	gate := make(chan struct{})
	node := storetest.NewNode(t, s)
	controltest.Agent(t, s, srv.View, node, gate)
	jobs := controltest.SubmitMany(t, s, 12) // more jobs than fit on eight devices
	controltest.Await(t, srv.View, "the node to be full", func() bool { return srv.View.Phases()[ares.Running] >= 4 })
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
	controltest.Await(t, srv.View, "every job to end", func() bool {
		for _, id := range jobs {
			if e := srv.View.Job(id); e == nil || !e.Run.Phase.Final() || !e.Run.Free() {
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
		if got := controltest.PhaseOf(srv.View, id); got != want {
			t.Errorf("job %d is %s, want %s", i, got, want)
		}
	}
	if len(cancelled) != srv.View.Phases()[ares.Cancelled] {
		t.Errorf("%d cancelled, want %d", srv.View.Phases()[ares.Cancelled], len(cancelled))
	}
}

// TestLoopWaitsForItsOwnPlan checks a loop whose watch is stopped. A leader that has not seen its last commit must
// decide nothing, because it would place jobs on devices that are in use.
func TestLoopWaitsForItsOwnPlan(t *testing.T) {
	s := storetest.Embedded(t)
	v := cache.NewView(time.Now)
	l := scheduler.NewLoop(v, config.Default())
	decisions := 0
	l.Store, l.Now, l.Log, l.Observe = s, time.Now, controltest.Quiet, func(time.Duration) {}
	l.Record = func(scheduler.Decision) { decisions++ }
	stop := controltest.Run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	storetest.NewNode(t, s)
	job := storetest.NewJob(t, s)
	lead, _ := storetest.NewLead(t, s)
	controltest.Await(t, v, "the term's own state", func() bool { return v.Revision() >= lead.Revision })
	stop()
	for range 3 {
		if _, err := scheduler.Turn(t.Context(), l, lead); err != nil {
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

// TestTakeover stops the leader without letting it resign. The other server must take over when the lease has expired,
// and must not place any job a second time.
func TestTakeover(t *testing.T) {
	etcd := storetest.External(t)
	agents := etcd.Open(t)
	seen := controltest.Follow(t, agents)
	gate := make(chan struct{})
	for range 2 {
		controltest.Agent(t, agents, seen, storetest.NewNode(t, agents), gate)
	}
	doomed, err := store.Open(t.Context(), store.Config{Endpoints: etcd.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	first := controltest.NewServer(t, "server-1", doomed, func(l *scheduler.Loop) { l.TTL = 5 * time.Second })
	controltest.Await(t, seen, "the first leader", func() bool { name, _ := agents.Leader(t.Context()); return name == "server-1" })
	jobs := controltest.SubmitMany(t, agents, 40) // the jobs request 66 devices, and there are 16
	controltest.Await(t, seen, "the jobs", func() bool { return seen.Job(jobs[0]) != nil })
	controltest.Await(t, seen, "the nodes to be full and the decisions about it recorded", func() bool {
		use, _ := seen.Use(seen.Job(jobs[0]).Job.Tenant)
		phases := seen.Phases()
		return use.GPUs == 16 && first.Placed(t) == phases[ares.Scheduled]+phases[ares.Running]
	})

	second := controltest.NewServer(t, "server-2", etcd.Open(t)) // a candidate that waits for the lease to expire
	// The connection to the store is cut, so the leader cannot even resign.
	_ = doomed.Close()
	first.Stop()
	jobs = append(jobs, controltest.SubmitMany(t, agents, 10)...)
	controltest.Await(t, seen, "the second leader", func() bool { name, _ := agents.Leader(t.Context()); return name == "server-2" })
	close(gate)
	controltest.Await(t, seen, "every job to succeed", func() bool { return controltest.AllSucceeded(seen, jobs) })
	controltest.CheckPlacedOnce(t, agents, jobs)
	controltest.AwaitPlaced(t, len(jobs), second, first)
	if a, b := first.Placed(t), second.Placed(t); a == 0 || b == 0 {
		t.Errorf("%d and %d placements are recorded, of %d jobs", a, b, len(jobs))
	}
}

// TestTwoLoopsTakeTurns moves leadership between two servers while jobs run. After a loop's term as
// leader has ended, it must write nothing, not even a plan that it has already made.
func TestTwoLoopsTakeTurns(t *testing.T) {
	etcd := storetest.External(t)
	agents := etcd.Open(t)
	seen := controltest.Follow(t, agents)
	open := make(chan struct{})
	close(open)
	for range 3 {
		controltest.Agent(t, agents, seen, storetest.NewNode(t, agents), open)
	}
	var jobs []ares.JobID
	total := 0
	for turn := range 4 {
		srv := controltest.NewServer(t, fmt.Sprint("server-", turn), etcd.Open(t))
		jobs = append(jobs, controltest.SubmitMany(t, agents, 30)...)
		controltest.Await(t, seen, "some of the jobs to end", func() bool { return seen.Phases()[ares.Succeeded] > turn*30+5 })
		srv.Stop() // resigns, possibly during a commit
		total += srv.Placed(t)
	}
	controltest.NewServer(t, "server-last", etcd.Open(t))
	controltest.Await(t, seen, "every job to succeed", func() bool { return controltest.AllSucceeded(seen, jobs) })
	controltest.CheckPlacedOnce(t, agents, jobs)
	if total == 0 || total > len(jobs) {
		t.Errorf("%d placements are recorded for %d jobs", total, len(jobs))
	}
}
