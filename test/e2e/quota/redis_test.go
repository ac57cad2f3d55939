package quota

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// TestARedisThatFailsChangesNoAnswer repeats requests through two servers while
// their Redis is killed, stopped and started empty. Each request must create
// exactly one job, and every answer must name that job.
func TestARedisThatFailsChangesNoAnswer(t *testing.T) {
	t.Parallel()
	addr := live.FreeAddr(t)
	c := cluster.Start(t, cluster.Etcd(1), cluster.Servers(2), cluster.Config(fmt.Sprintf("redis: {url: \"redis://%s/0\"}\n", addr)))
	redis := startRedis(t, c, addr)
	harm := func(round int) {
		switch round % 4 {
		case 1:
			redis.Kill()
		case 2:
			redis.Start()
		case 3:
			redis.Freeze()
		default:
			redis.Thaw()
		}
	}
	const rounds, requests = 9, 40
	servers := [2]*client.Client{c.ClientWith(patient, c.Servers[0]), c.ClientWith(patient, c.Servers[1])}
	for round := range rounds {
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() { askTwice(t, servers, fmt.Sprintf("round-%d-%d", round, i)) })
			if i == requests/2 {
				harm(round)
			}
		}
		all.Wait()
	}
	// Half of the jobs were submitted through the second server, so the first
	// server needs a moment to see them.
	live.AwaitCount(t, time.Minute, "jobs in the list", rounds*requests, func() int { return count(t, servers[0]) })
	if jobs := count(t, servers[0]); jobs != rounds*requests {
		t.Errorf("%d requests became %d jobs", rounds*requests, jobs)
	}
	// After Redis has failed, a server does not use it for a while. The test
	// therefore repeats requests until the servers use Redis again.
	said, more := "", 0
	live.Await(t, time.Minute, "the logs to tell of Redis", func() (bool, string) {
		more++
		askTwice(t, servers, fmt.Sprintf("again-%d", more))
		said = c.Servers[0].Log() + c.Servers[1].Log()
		return strings.Contains(said, "redis does not answer") && strings.Contains(said, "redis answers again"), said
	})
	if strings.Contains(said, "\nredis: ") {
		t.Error("the library of Redis writes lines of its own into a server's log")
	}
}

// This function returns the number of jobs that a server lists.
func count(t *testing.T, c *client.Client) int {
	t.Helper()
	got, err := c.Jobs(t.Context(), &apipb.ListJobsRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	return int(got.GetTotal())
}

// askTwice makes the same request through both servers at the same time. It
// then makes the request once more.
func askTwice(t *testing.T, servers [2]*client.Client, request string) {
	want := string(ares.NewJobID(ares.DefaultTenant, request))
	ask := func(c *client.Client) bool {
		got, err := c.Submit(t.Context(), &apipb.JobSpec{RequestId: request, Command: []string{"true"}, GpuCount: 1})
		if err != nil || got.GetJobId() != want {
			t.Errorf("request %s: %v, %v", request, got, err)
		}
		return got.GetStatus() == "duplicate"
	}
	var first [2]bool
	var both sync.WaitGroup
	for i, c := range servers {
		both.Go(func() { first[i] = ask(c) })
	}
	both.Wait()
	if first[0] == first[1] {
		t.Errorf("request %s: of two at once one is new, got duplicates %v", request, first)
	}
	if !ask(servers[0]) {
		t.Errorf("request %s: a repetition is not called one", request)
	}
}

// TestARateHoldsOverTwoServers checks that two servers enforce one common rate
// limit for a caller.
func TestARateHoldsOverTwoServers(t *testing.T) {
	t.Parallel()
	addr := live.FreeAddr(t)
	cl := cluster.Start(t, cluster.Etcd(1), cluster.Servers(2),
		cluster.Config(fmt.Sprintf("redis: {url: \"redis://%s/0\", timeout_ms: 1000}\nlimits: {calls_per_second: 0.01, calls_at_once: 20}\n", addr)))
	startRedis(t, cl, addr)
	live.Await(t, 30*time.Second, "Redis to listen", func() (bool, string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false, err.Error()
		}
		return c.Close() == nil, "it does not close"
	})
	one := cl.ClientWith(patient, cl.Servers[0])
	other := cl.ClientWith(client.Options{Token: cl.Servers[0].File(server.AdminTokenFile), Attempts: 1}, cl.Servers[1])
	let := 0
	for i := range 60 {
		c := apipb.NewTenantServiceClient([2]*client.Client{one, other}[i%2].Conn())
		_, err := c.ListTenants(t.Context(), &apipb.ListTenantsRequest{})
		switch code := ares.CodeOf(apipb.FromStatus(err)); {
		case err == nil:
			let++
		case code != ares.Exhausted:
			t.Fatal(err)
		}
	}
	if let != 20 {
		t.Errorf("%d calls were let through, want 20 over both servers", let)
	}
}
