package control

import (
	"context"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// draining is a server whose leader's parts are a loop and a drainer.
func draining(t *testing.T, name string, s *store.Store) *server {
	t.Helper()
	return newServer(t, name, s, func(l *Loop) {
		l.Beside = func(ctx context.Context, lead *store.Leadership) error {
			view := NewView(time.Now)
			stop := run(t, func(ctx context.Context) error { return view.Run(ctx, s, func(error) {}) })
			defer stop()
			d := &Drainer{Store: s, View: view, Now: time.Now, Log: quiet, Tick: 20 * time.Millisecond}
			return d.Run(ctx, lead)
		}
	})
}

// obedient acts for one node as an agent does whose jobs end only when they are
// asked to.
func obedient(t *testing.T, s *store.Store, v *View, n *storetest.Node) {
	t.Helper()
	run(t, func(ctx context.Context) error {
		for {
			entries, _, changed := v.SeatsOn(n.ID)
			for _, e := range entries {
				stopped := e.Run.Stop != nil
				for i := range e.Run.Attempts {
					for _, h := range e.Run.Attempts[i].Seats {
						if h.Node == n.ID && (h.State != ares.SeatClaimed || stopped) {
							act(ctx, s, n, store.SeatRef{Job: e.Job.ID, Fence: e.Run.Attempts[i].Fence, Rank: h.Rank, Node: n.ID}, h.State, stopped, nil)
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

// nodeOf is where a job's present attempt is, "" without one.
func nodeOf(v *View, id ares.JobID) string {
	if e := v.Job(id); e != nil && e.Run.Current() != nil {
		return e.Run.Current().Seats[0].Node
	}
	return ""
}

func runningOn(v *View, id ares.JobID, node string) func() bool {
	return func() bool { return phaseOf(v, id) == ares.Running && nodeOf(v, id) == node }
}

func drainNode(t *testing.T, s *store.Store, node string, force bool) {
	t.Helper()
	if _, err := s.Cordon(t.Context(), ares.Cordon{Node: node, By: "ops", Since: time.Now(), Drain: true, Force: force}); err != nil {
		t.Fatal(err)
	}
}

// TestDrainEmptiesANode: every job moves to the other node, none is lost or uses
// a retry up, and the drained node gets nothing back until it is uncordoned.
func TestDrainEmptiesANode(t *testing.T) {
	s := storetest.Embedded(t)
	srv := draining(t, "server-1", s)
	first := storetest.NewNode(t, s, 5*time.Minute)
	obedient(t, s, srv.view, first)
	var jobs []ares.JobID
	for range 5 {
		job := storetest.NewJob(t, s).ID
		await(t, srv.view, "a job on the first node", runningOn(srv.view, job, first.ID))
		jobs = append(jobs, job)
	}
	second := storetest.NewNode(t, s, 5*time.Minute)
	obedient(t, s, srv.view, second)
	drainNode(t, s, first.ID, false)
	for _, job := range jobs {
		await(t, srv.view, "a job on the second node", runningOn(srv.view, job, second.ID))
		if r := srv.view.Job(job).Run; r.Placed != 2 || r.Losses != 0 || r.Retries != 0 {
			t.Errorf("%d times placed, %d losses, %d retries", r.Placed, r.Losses, r.Retries)
		}
	}
	if left, enduring := srv.view.LeftOn(first.ID); left != 0 || enduring != nil {
		t.Errorf("%d seats left, %v running", left, enduring)
	}
	// Uncordoned, it is a node like others, and nothing more is stopped.
	if _, err := s.Cordon(t.Context(), ares.Cordon{Node: first.ID}); err != nil {
		t.Fatal(err)
	}
	await(t, srv.view, "the end of the drain", func() bool { return len(srv.view.Drains()) == 0 })
	for _, job := range jobs {
		if r := srv.view.Job(job).Run; r.Stop != nil || r.Placed != 2 {
			t.Errorf("it goes on: %+v", r)
		}
	}
}

// TestDrainOutlivesItsLeader: the leader goes when the drain is recorded and
// nothing was asked yet, with a job placed in the moment before the cordon was
// seen. The next one finds both.
func TestDrainOutlivesItsLeader(t *testing.T) {
	s := storetest.Embedded(t)
	view := follow(t, s)
	lead, resign := storetest.NewLead(t, s)
	n := storetest.NewNode(t, s, 5*time.Minute)
	job, late := storetest.NewJob(t, s), storetest.NewJob(t, s)
	storetest.Place(t, s, lead, job, n)
	drainNode(t, s, n.ID, false)
	storetest.Place(t, s, lead, late, n) // by a plan that knows of no drain
	obedient(t, s, view, n)
	await(t, view, "both to run", func() bool { return runningOn(view, job.ID, n.ID)() && runningOn(view, late.ID, n.ID)() })
	resign()
	d := &Drainer{Store: s, View: view, Now: time.Now, Log: quiet, Tick: 20 * time.Millisecond}
	if err := d.drain(t.Context(), lead, view.Drains()[0]); err != nil {
		t.Fatal(err)
	}
	for _, id := range []ares.JobID{job.ID, late.ID} {
		if storetest.Get(t, s, id).Run.Stop != nil {
			t.Error("a server that leads no more stopped a job")
		}
	}
	next, _ := storetest.NewLead(t, s)
	run(t, func(ctx context.Context) error { return d.Run(ctx, next) })
	await(t, view, "both to be moved", func() bool {
		return phaseOf(view, job.ID) == ares.Pending && phaseOf(view, late.ID) == ares.Pending
	})
	await(t, view, "an empty node", func() bool { left, _ := view.LeftOn(n.ID); return left == 0 })
}

// TestDrainLeavesAtMostOnce: such a job is named and left, until force is given.
func TestDrainLeavesAtMostOnce(t *testing.T) {
	s := storetest.Embedded(t)
	srv := draining(t, "server-1", s)
	n := storetest.NewNode(t, s, 5*time.Minute)
	obedient(t, s, srv.view, n)
	once := storetest.NewJob(t, s, func(sp *ares.Spec) { sp.Mode = ares.AtMostOnce }).ID
	again := storetest.NewJob(t, s).ID
	await(t, srv.view, "both to run", func() bool {
		return phaseOf(srv.view, once) == ares.Running && phaseOf(srv.view, again) == ares.Running
	})
	drainNode(t, s, n.ID, false)
	await(t, srv.view, "the other job to be moved", func() bool { left, _ := srv.view.LeftOn(n.ID); return left == 1 })
	if _, enduring := srv.view.LeftOn(n.ID); len(enduring) != 1 || enduring[0] != once {
		t.Errorf("%v are left, want %s", enduring, once)
	}
	if r := srv.view.Job(once).Run; r.Phase != ares.Running || r.Stop != nil {
		t.Errorf("it was stopped: %+v", r)
	}
	drainNode(t, s, n.ID, true)
	await(t, srv.view, "its end", func() bool { return phaseOf(srv.view, once) == ares.Lost })
	if phaseOf(srv.view, again) != ares.Pending {
		t.Errorf("the other job is %s", phaseOf(srv.view, again))
	}
}
