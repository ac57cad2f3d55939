package quota

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/live"
)

// TestARedisThatFailsChangesNoAnswer: requests are repeated through two servers while
// the Redis beside them is killed, stopped and started empty. Each request is one job,
// and every answer says so.
func TestARedisThatFailsChangesNoAnswer(t *testing.T) {
	t.Parallel()
	addr := live.FreeAddr(t)
	p := startPlant(t, fmt.Sprintf("redis: {url: \"redis://%s/0\"}\n", addr))
	start := func() *os.Process {
		_, port, _ := net.SplitHostPort(addr)
		return p.process(t, "redis", live.Program(t, "ARES_TEST_REDIS", "/usr/bin/redis-server", "make needs"),
			"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", p.dir)
	}
	redis := start()
	harm := func(round int) {
		switch round % 4 {
		case 1:
			_ = redis.Kill() // what is gone already is as good
		case 2:
			redis = start()
		case 3:
			_ = redis.Signal(syscall.SIGSTOP)
		default:
			_ = redis.Signal(syscall.SIGCONT)
		}
	}
	const rounds, requests = 9, 40
	servers := [2]*client.Client{p.client(t, 0), p.client(t, 1)}
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
	// Half of them came through the other server, of which this one hears.
	live.AwaitCount(t, time.Minute, "jobs in the list", rounds*requests, func() int { return count(t, servers[0]) })
	if jobs := count(t, servers[0]); jobs != rounds*requests {
		t.Errorf("%d requests became %d jobs", rounds*requests, jobs)
	}
	// It is left alone for a while, so it is asked until it has answered again.
	said, more := "", 0
	live.Await(t, time.Minute, "the logs to tell of Redis", func() (bool, string) {
		more++
		askTwice(t, servers, fmt.Sprintf("again-%d", more))
		said = p.log(t, "server0") + p.log(t, "server1")
		return strings.Contains(said, "redis does not answer") && strings.Contains(said, "redis answers again"), said
	})
	if strings.Contains(said, "\nredis: ") {
		t.Error("the library of Redis writes lines of its own into a server's log")
	}
}

// count is how many jobs a server lists.
func count(t *testing.T, c *client.Client) int {
	t.Helper()
	got, err := c.Jobs(t.Context(), &apipb.ListJobsRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	return int(got.GetTotal())
}

// askTwice makes one request through both servers at once, and once more after.
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

// TestARateHoldsOverTwoServers: who may call so often may do so at both together.
func TestARateHoldsOverTwoServers(t *testing.T) {
	t.Parallel()
	addr := live.FreeAddr(t)
	p := startPlant(t, fmt.Sprintf("redis: {url: \"redis://%s/0\", timeout_ms: 1000}\nlimits: {calls_per_second: 0.01, calls_at_once: 20}\n", addr))
	_, port, _ := net.SplitHostPort(addr)
	p.start(t, "redis", live.Program(t, "ARES_TEST_REDIS", "/usr/bin/redis-server", "make needs"),
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", p.dir)
	live.Await(t, 30*time.Second, "Redis to listen", func() (bool, string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false, err.Error()
		}
		return c.Close() == nil, "it does not close"
	})
	one := p.as(t, 0, "admin.token")
	other, err := client.New(client.Options{Addresses: []string{p.grpc[1]}, TokenFile: p.dir + "/server0/admin.token", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
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
