package faults_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/cluster"
)

// TestRevokedNodeIsALostOneAtOnce revokes a healthy node. The node's session
// must end immediately, and no further job may be placed on the node. The
// node's running job may live until lost_after has passed since the last
// session renewal. The job's next attempt must therefore wait that long.
func TestRevokedNodeIsALostOneAtOnce(t *testing.T) {
	t.Parallel()
	w := newCluster(t, cluster.TLS(), cluster.Etcd(1))
	s, other := w.StartServer("server"), w.StartServer("other")
	c := w.Client(s)
	w.StartAgent("node-a", other, s) // its session is at the server that does not get the request
	online(t, c, "node-a")
	moves := w.job("moves", stubborn)
	moves.GpuCount = 1
	id := w.submit(c, moves)
	first := w.started(id, 1, 1)[0]
	w.state(c, id, ares.Running)
	d := watch(t, first.pid)
	w.StartAgent("node-b", s)
	online(t, c, "node-b")

	asked := time.Now()
	if _, err := c.RevokeNode(t.Context(), "node-a", "taken over"); err != nil {
		t.Fatal(err)
	}
	n, err := c.Node(t.Context(), "node-a")
	if err != nil || n.GetState() != string(ares.Suspect) {
		t.Errorf("revoked, node-a is %s, %v; want it without a session", n.GetState(), err)
	}
	// Each node has three free GPUs, but only the GPUs of node-b may be used.
	wide := make([]string, 2)
	for i := range wide {
		spec := w.job(fmt.Sprint("wide-", i), untilReleased)
		spec.GpuCount = 3
		wide[i] = w.submit(c, spec)
	}
	got := voided(t, c, id, 1, d)
	if waited := got.GetEndedAt().AsTime().Sub(asked); waited < lostAfter*time.Second {
		t.Errorf("taken back %s after the revocation, want %d s at least", waited, lostAfter)
	}
	second := w.started(id, 2, 1)
	after(t, second, d)
	w.release("moves")
	j := w.ends(c, id, ares.Succeeded)
	if len(j.GetAttempts()) != 2 || j.GetAttempts()[1].GetSeats()[0].GetNode() != "node-b" || j.GetRetries() != 0 {
		t.Errorf("want attempt 2 on node-b and no retry used; got %v, retries %d", j.GetAttempts(), j.GetRetries())
	}
	placed := 0
	for _, id := range wide {
		j, err := c.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range j.GetAttempts() {
			placed++
			if node := a.GetSeats()[0].GetNode(); node != "node-b" {
				t.Errorf("%s was placed on %s, which was revoked", id, node)
			}
		}
	}
	if placed != 1 {
		t.Errorf("%d attempts of jobs that came after the revocation, want one on node-b", placed)
	}
}
