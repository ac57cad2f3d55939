package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestBatcherWritesEachJobOnce drives the batcher without a store: every
// caller is answered, every job flies once, and every limit of a flight holds.
func TestBatcherWritesEachJobOnce(t *testing.T) {
	const callers = 400
	var b batcher
	var flights, flown atomic.Int32
	b.flush = func(ctx context.Context, batch []*creation) {
		if n := flights.Add(1); n > maxFlights {
			t.Errorf("%d flights at once", n)
		}
		defer flights.Add(-1)
		if ctx.Err() != nil {
			t.Error("a caller's own end reached a shared flight")
		}
		tenants, size := map[string]bool{}, 0
		for _, c := range batch {
			tenants[c.tenant] = true
			size += len(c.value)
			if c.out.ID != "" {
				t.Errorf("job %s flies twice", c.id)
			}
			c.out.ID = c.id
			flown.Add(1)
		}
		if len(batch) == 0 || len(batch) > maxBatch || len(tenants) > maxBatchTenants || size > maxBatchBytes {
			t.Errorf("a flight of %d jobs, %d tenants, %d bytes", len(batch), len(tenants), size)
		}
		for range len(batch) % 5 {
			runtime.Gosched()
		}
	}
	large := strings.Repeat("x", 40_000)
	var total atomic.Int32
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(caller)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for round := range 4 {
				n := 1 + rng.IntN(300)
				if rng.IntN(3) > 0 {
					n = 1 + rng.IntN(3)
				}
				out := make([]Created, n)
				items := make([]*creation, n)
				for i := range items {
					items[i] = &creation{
						id: ares.JobID(fmt.Sprintf("job-%d-%d-%d", caller, round, i)), out: &out[i],
						tenant: fmt.Sprint("tenant-", rng.IntN(60)), value: large[:rng.IntN(len(large))],
					}
				}
				total.Add(int32(n))
				if rng.IntN(8) == 0 {
					cancel()
				}
				b.do(ctx, items)
				for i := range out {
					if out[i].ID != items[i].id {
						t.Errorf("caller %d came back before its job %d was written", caller, i)
					}
				}
			}
		})
	}
	wg.Wait()
	if flown.Load() != total.Load() || b.flights != 0 || len(b.waiting) != 0 {
		t.Errorf("%d of %d jobs flown, %d flights and %d callers left", flown.Load(), total.Load(), b.flights, len(b.waiting))
	}
}

// TestAnArchivedJobIsNotChanged lets a whole life pass between a verb's read
// and its write: the job has no run then, as it had none before.
func TestAnArchivedJobIsNotChanged(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tenant, err := s.CreateTenant(t.Context(), ares.Tenant{ID: "t", Limits: ares.NoLimits()})
	if err != nil {
		t.Fatal(err)
	}
	job := &ares.Job{Spec: ares.Spec{Tenant: "t", Command: []string{"true"}}.WithDefaults(), ID: ares.NewJobID("t", "r")}
	if c := s.Create(t.Context(), []Creation{{job, tenant.Revision}})[0]; c.Err != nil {
		t.Fatal(c.Err)
	}
	cancel := ares.Stop{Why: ares.StopCancel, By: "me", At: job.AcceptedAt.AddDate(2000, 0, 0)}
	passed := false
	_, err = s.update(t.Context(), "stop job", job.ID, func(_ *ares.Job, r *ares.Run) error {
		if !passed {
			passed = true
			run, stopErr := s.RequestStop(t.Context(), job.ID, cancel)
			if stopErr != nil {
				return stopErr
			}
			if stopErr = s.Archive(t.Context(), job, &run, nil); stopErr != nil {
				return stopErr
			}
		}
		return r.RequestStop(cancel)
	}, nil, nil, nil)
	if ares.CodeOf(err) != ares.Conflict {
		t.Errorf("got %v, want that the job is over", err)
	}
	if err := s.Dump(t.Context(), "runs/", func(r Raw) error {
		t.Errorf("an archived job has a run: %+v", r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
