package lifecycle

import (
	"context"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The function `draining` returns a test server with a loop and a Drainer.
func draining(t *testing.T, name string, s *store.Store) *controltest.Server {
	t.Helper()
	return controltest.NewServer(t, name, s, func(l *scheduler.Loop) {
		l.WhileLeading = func(ctx context.Context, lead *store.Leadership) error {
			view := cache.NewView(time.Now)
			stop := controltest.Run(t, func(ctx context.Context) error { return view.Run(ctx, s, func(error) {}) })
			defer stop()
			d := &Drainer{Store: s, View: view, Now: time.Now, Log: controltest.Quiet, Tick: 20 * time.Millisecond}
			return d.Run(ctx, lead)
		}
	})
}

// The function `obedient` simulates the agent of one node. Jobs on that node end only when they are asked to stop.
func obedient(t *testing.T, s *store.Store, v *cache.View, n *storetest.Node) {
	t.Helper()
	controltest.Run(t, func(ctx context.Context) error {
		for {
			entries, _, changed := v.SeatsOn(n.ID)
			for _, e := range entries {
				stopped := e.Run.Stop != nil
				for i := range e.Run.Attempts {
					for _, h := range e.Run.Attempts[i].Seats {
						if h.Node == n.ID && (h.State != ares.SeatClaimed || stopped) {
							controltest.StepSeat(ctx, s, n, store.SeatRef{Job: e.Job.ID, Fence: e.Run.Attempts[i].Fence, Rank: h.Rank, Node: n.ID}, h.State, stopped, nil)
						}
					}
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// nodeOf returns the node of a job's current attempt, or "" if there is none.
func nodeOf(v *cache.View, id ares.JobID) string {
	if e := v.Job(id); e != nil && e.Run.Current() != nil {
		return e.Run.Current().Seats[0].Node
	}
	return ""
}

func runningOn(v *cache.View, id ares.JobID, node string) func() bool {
	return func() bool { return controltest.PhaseOf(v, id) == ares.Running && nodeOf(v, id) == node }
}

func drainNode(t *testing.T, s *store.Store, node string, force bool) {
	t.Helper()
	if _, err := s.Cordon(t.Context(), ares.Cordon{Node: node, By: "ops", Since: time.Now(), Drain: true, Force: force}); err != nil {
		t.Fatal(err)
	}
}

// TestDrainEmptiesANode checks that every job moves to the other node. No job may be lost, and no move may count against
// a retry limit. The test also checks that nothing is placed on the drained node until it is uncordoned.
func TestDrainEmptiesANode(t *testing.T) {
	s := storetest.Embedded(t)
	srv := draining(t, "server-1", s)
	first := storetest.NewNode(t, s, 5*time.Minute)
	obedient(t, s, srv.View, first)
	var jobs []ares.JobID
	for range 5 {
		job := storetest.NewJob(t, s).ID
		controltest.Await(t, srv.View, "a job on the first node", runningOn(srv.View, job, first.ID))
		jobs = append(jobs, job)
	}
	second := storetest.NewNode(t, s, 5*time.Minute)
	obedient(t, s, srv.View, second)
	drainNode(t, s, first.ID, false)
	for _, job := range jobs {
		controltest.Await(t, srv.View, "a job on the second node", runningOn(srv.View, job, second.ID))
		if r := srv.View.Job(job).Run; r.Placed != 2 || r.Losses != 0 || r.Retries != 0 {
			t.Errorf("%d times placed, %d losses, %d retries", r.Placed, r.Losses, r.Retries)
		}
	}
	if left, enduring := srv.View.RemainingOn(first.ID); left != 0 || enduring != nil {
		t.Errorf("%d seats left, %v running", left, enduring)
	}
	// After the node is uncordoned, no more jobs are stopped.
	if _, err := s.Cordon(t.Context(), ares.Cordon{Node: first.ID}); err != nil {
		t.Fatal(err)
	}
	controltest.Await(t, srv.View, "the end of the drain", func() bool { return len(srv.View.Drains()) == 0 })
	for _, job := range jobs {
		if r := srv.View.Job(job).Run; r.Stop != nil || r.Placed != 2 {
			t.Errorf("it goes on: %+v", r)
		}
	}
}

// TestDrainOutlivesItsLeader stops the leader after the drain was recorded and before any job was asked to stop. One job
// was placed just before the cordon became visible. The next leader must move both jobs.
func TestDrainOutlivesItsLeader(t *testing.T) {
	s := storetest.Embedded(t)
	view := controltest.Follow(t, s)
	lead, resign := storetest.NewLead(t, s)
	n := storetest.NewNode(t, s, 5*time.Minute)
	job, late := storetest.NewJob(t, s), storetest.NewJob(t, s)
	storetest.Place(t, s, lead, job, n)
	drainNode(t, s, n.ID, false)
	storetest.Place(t, s, lead, late, n) // the plan was made without knowledge of the drain
	obedient(t, s, view, n)
	controltest.Await(t, view, "both to run", func() bool { return runningOn(view, job.ID, n.ID)() && runningOn(view, late.ID, n.ID)() })
	resign()
	d := &Drainer{Store: s, View: view, Now: time.Now, Log: controltest.Quiet, Tick: 20 * time.Millisecond}
	if err := d.drain(t.Context(), lead, view.Drains()[0]); err != nil {
		t.Fatal(err)
	}
	for _, id := range []ares.JobID{job.ID, late.ID} {
		if storetest.Get(t, s, id).Run.Stop != nil {
			t.Error("a server that no longer leads stopped a job")
		}
	}
	next, _ := storetest.NewLead(t, s)
	controltest.Run(t, func(ctx context.Context) error { return d.Run(ctx, next) })
	controltest.Await(t, view, "both to be moved", func() bool {
		return controltest.PhaseOf(view, job.ID) == ares.Pending && controltest.PhaseOf(view, late.ID) == ares.Pending
	})
	controltest.Await(t, view, "an empty node", func() bool { left, _ := view.RemainingOn(n.ID); return left == 0 })
}

// TestDrainLeavesAtMostOnce checks that an at_most_once job is listed and left running until the drain is forced.
func TestDrainLeavesAtMostOnce(t *testing.T) {
	s := storetest.Embedded(t)
	srv := draining(t, "server-1", s)
	n := storetest.NewNode(t, s, 5*time.Minute)
	obedient(t, s, srv.View, n)
	once := storetest.NewJob(t, s, func(sp *ares.Spec) { sp.Mode = ares.AtMostOnce }).ID
	again := storetest.NewJob(t, s).ID
	controltest.Await(t, srv.View, "both to run", func() bool {
		return controltest.PhaseOf(srv.View, once) == ares.Running && controltest.PhaseOf(srv.View, again) == ares.Running
	})
	drainNode(t, s, n.ID, false)
	controltest.Await(t, srv.View, "the other job to be moved", func() bool { left, _ := srv.View.RemainingOn(n.ID); return left == 1 })
	if _, enduring := srv.View.RemainingOn(n.ID); len(enduring) != 1 || enduring[0] != once {
		t.Errorf("%v are left, want %s", enduring, once)
	}
	if r := srv.View.Job(once).Run; r.Phase != ares.Running || r.Stop != nil {
		t.Errorf("it was stopped: %+v", r)
	}
	drainNode(t, s, n.ID, true)
	controltest.Await(t, srv.View, "its end", func() bool { return controltest.PhaseOf(srv.View, once) == ares.Lost })
	if controltest.PhaseOf(srv.View, again) != ares.Pending {
		t.Errorf("the other job is %s", controltest.PhaseOf(srv.View, again))
	}
}
