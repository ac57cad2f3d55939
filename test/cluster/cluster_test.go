package cluster_test

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// TestCluster checks that a test can kill, freeze and restart the harness's
// processes and read their logs. No process may survive the test.
func TestCluster(t *testing.T) {
	dir := ""
	if !t.Run("used", func(t *testing.T) {
		c := cluster.Start(t, cluster.Servers(2), cluster.Etcd(1), cluster.TLS(), cluster.Agents(4))
		dir = c.Dir
		if n := len(c.Members()); n < 7 {
			t.Errorf("%d processes, want an etcd, two servers and four agents", n)
		}
		one, two := c.Servers[0], c.Servers[1]
		one.Kill()
		if _, _, err := one.Get("/api/v1/ready"); err == nil {
			t.Error("a killed server answers")
		}
		if _, err := c.Client(two).Submit(t.Context(), &apipb.JobSpec{Command: []string{"sleep", "1000"}}); err != nil {
			t.Error(err)
		}
		one.Start()
		one.AwaitReady()
		thaw := two.Freeze()
		if s := cluster.State(two.Pid()); s != "T" {
			t.Errorf("a frozen server is in state %q", s)
		}
		thaw()
		live.Await(t, cluster.Patience, "the thawed server to answer", func() (bool, string) {
			status, said, _ := two.Get("/api/v1/ready")
			return status == http.StatusOK, said
		})
		two.Stop(syscall.SIGTERM, cluster.Patience)
		if state := two.Exit(cluster.Patience); !state.Success() || two.Log() == "" {
			t.Errorf("an interrupted server ended with %s and this log: %s", state, two.Log())
		}
		if one.Metric("go_goroutines") == 0 || one.CPU() == 0 {
			t.Error("a server without goroutines or processor time")
		}
		if _, err := c.Client(one).Nodes(t.Context()); err != nil {
			t.Error(err)
		}
	}) {
		return
	}
	if left := cluster.ProcessesOf(dir); len(left) > 0 {
		t.Errorf("processes survived the test: %v", left)
	}
}
