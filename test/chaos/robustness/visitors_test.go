package robustness_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// A visitors is users who run commands beside running jobs, and leave them at some time. The commands ignore signals, and some leave
// processes behind. None may live after its job: they hold locks, which the witnesses of later jobs look for.
type visitors struct {
	fleet  *fleet
	record string
	began  atomic.Int64 // commands that have started
}

// The number of users at the same time.
const visitorCount = 3

// The method `run` visits jobs until ctx ends.
func (v *visitors) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range uint64(visitorCount) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(*seed, 2000+i))
			for pause.For(ctx, time.Duration(100+rng.IntN(400))*time.Millisecond) {
				v.visit(ctx, rng)
			}
		})
	}
	wg.Wait()
}

// The method `visit` runs one command. That may fail for many reasons, while there are faults.
func (v *visitors) visit(ctx context.Context, rng *rand.Rand) {
	c := v.fleet.client(rng.IntN(len(v.fleet.controls)), 2*time.Second)
	defer func() { _ = c.Close() }() // its calls have ended
	list, err := c.Jobs(ctx, &apipb.ListJobsRequest{State: []string{"running"}, PageSize: 100})
	if err != nil || len(list.GetJobs()) == 0 {
		return
	}
	job := list.GetJobs()[rng.IntN(len(list.GetJobs()))]
	ctx, leave := context.WithTimeout(ctx, time.Duration(200+rng.IntN(4000))*time.Millisecond)
	defer leave()
	life := time.Duration(1+rng.IntN(20)) * time.Second
	argv := []string{live.Witness.Path(v.fleet.t), "-beside", "-to", v.record + "/" + trace.JobsDir, "-for", life.String(), "-orphan=" + strconv.FormatBool(rng.IntN(2) == 0)}
	_, _ = c.Exec(ctx, job.GetJobId(), client.ExecOptions{
		Rank: rng.IntN(int(max(job.GetMembers(), 1))), Argv: argv, Started: func() { v.began.Add(1) },
	})
}

// The method `judge` fails the test if there was hardly any visit.
func (v *visitors) judge(t *testing.T) {
	t.Helper()
	t.Logf("%d commands ran beside jobs", v.began.Load())
	if least := int64(*length / (10 * time.Second)); v.began.Load() < least {
		t.Errorf("%d commands ran beside jobs, want %d: the run shows nothing about them", v.began.Load(), least)
	}
}
