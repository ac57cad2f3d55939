package quota

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/cluster"
)

// A `judge` checks the quota rules at every revision of the store.
type judge struct {
	mu       sync.Mutex
	state    *engine.State
	tenantOf map[ares.JobID]string
	held     map[ares.JobID]int // GPUs on seats that are not free
	sum      map[string]int     // that number summed by tenant
	most     map[string]int     // peak of that sum
	finished map[ares.JobID]bool
	over     []ares.JobID // jobs whose seats exceeded their tenant's limit
	fits     map[ares.JobID]int
	passed   []ares.JobID // jobs that fitted but were skipped by two decisions
	cycles   int
}

// This function starts a judge that watches the store.
func watch(t *testing.T, c *cluster.Cluster) *judge {
	t.Helper()
	j := &judge{
		state: engine.New(), tenantOf: map[ares.JobID]string{}, held: map[ares.JobID]int{}, sum: map[string]int{}, most: map[string]int{},
		finished: map[ares.JobID]bool{}, fits: map[ares.JobID]int{},
	}
	s, err := store.Open(t.Context(), store.Config{Endpoints: c.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx, j.see) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the watch of the store ended: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return j
}

// This method processes a batch, which holds the changes of one store revision.
func (j *judge) see(b ares.Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.Apply(b)
	placed := false
	for i := range b.Events {
		e := &b.Events[i]
		if e.Job != nil {
			j.tenantOf[e.Job.ID] = e.Job.Tenant
		}
		if e.Run == nil {
			continue
		}
		id, run := e.Run.Job, &e.Run.Run
		placed = placed || run.Phase == ares.Scheduled && run.Last().PlacedAt.Equal(run.Transitions[len(run.Transitions)-1].At)
		if run.Phase.Final() {
			j.finished[id] = true
		}
		j.count(id, run)
	}
	if placed {
		j.cycle()
	}
	return nil
}

// This method computes from a job's seats how many GPUs the job holds.
func (j *judge) count(id ares.JobID, run *ares.Run) {
	gpus := 0
	for i := range run.Attempts {
		for k := range run.Attempts[i].Seats {
			if h := &run.Attempts[i].Seats[k]; !h.State.Free() {
				gpus += len(h.Shares)
			}
		}
	}
	tenant := j.tenantOf[id]
	j.sum[tenant] += gpus - j.held[id]
	j.held[id] = gpus
	j.most[tenant] = max(j.most[tenant], j.sum[tenant])
	if bound, ok := bounds[tenant]; ok && j.sum[tenant] > bound {
		j.over = append(j.over, id)
	}
}

// After each decision, the method `cycle` determines which waiting jobs could
// still be placed. If a job could still be placed after each of three decisions
// in a row, it was skipped by the last two of them.
func (j *judge) cycle() {
	j.cycles++
	fits := map[ares.JobID]int{}
	plan := engine.Decide(j.state, time.Now())
	for i := range plan.Place {
		id := plan.Place[i].Job
		if fits[id] = j.fits[id] + 1; fits[id] == 3 {
			j.passed = append(j.passed, id)
		}
	}
	j.fits = fits
}

// This method returns the number of finished jobs.
func (j *judge) ended() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.finished)
}

func (j *judge) verdict(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.over) > 0 {
		t.Errorf("%d times jobs held more than their tenant may, job %s the first; at most %v of %v GPUs", len(j.over), j.over[0], j.most, bounds)
	}
	if len(j.passed) > 0 {
		t.Errorf("%d jobs fitted and were passed over by two decisions, job %s the first", len(j.passed), j.passed[0])
	}
	for tenant, bound := range bounds {
		if j.most[tenant] < bound-3 {
			t.Errorf("tenant %s never held more than %d of %d GPUs: the test did not come to its edge", tenant, j.most[tenant], bound)
		}
	}
	t.Logf("%d jobs in %d decisions, at most %v of %v GPUs", len(j.finished), j.cycles, j.most, bounds)
}
