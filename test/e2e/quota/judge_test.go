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
	fits     map[ares.JobID]fitting
	passed   []ares.JobID // jobs that fitted but were skipped
	cycles   int
}

// A `fitting` says since when a waiting job could have been placed.
type fitting struct {
	since     time.Time
	decisions int // made since then
}

// maxLag is how far the state on which a server decides may be behind the store, on a busy machine.
const maxLag = 2 * time.Second

// This function starts a judge that watches the store.
func watch(t *testing.T, c *cluster.Cluster) *judge {
	t.Helper()
	j := &judge{
		state: engine.New(), tenantOf: map[ares.JobID]string{}, held: map[ares.JobID]int{}, sum: map[string]int{}, most: map[string]int{},
		finished: map[ares.JobID]bool{}, fits: map[ares.JobID]fitting{},
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
// still be placed. A job was skipped if it could still be placed after each of
// three decisions in a row, and during maxLag: a server decides on the state that
// it has seen, and several decisions may follow before it sees that GPUs are free.
func (j *judge) cycle() {
	j.cycles++
	fits, now := map[ares.JobID]fitting{}, time.Now()
	plan := engine.Decide(j.state, now)
	for i := range plan.Place {
		id := plan.Place[i].Job
		f := j.fits[id]
		if f.decisions == 0 {
			f.since = now
		}
		if f.decisions++; f.decisions >= 3 && now.Sub(f.since) >= maxLag {
			j.passed = append(j.passed, id)
		}
		fits[id] = f
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
		t.Errorf("%d times a job fitted and was passed over, job %s the first", len(j.passed), j.passed[0])
	}
	for tenant, bound := range bounds {
		if j.most[tenant] < bound-3 {
			t.Errorf("tenant %s never held more than %d of %d GPUs: the test did not come to its edge", tenant, j.most[tenant], bound)
		}
	}
	t.Logf("%d jobs in %d decisions, at most %v of %v GPUs", len(j.finished), j.cycles, j.most, bounds)
}
