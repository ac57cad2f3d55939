package federation_test

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestCancel cancels a running job and a job that waits in its cluster. Both must be cancelled by their owner.
func TestCancel(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a")
	running := h.submit(func(s *ares.Spec) { s.GPUs = 8 })
	h.await(running, ares.Running)
	waiting := h.submit(func(s *ares.Spec) { s.GPUs = 8 })
	h.await(waiting, ares.Pending)
	h.cancel(waiting) // no cluster has it: it would wait there for longer than a.uplink.ClaimAhead
	h.await(waiting, ares.Cancelled)
	h.cancel(running)
	a.awaitStop(running)
	close(a.gate)
	h.await(running, ares.Cancelled)
	a.await(running, ares.Cancelled)
	if a.view.Job(waiting) != nil {
		t.Error("a job that was cancelled before it was claimed has reached a cluster")
	}
}

// TestDependencyNeverMet cancels a job at the hub on which another job depends. No cluster may get the other job: it ends at
// the hub.
func TestDependencyNeverMet(t *testing.T) {
	h := newHub(t, func(h *hub) { h.choosing = true })
	first := h.submit(func(s *ares.Spec) { s.GPUs = 8 }) // no cluster has joined yet
	second := h.submit(func(s *ares.Spec) {
		s.GPUs = 8
		s.Start = &ares.StartConditions{Dependencies: []ares.Dependency{{Type: ares.AfterOK, Job: first}}}
	})
	h.cancel(first)
	if e := h.await(second, ares.Cancelled); !strings.Contains(e.Run.Reason, "can never be met") {
		t.Errorf("the reason is %q", e.Run.Reason)
	}
}

// TestReturn drains a cluster that holds a waiting job. The job must be returned, and must run in the other cluster.
func TestReturn(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a")
	id := h.submit(func(s *ares.Spec) { s.GPUs = 8 })
	h.await(id, ares.Running)
	a.claimAll.Store(true)
	held := h.submit(func(s *ares.Spec) { s.GPUs = 8 })
	first := a.grantNow(t, h, held)
	b := newMember(t, h, "b")
	if _, err := h.s.UpdateCluster(t.Context(), "a", func(c *store.Cluster) error {
		c.Decided = store.ClusterDraining
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	a.await(held, ares.Returned)
	e := h.await(held, ares.Running)
	if e.Run.Cluster != "b" || e.Run.Epoch <= first {
		t.Errorf("the returned job is in cluster %q, with epoch %d after %d", e.Run.Cluster, e.Run.Epoch, first)
	}
	close(b.gate)
	h.await(held, ares.Succeeded)
	h.await(id, ares.Running) // what runs there stays
	close(a.gate)
	h.await(id, ares.Succeeded)
}

// awaitStop waits until the member's store has the intent to stop a job. The agent of these tests notices it when the gate
// is closed.
func (m *member) awaitStop(id ares.JobID) {
	m.t.Helper()
	controltest.Await(m.t, m.view, "a stop of "+string(id)+" in "+m.name, func() bool { e := m.view.Job(id); return e != nil && e.Run.Stop != nil })
}

// grantNow waits until a job is bound to the member and is in its store, and returns the epoch.
func (m *member) grantNow(t *testing.T, h *hub, id ares.JobID) int64 {
	t.Helper()
	m.await(id, ares.Pending)
	controltest.Await(t, h.view, "the job to be bound", func() bool { e := h.view.Job(id); return e != nil && e.Run.Cluster == m.name })
	return m.view.Job(id).Job.Origin.Epoch
}

// TestTaken grants a job to a cluster that has another job with the same ID. The other job must stay as it is, and the
// granted job must run elsewhere.
func TestTaken(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a")
	spec := storetest.Sleep()
	ask := storetest.JobOf(h.tenant, spec)
	ask.Job.ID = ares.NewHubJobID(h.tenant.ID, ask.Job.RequestID)
	local := ask
	tenant, err := a.s.Tenant(t.Context(), h.tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	local.TenantRevision = tenant.Revision
	if got := a.s.Create(t.Context(), []store.Creation{local})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	if got := h.s.Create(t.Context(), []store.Creation{ask})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	controltest.Await(t, h.view, "the cluster to be excluded", func() bool {
		e := h.view.Job(ask.Job.ID)
		return e != nil && len(e.Run.ExcludedClusters) == 1
	})
	b := newMember(t, h, "b")
	close(b.gate)
	if e := h.await(ask.Job.ID, ares.Succeeded); e.Run.Cluster != "b" {
		t.Errorf("the job ran in cluster %q", e.Run.Cluster)
	}
	if e := a.view.Job(ask.Job.ID); e.Job.Origin != nil || e.Run.Phase != ares.Running {
		t.Errorf("the local job is %s, with origin %+v", e.Run.Phase, e.Job.Origin)
	}
}

// TestLinkCut cuts the link of the cluster that runs a job. The cluster must finish the job on its own, an open offer must
// go to the other cluster, and the end must reach the hub when the link is back.
func TestLinkCut(t *testing.T) {
	h := newHub(t)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	close(b.gate)
	h.awaitKnown("b")
	b.wire.set(true)
	b.awaitMode(grant.Autonomous)
	id := h.submit(func(s *ares.Spec) { s.GPUs = 8 })
	h.await(id, ares.Running)
	a.awaitMode(grant.Federated)
	open := h.submit() // a is full, so it does not claim this one
	controltest.Await(t, h.view, "an offer", func() bool {
		grants, _, err := h.s.Grants(t.Context())
		return err == nil && len(grants) == 2
	})
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	b.wire.set(false)
	if e := h.await(open, ares.Succeeded); e.Run.Cluster != "b" {
		t.Errorf("the open offer went to cluster %q", e.Run.Cluster)
	}
	close(a.gate)
	a.await(id, ares.Succeeded)
	if got := controltest.PhaseOf(h.view, id); got != ares.Running {
		t.Errorf("the hub says %s of a job whose owner it cannot hear", got)
	}
	a.wire.set(false)
	if e := h.await(id, ares.Succeeded); e.Run.Cluster != "a" || e.Run.Placed != 1 {
		t.Errorf("it ran in %q, %d times", e.Run.Cluster, e.Run.Placed)
	}
	a.awaitMode(grant.Federated)
}

// TestHubRestart restarts the hub's server while jobs run. Nothing may be started twice.
func TestHubRestart(t *testing.T) {
	h := newHub(t)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	var jobs []ares.JobID
	for range 12 {
		jobs = append(jobs, h.submit())
	}
	controltest.Await(t, h.view, "every job to be placed", func() bool {
		for _, id := range jobs {
			if e := h.view.Job(id); e == nil || e.Run.Placed == 0 {
				return false
			}
		}
		return true
	})
	h.stop()
	close(a.gate)
	close(b.gate)
	controltest.Await(t, a.view, "the jobs to end in their clusters", func() bool {
		return a.view.Phases()[ares.Succeeded]+b.view.Phases()[ares.Succeeded] == len(jobs)
	})
	h.start(h.addr)
	for _, id := range jobs {
		if e := h.await(id, ares.Succeeded); e.Run.Placed != 1 {
			t.Errorf("job %s was placed %d times", id, e.Run.Placed)
		}
	}
}

// TestMemberRestart restarts the server of a cluster at once after jobs were submitted, in whatever state its claims are.
func TestMemberRestart(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a")
	close(a.gate)
	var jobs []ares.JobID
	for round := range 4 {
		for range 4 {
			jobs = append(jobs, h.submit())
		}
		controltest.Await(t, h.view, "a claim", func() bool {
			n := 0
			for _, id := range jobs[round*4:] {
				if e := h.view.Job(id); e != nil && e.Run.Cluster != "" {
					n++
				}
			}
			return n > 0
		})
		a.stop()
		a.start()
		controltest.Agent(t, a.s, a.view, a.node, a.gate)
	}
	for _, id := range jobs {
		if e := h.await(id, ares.Succeeded); e.Run.Placed != 1 {
			t.Errorf("job %s was placed %d times", id, e.Run.Placed)
		}
	}
}

// TestDeclaredDead declares a cluster dead whose link is cut. Its job must run in the other cluster. When it is back, it
// must stop its own run of the job and be a member again.
func TestDeclaredDead(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a")
	id := h.submit()
	first := h.await(id, ares.Running).Run.Epoch
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	b := newMember(t, h, "b")
	close(b.gate)
	if _, err := h.s.UpdateCluster(t.Context(), "a", func(c *store.Cluster) error {
		c.Decided, c.StateSince = store.ClusterDead, time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if e := h.await(id, ares.Succeeded); e.Run.Cluster != "b" || e.Run.Epoch <= first {
		t.Errorf("it ran in %q with epoch %d after %d", e.Run.Cluster, e.Run.Epoch, first)
	}
	a.await(id, ares.Running)
	a.wire.set(false)
	a.awaitStop(id)
	close(a.gate)
	a.await(id, ares.Cancelled)
	a.awaitMode(grant.Federated)
	if e := h.view.Job(id); e.Run.Phase != ares.Succeeded || e.Run.Cluster != "b" {
		t.Errorf("at the hub the job is %s in %q", e.Run.Phase, e.Run.Cluster)
	}
}
