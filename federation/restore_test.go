package federation_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The function `backup` writes a backup of a store into a file.
func backup(t *testing.T, s *store.Store) string {
	t.Helper()
	var data bytes.Buffer
	if err := s.Backup(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The function `restore` returns a store that was restored from a backup.
func restore(t *testing.T, file string) *store.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := store.Restore(t.Context(), dir, store.Restoration{File: file, Hold: 10 * time.Millisecond, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{Dir: dir, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inB makes a job run in cluster b only.
func inB(s *ares.Spec) { s.EditPlacement().Clusters = []string{"b"} }

// TestHubRestored restores the hub from a backup in which two jobs wait and one is bound. Since then cluster b has joined, one
// of the waiting jobs has ended there and the other one runs. The restored hub must learn of b from a, must not start any of
// the jobs again, and must grant nothing before both clusters have answered.
func TestHubRestored(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	bound := h.submit()
	a.claimSeat(t, bound)
	h.await(bound, ares.Running)
	ended, runs, left := h.submit(inB), h.submit(inB), h.submit(func(s *ares.Spec) { s.GPUs = 9 })
	h.await(left, ares.Pending)
	file := backup(t, h.s)
	b := newIdleMember(t, h, "b")
	for _, id := range []ares.JobID{ended, runs} {
		b.claimSeat(t, id)
		h.await(id, ares.Running)
	}
	epoch := h.view.Job(runs).Run.Epoch
	b.finishSeat(t, ended, ares.OutcomeSucceeded)
	h.await(ended, ares.Succeeded)
	h.stop()
	a.finishSeat(t, bound, ares.OutcomeSucceeded)

	h.s = restore(t, file)
	a.wire.set(true)
	b.wire.set(true)
	h.start(h.addr)
	waits := func(name string) {
		t.Helper()
		controltest.Await(t, h.view, "the hub to wait for "+name, func() bool { return h.hub.WaitsFor() == name })
		if e := h.view.Job(ended); e == nil || e.Run.Phase != ares.Pending {
			t.Errorf("before %s has answered: %+v", name, e)
		}
	}
	waits("a")
	a.wire.set(false)
	waits("b")
	b.wire.set(false)
	for _, id := range []ares.JobID{bound, ended} {
		if e := h.await(id, ares.Succeeded); e.Run.Placed != 1 {
			t.Errorf("job %s: %+v", id, e.Run)
		}
	}
	if e := h.await(runs, ares.Running); e.Run.Cluster != "b" || e.Run.Epoch != epoch {
		t.Errorf("the running job is in %q with epoch %d, want %d", e.Run.Cluster, e.Run.Epoch, epoch)
	}
	b.finishSeat(t, runs, ares.OutcomeSucceeded)
	if e := h.await(runs, ares.Succeeded); e.Run.Placed != 1 {
		t.Errorf("it was placed %d times", e.Run.Placed)
	}
	again := h.submit()
	controltest.Await(t, h.view, "a new grant", func() bool { e := h.view.Job(again); return e != nil && e.Run.Epoch > epoch })
	next := h.submit(inB)
	b.claimSeat(t, next)
	h.await(next, ares.Running)
}

// TestLearnedClusterIsDead declares a cluster dead that a restored hub knows only from another cluster. The hub must then go on,
// and the job of the dead cluster must run elsewhere.
func TestLearnedClusterIsDead(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	h.awaitKnown("a")
	file := backup(t, h.s)
	b := newIdleMember(t, h, "b")
	h.awaitKnown("b")
	h.stop()
	b.stop()

	h.s = restore(t, file)
	h.start(h.addr)
	controltest.Await(t, h.view, "the hub to wait for b", func() bool { return h.hub.WaitsFor() == "b" })
	id := h.submit()
	if _, err := h.s.UpdateCluster(t.Context(), "b", func(c *store.Cluster) error {
		c.Decided, c.StateSince = store.ClusterDead, time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	a.claimSeat(t, id)
	h.await(id, ares.Running)
}

// TestMemberRestored restores a cluster from a backup. It must run the job that the backup has, with a higher token, and
// must not run the job that it returned since.
func TestMemberRestored(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	id := h.submit()
	a.claimSeat(t, id)
	h.await(id, ares.Running)
	first := a.view.Job(id)
	token := first.Run.FencingToken(first.Job, first.Run.Current())
	a.claimAll.Store(true)
	lost := h.submit(func(s *ares.Spec) { s.GPUs = 9 })
	file := backup(t, a.s)
	a.grantNow(t, h, lost)
	a.stop()

	a.claimAll.Store(false)
	a.s = restore(t, file)
	a.start()
	a.node.Open(t, a.s, time.Minute)
	if err := a.s.Clear(t.Context(), id, a.node.ID, a.node.Session, nil); err != nil { // nothing of it runs there any more
		t.Fatal(err)
	}
	a.claimSeat(t, id)
	e := a.view.Job(id)
	if next := e.Run.FencingToken(e.Job, e.Run.Current()); next <= token {
		t.Errorf("the token %d follows %d", next, token)
	}
	controltest.Await(t, h.view, "the job that the backup does not have to wait again", func() bool {
		e := h.view.Job(lost)
		return e != nil && e.Run.Cluster == "" && e.Run.Phase == ares.Pending
	})
	a.finishSeat(t, id, ares.OutcomeSucceeded)
	h.await(id, ares.Succeeded)
	if a.view.Job(lost) != nil {
		t.Error("the restored cluster has a job that it claimed after the backup")
	}
}

// TestCopy lets a store speak that has the cookie of an earlier session, as a copy of the store has. The hub must refuse it.
func TestCopy(t *testing.T) {
	h := newHub(t)
	a := newIdleMember(t, h, "a")
	id := h.submit()
	a.claimSeat(t, id)
	h.await(id, ares.Running)
	if _, err := a.s.UpdateMembership(t.Context(), func(m *store.Membership) error {
		m.Cookie = "of an earlier session"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	refused := make(chan string, 100)
	h.alarm.Store(&refused)
	a.wire.set(false)
	controltest.Await(t, h.view, "the refusal of the copy", func() bool { return len(refused) > 0 })
	if mode, _, why := a.uplink.Mode(); mode != grant.Autonomous || why == "" {
		t.Errorf("the copy is %s, %s", mode, why)
	}
	if e := h.view.Job(id); e.Run.Cluster != "a" {
		t.Errorf("the job of the original was taken away: %+v", e.Run)
	}
}

// TestCopyOfBusyStore lets a copy of a store speak that has the cookie of the open session. The cluster itself has written something since,
// and its heartbeats have told the hub. The hub must refuse the copy, and the session of the cluster must go on. The next leader of the hub
// must refuse the copy too.
func TestCopyOfBusyStore(t *testing.T) {
	h, b := newHub(t), newBeats()
	a := newIdleMember(t, h, "a", func(m *member) { m.wire.options = append(m.wire.options, b.count()) })
	a.awaitMode(grant.Federated)
	id, revision, err := a.s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.s.Membership(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := h.s.Cluster(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	hello := &apipb.MemberHello{
		Cluster: "a", Protocol: 1, StoreId: id.Store, RestoreId: id.Restore, Revision: revision, Cookie: m.Cookie, Incarnation: c.Incarnation,
	}
	storetest.NewTenant(t, a.s)
	h.awaitSeen("a", revision+1)

	h.checkRefused(hello)
	b.received.Store(0)
	if err = b.await(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	b.checkOneStream(t)

	a.stop()
	h.stop()
	h.start(h.addr)
	h.checkRefused(hello)
}

// awaitSeen waits until the hub has written that a cluster's store has reached a revision.
func (h *hub) awaitSeen(name string, revision int64) {
	h.t.Helper()
	controltest.Await(h.t, h.view, "the revision of "+name, func() bool {
		c, err := h.s.Cluster(h.t.Context(), name)
		return err == nil && c.SeenRevision >= revision
	})
}

// checkRefused says hello to the hub's leader as a copy of a cluster's store.
func (h *hub) checkRefused(hello *apipb.MemberHello) {
	h.t.Helper()
	conn, err := (&wire{}).dialAt(h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	var stream apipb.FederationService_ConnectClient
	controltest.Await(h.t, h.view, "the greeting of a leader", func() bool {
		if stream, err = apipb.NewFederationServiceClient(conn).Connect(h.t.Context()); err == nil {
			_, err = stream.Recv()
		}
		return err == nil
	})
	if err = stream.Send(&apipb.MemberMessage{Body: &apipb.MemberMessage_Hello{Hello: hello}}); err != nil {
		h.t.Fatal(err)
	}
	if answer, err := stream.Recv(); ares.CodeOf(apipb.FromStatus(err)) != ares.Forbidden {
		h.t.Errorf("the copy is answered %v, %v", answer, err)
	}
	if c, err := h.s.Cluster(h.t.Context(), hello.Cluster); err != nil || c.Refused == "" || c.RefusedAt.IsZero() {
		h.t.Errorf("the stored refusal: %q at %v, %v", c.Refused, c.RefusedAt, err)
	}
}
