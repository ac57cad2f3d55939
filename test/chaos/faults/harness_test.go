package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// Most tests use these time limits. The limits are short, but long enough for a
// busy machine.
const (
	ttl       = 5 // session TTL in seconds
	lostAfter = 8 // lost_after of jobs in seconds
	patience  = cluster.Patience
)

var poll = live.Await

// testCluster is a cluster whose jobs record what they do.
type testCluster struct {
	*cluster.Cluster
	t *testing.T
}

func newCluster(t *testing.T, opts ...cluster.Option) *testCluster {
	t.Helper()
	times := fmt.Sprintf("sessions: {ttl_seconds: %d, brake_percent: 100}\nscheduler: {leader_ttl_seconds: 2}\n", ttl)
	return newDefaultCluster(t, append(opts, cluster.Config(times))...)
}

// newDefaultCluster is like newCluster, but with the default times.
func newDefaultCluster(t *testing.T, opts ...cluster.Option) *testCluster {
	t.Helper()
	w := &testCluster{t: t, Cluster: cluster.Start(t, opts...)}
	if err := os.Mkdir(w.trace(), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.showTraces) // runs before the processes are killed
	return w
}

// showTraces prints the lines that the jobs of a failed test wrote.
func (w *testCluster) showTraces() {
	if !w.t.Failed() {
		return
	}
	names, _ := filepath.Glob(filepath.Join(w.trace(), "*.trace"))
	for _, name := range names[:min(len(names), 8)] {
		data, _ := os.ReadFile(name)
		w.t.Logf("=== %s (end)\n%s", filepath.Base(name), data[max(0, len(data)-1_000):])
	}
}

// This function waits until each of the given nodes has a session.
func online(t *testing.T, c *client.Client, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		poll(t, patience, node+" to be online", func() (bool, string) {
			n, err := c.Node(t.Context(), node)
			return err == nil && n.GetState() == "online", fmt.Sprint(n.GetState(), err)
		})
	}
}
