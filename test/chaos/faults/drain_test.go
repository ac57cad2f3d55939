package faults_test

import (
	"fmt"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/cluster"
)

// TestDrainIsFinishedByTheNextLeader freezes the leader and records a drain
// through the other server. It then kills the frozen leader. The next leader
// must finish the drain of the node, and no job may be lost.
func TestDrainIsFinishedByTheNextLeader(t *testing.T) {
	t.Parallel()
	w := newCluster(t, cluster.Etcd(1))
	hosts := []*cluster.Server{w.StartServer("one"), w.StartServer("two")}
	st := w.Store()
	leader := func() string {
		name, _ := st.Leader(t.Context()) // empty while there is no leader
		return name
	}
	poll(t, patience, "a leader", func() (bool, string) { return leader() != "", "" })
	if leader() != hosts[0].ID() {
		slices.Reverse(hosts)
	}
	old, next := hosts[0], hosts[1]
	c := w.Client(next)
	w.StartAgent("node-a", next, old)
	online(t, c, "node-a")
	var ids []string
	for i := range 4 {
		spec := w.job(fmt.Sprintf("job-%d", i), untilReleased)
		spec.GpuCount, spec.LostAfterSeconds = 1, 60
		ids = append(ids, w.submit(c, spec))
		w.started(ids[i], 1, 1)
	}
	w.StartAgent("node-b", next, old)
	online(t, c, "node-b")
	old.Freeze()
	n, err := c.Drain(t.Context(), "node-a", "new fans", false)
	if err != nil || n.GetDrain().GetSeatsLeft() != 4 {
		t.Fatalf("drain: %v, %v", n.GetDrain(), err)
	}
	old.Kill()
	poll(t, patience, "the node to be empty", func() (bool, string) {
		n, err := c.Node(t.Context(), "node-a")
		return err == nil && n.GetDrain() != nil && n.GetDrain().GetSeatsLeft() == 0, fmt.Sprint(n.GetDrain(), err)
	})
	for i, id := range ids {
		w.started(id, 2, 1)
		w.release(fmt.Sprintf("job-%d", i))
		j := w.ends(c, id, ares.Succeeded)
		at := j.GetAttempts()
		if len(at) != 2 || at[1].GetSeats()[0].GetNode() != "node-b" || at[0].GetOutcome() != string(ares.OutcomeStopped) || j.GetRetries() != 0 {
			t.Errorf("%s: %v", id, at)
		}
		if n := len(of(w.lines(id), "end", 0)); n != 1 {
			t.Errorf("%s ended %d times", id, n)
		}
	}
}
