package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestBatcherWritesEachJobOnce tests the batcher without a store. The test checks that every
// caller is answered and that every job is written once. Every limit of a batch must hold.
func TestBatcherWritesEachJobOnce(t *testing.T) {
	t.Run("eager", func(t *testing.T) { writesEachJobOnce(t, &batcher{eager: maxFlushes}) })
	t.Run("patient", func(t *testing.T) { writesEachJobOnce(t, &batcher{}) })
}

func writesEachJobOnce(t *testing.T, b *batcher) {
	const callers = 400
	var flights, flown atomic.Int32
	b.flush = func(ctx context.Context, batch []*creation) {
		if n := flights.Add(1); n > maxFlushes {
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
		if len(batch) == 0 || len(batch) > maxBatch || len(tenants) > maxBatchScopes || size > maxBatchBytes {
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
			ctx := t.Context()
			for round := range 4 {
				n := 1 + rng.IntN(300)
				if rng.IntN(3) > 0 {
					n = 1 + rng.IntN(3)
				}
				items := make([]*creation, n)
				for i := range items {
					items[i] = &creation{
						id:     ares.JobID(fmt.Sprintf("job-%d-%d-%d", caller, round, i)),
						tenant: fmt.Sprint("tenant-", rng.IntN(60)), value: large[:rng.IntN(len(large))],
					}
				}
				out := b.do(ctx, items)
				written := int32(0)
				for i := range out {
					switch {
					case out[i].ID != items[i].id:
						t.Errorf("caller %d has the answer of another job at %d", caller, i)
					case out[i].Err == nil:
						written++
					case ares.CodeOf(out[i].Err) != ares.Exhausted:
						t.Errorf("caller %d: %v", caller, out[i].Err)
					}
				}
				total.Add(written)
			}
		})
	}
	wg.Wait()
	b.running.Wait()
	if flown.Load() != total.Load() || b.flushes != 0 || len(b.waiting) != 0 || b.jobs != 0 || b.bytes != 0 {
		t.Errorf("%d of %d jobs flown, %d flights, %d callers, %d jobs and %d bytes left", flown.Load(), total.Load(), b.flushes, len(b.waiting), b.jobs, b.bytes)
	}
}

// In TestThePatientShareAFlight, several callers arrive during a transaction. They must wait until
// it ends, and then share the next transaction. Callers do not wait if their jobs fill a whole
// batch, or if the setting `eager` allows another flush loop.
func TestThePatientShareAFlight(t *testing.T) {
	for _, c := range []struct {
		eager, calls, size, bytes int   // number of jobs in a call, and bytes in a job
		want                      []int // jobs in each transaction; the first transaction is held back
	}{
		{1, 5, 1, 10, []int{1, 5}},
		{1, 2, maxBatch / 2, 10, []int{1, maxBatch}}, // a full batch is written in a second transaction, parallel to the first
		{1, 2, 1, maxBatchBytes / 2, []int{1, 2}},    // a batch that is full by its bytes is written in parallel too
		{maxFlushes, 3, 1, 10, []int{1, 1, 1, 1}},
	} {
		t.Run(fmt.Sprintf("eager=%d,calls=%d,size=%d,bytes=%d", c.eager, c.calls, c.size, c.bytes), func(t *testing.T) {
			hold, flying := make(chan struct{}), make(chan int)
			b := &batcher{eager: c.eager}
			b.flush = func(_ context.Context, batch []*creation) {
				flying <- len(batch)
				if batch[0].id == "first" {
					<-hold
				}
			}
			var wg sync.WaitGroup
			call := func(id string, size int) {
				items := make([]*creation, size)
				for i := range items {
					items[i] = &creation{id: ares.JobID(id), value: strings.Repeat("x", c.bytes)}
				}
				wg.Go(func() { b.do(t.Context(), items) })
			}
			call("first", 1)
			got := []int{<-flying}
			for range c.calls {
				call("more", c.size)
				if c.eager > 1 {
					got = append(got, <-flying)
				}
			}
			shared := c.eager == 1 && c.calls*c.size < maxBatch && c.calls*c.size*c.bytes < maxBatchBytes
			for waiting := 0; shared && waiting < c.calls; runtime.Gosched() {
				b.mu.Lock()
				waiting = len(b.waiting)
				b.mu.Unlock()
			}
			if shared {
				close(hold)
			}
			if c.eager == 1 {
				got = append(got, <-flying)
			}
			if !shared {
				close(hold)
			}
			wg.Wait()
			if !slices.Equal(got, c.want) {
				t.Errorf("flights of %v jobs, want %v", got, c.want)
			}
		})
	}
}

// TestACallerMayLeaveAStoreThatIsDown checks that a waiting caller returns when its context ends.
// The error must tell the caller whether its jobs may have been written. The test also checks that
// the queue of waiting jobs is bounded. Dropped jobs must not be written later.
func TestACallerMayLeaveAStoreThatIsDown(t *testing.T) {
	b := batcher{eager: maxFlushes}
	down, flying := make(chan struct{}), make(chan []*creation, maxFlushes)
	var flown sync.Map
	b.flush = func(_ context.Context, batch []*creation) {
		select {
		case flying <- batch:
		default:
		}
		<-down
		for _, c := range batch {
			flown.Store(c.id, true)
		}
	}
	one := func(id string, size int) []*creation {
		return []*creation{{id: ares.JobID(id), out: Created{ID: ares.JobID(id)}, value: strings.Repeat("x", size)}}
	}
	soon, cancel := context.WithCancel(t.Context())
	answers := make(chan Created)
	for i := range maxFlushes {
		go func() { answers <- b.do(soon, one(fmt.Sprint("flies-", i), 1))[0] }()
		<-flying // so that each call has its own transaction
	}
	go func() { answers <- b.do(soon, one("waits", 1))[0] }()
	for waiting := 0; waiting == 0; runtime.Gosched() {
		b.mu.Lock()
		waiting = len(b.waiting)
		b.mu.Unlock()
	}
	big := b.do(t.Context(), one("too much", maxWaitingBytes))[0]
	if ares.CodeOf(big.Err) != ares.Exhausted || big.ID != "too much" {
		t.Errorf("a full queue answered %+v", big)
	}
	cancel()
	for range maxFlushes + 1 {
		a := <-answers
		unknown := strings.Contains(a.Err.Error(), "unknown")
		if !errors.Is(a.Err, context.Canceled) || unknown != strings.HasPrefix(string(a.ID), "flies") {
			t.Errorf("%s was told %v", a.ID, a.Err)
		}
	}
	late, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	if a := b.do(late, one("late", 1))[0]; ares.CodeOf(a.Err) != ares.Unavailable || !strings.Contains(a.Err.Error(), "nothing was written") {
		t.Errorf("a late caller was told %v", a.Err)
	}
	if len(b.waiting) != 0 || b.bytes != 0 {
		t.Errorf("%d callers and %d bytes are left behind", len(b.waiting), b.bytes)
	}
	close(down)
	b.running.Wait()
	for _, id := range []ares.JobID{"waits", "late", "too much"} {
		if _, ok := flown.Load(id); ok {
			t.Errorf("%s was written after its caller had been told that nothing was", id)
		}
	}
}

// TestAnArchivedJobIsNotChanged archives a job between the read and the write of an operation. An
// archived job has no run record, just like a new job.
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
	if c := s.Create(t.Context(), []Creation{{Job: job, TenantRevision: tenant.Revision}})[0]; c.Err != nil {
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
