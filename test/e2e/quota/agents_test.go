package quota

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// The variable `patient` holds the client options of this suite. With these
// options, clients retry calls to a busy server.
var patient = client.Options{CallTimeout: time.Minute, Attempts: 20}

// startAgents opens sessions for nodes whose jobs end as soon as they start.
func startAgents(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var all, opened sync.WaitGroup
	for i := range n {
		at := c.Servers[i%len(c.Servers)]
		o := patient
		o.Token = at.File(server.NodeTokenFile)
		calls := apipb.NewAgentServiceClient(c.ClientWith(o, at).Conn())
		name := fmt.Sprintf("node-%d", i)
		opened.Add(1)
		once := sync.OnceFunc(opened.Done)
		a := &cluster.FakeAgent{
			Name: name, Instance: "instance-of-" + name, Delay: 2 * time.Second, Every: 2 * time.Second, Opened: once,
			Renewed: func(_ time.Time, err error) error {
				if err != nil {
					t.Logf("renew %s: %v", name, err) // the next renewal may succeed
				}
				return nil
			},
			Seat: cluster.Succeed(func(err error) { t.Log(err) }),
		}
		all.Go(func() {
			defer once()
			if err := a.Serve(ctx, calls, nil); ctx.Err() == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	opened.Wait()
}

// startRedis starts a Redis without persistence.
func startRedis(t *testing.T, c *cluster.Cluster, addr string) *cluster.Process {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	return c.Run("redis", nil, live.Redis.Path(t), "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", c.Dir)
}
