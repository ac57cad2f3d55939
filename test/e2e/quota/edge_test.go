package quota

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

const (
	submitters = 64
	jobs       = 10_000
	nodes      = 4 // with 8 GPUs each: more than all tenants may use, so that the quotas are the limit
)

// One tenant has a limit on its GPUs, and the other tenant has a quota without borrowing.
var bounds = map[string]int{
	"limited":  10, // max_gpus
	"promised": 12, // a quota without borrowing
}

// TestManyAtTheEdgeOfAQuota submits 10,000 jobs from 64 clients through two servers. The
// two tenants may run only a few of these jobs at the same time. The test checks that a
// tenant's jobs never use more GPUs than its limit. It also checks that decisions
// do not go on skipping a job that fits. All jobs must run.
func TestManyAtTheEdgeOfAQuota(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Etcd(1), cluster.Servers(2))
	admin := c.Client(c.Servers[0])
	for id, gpus := range bounds {
		of := &apipb.Tenant{
			Id: id, Name: id, MaxGpus: unlimited(), MaxGpuMemoryMb: unlimited(), MaxCpuCores: unlimited(),
			MaxMemoryMb: unlimited(), MaxConcurrentJobs: unlimited(), MaxPendingJobs: unlimited(),
		}
		if id == "limited" {
			of.MaxGpus = new(int32(gpus))
		} else {
			of.Quotas = []*apipb.Quota{{GpuModel: "h100", NominalGpus: int32(gpus), BorrowingLimit: new(int32(0))}}
		}
		if _, err := admin.CreateTenant(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	judge := watch(t, c)
	startAgents(t, c, nodes)

	var all sync.WaitGroup
	for i := range submitters {
		all.Go(func() { submit(t, c.ClientWith(patient, c.Servers[i%2]), i) })
	}
	all.Wait()
	live.AwaitCount(t, time.Minute, "jobs that have ended", jobs, judge.ended)
	judge.verdict(t)
}

func unlimited() *int32 { return new(int32(ares.Unlimited)) }

// This function submits one client's share of the jobs, a few at a time.
func submit(t *testing.T, c *client.Client, nth int) {
	draw := rand.New(rand.NewPCG(7, uint64(nth)))
	for left := jobs/submitters + min(1, max(0, jobs%submitters-nth)); left > 0; {
		var specs []*apipb.JobSpec
		for range min(left, 1+draw.IntN(8)) {
			tenant := "limited"
			if draw.IntN(2) == 0 {
				tenant = "promised"
			}
			specs = append(specs, &apipb.JobSpec{
				Name: "edge", TenantId: tenant, Command: []string{"true"}, GpuCount: int32(1 + draw.IntN(4)), Priority: new(int32(draw.IntN(600))),
			})
		}
		got, err := c.SubmitBatch(context.WithoutCancel(t.Context()), specs)
		if err != nil {
			t.Errorf("submit: %v", err)
			return
		}
		left -= len(got.GetResults())
	}
}
