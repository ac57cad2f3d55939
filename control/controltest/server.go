package controltest

import (
	"context"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/laws"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// Server is one replica: a view and a loop with their own store client.
type Server struct {
	s    *store.Store
	View *cache.View
	Loop *scheduler.Loop
	Stop func()

	mu        sync.Mutex
	decisions []scheduler.Decision
}

func NewServer(t *testing.T, name string, s *store.Store, change ...func(*scheduler.Loop)) *Server {
	t.Helper()
	srv := &Server{s: s, View: cache.NewView(time.Now)}
	srv.Loop = scheduler.NewLoop(srv.View, config.Default())
	// A server's term as leader ends when the server stops. Unless a test sets a shorter lease, leases are long.
	// A busy machine can pause for longer than a short lease.
	srv.Loop.Store, srv.Loop.Server, srv.Loop.TTL, srv.Loop.Now, srv.Loop.Log = s, name, time.Minute, time.Now, Quiet
	srv.Loop.Observe = func(time.Duration) {}
	srv.Loop.Interval = 50 * time.Millisecond
	srv.Loop.Judge = func(state *engine.State, plan *ares.Plan) {
		for _, broken := range laws.Check(state, plan) {
			t.Errorf("a decision of %s: %v", name, broken)
		}
	}
	srv.Loop.Record = func(d scheduler.Decision) {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		srv.decisions = append(srv.decisions, d)
	}
	for _, c := range change {
		c(srv.Loop)
	}
	stopView := Run(t, func(ctx context.Context) error { return srv.View.Run(ctx, s, func(error) {}) })
	stopLoop := Run(t, srv.Loop.Run)
	srv.Stop = func() { stopLoop(); stopView() }
	return srv
}

// Placed returns how many jobs were placed by the decisions that the server recorded.
func (srv *Server) Placed(t *testing.T) int {
	t.Helper()
	srv.mu.Lock()
	defer srv.mu.Unlock()
	n := 0
	for _, d := range srv.decisions {
		if d.Digest == "" || d.Config != config.Default().Digest() || d.Revision == 0 || d.Server != srv.Loop.Server || d.Now.IsZero() || d.Placed+d.Ready+d.Arrays+d.Stopped == 0 {
			t.Errorf("a decision is recorded as %+v", d)
		}
		n += d.Placed - d.Dropped
	}
	return n
}

// AwaitPlaced waits until n jobs are placed and the servers have recorded these placements. AwaitPlaced reads
// recorded decisions and not the jobs. A job may have ended by the time its placement is recorded.
func AwaitPlaced(t *testing.T, n int, servers ...*Server) {
	t.Helper()
	Await(t, servers[0].View, "the decisions to be recorded", func() bool {
		sum := 0
		for _, srv := range servers {
			sum += srv.Placed(t)
		}
		if sum > n {
			t.Fatalf("%d placements are recorded for %d jobs", sum, n)
		}
		return sum == n
	})
}

// AllSucceeded reports whether every job has succeeded and holds no seat.
func AllSucceeded(v *cache.View, jobs []ares.JobID) bool {
	for _, id := range jobs {
		e := v.Job(id)
		if e == nil || e.Run.Phase != ares.Succeeded || !e.Run.Free() {
			return false
		}
	}
	return true
}

// CheckPlacedOnce checks that every job was placed exactly once and has exactly one attempt.
func CheckPlacedOnce(t *testing.T, s *store.Store, jobs []ares.JobID) {
	t.Helper()
	for _, id := range jobs {
		run := storetest.Get(t, s, id).Run
		if run.Placed != 1 || len(run.Attempts) != 1 {
			t.Errorf("job %s was placed %d times: %+v", id, run.Placed, run.Transitions)
		}
	}
}

// SubmitMany stores jobs of one tenant. Every third job is a gang.
func SubmitMany(t *testing.T, s *store.Store, n int) []ares.JobID {
	t.Helper()
	tenant := storetest.NewTenant(t, s)
	asks := make([]store.Creation, n)
	out := make([]ares.JobID, n)
	for i := range asks {
		sp := storetest.Sleep()
		sp.Members = 1 + 2*(i%3/2)
		asks[i] = storetest.JobOf(tenant, sp)
		out[i] = asks[i].Job.ID
	}
	for _, got := range s.Create(t.Context(), asks) {
		if got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	return out
}
