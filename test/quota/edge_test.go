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
	"github.com/ares-scheduler/ares/test/live"
)

const (
	submitters = 64
	jobs       = 10_000
	nodes      = 4 // of 8 GPUs: more than all tenants may hold, so it is quotas that bind
)

// The tenants stand for the two ways to bound a tenant.
var bounds = map[string]int{
	"limited":  10, // max_gpus
	"promised": 12, // a quota without borrowing
}

// TestManyAtTheEdgeOfAQuota: 64 clients submit 10,000 jobs through two servers,
// many more than two tenants may run at once. At no revision do their jobs hold more
// than they may, nothing that fits is passed over by two decisions, and all are run.
func TestManyAtTheEdgeOfAQuota(t *testing.T) {
	t.Parallel()
	p := startPlant(t, "")
	admin := p.client(t, 0)
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
	judge := watch(t, p)
	p.startAgents(t, nodes)

	var all sync.WaitGroup
	for i := range submitters {
		all.Go(func() { submit(t, p.client(t, i%2), i) })
	}
	all.Wait()
	live.AwaitCount(t, time.Minute, "jobs that have ended", jobs, judge.ended)
	judge.verdict(t)
}

func unlimited() *int32 { return new(int32(ares.Unlimited)) }

// submit hands in one client's part of the jobs, a few at a time.
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
