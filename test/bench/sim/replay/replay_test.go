package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/laws"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

const (
	machines = 6
	lives    = 3 // number of server lives; the server is restarted in between
)

// The variable `jobs` is the number of submitted jobs.
var jobs = rounds.Sized(400, 60)

// BenchmarkReplay runs a server with a real store. The server places a mix of
// jobs and is restarted twice. The benchmark then replays all decisions from
// the recording.
func BenchmarkReplay(b *testing.B) {
	for b.Loop() {
		s, dir := storetest.Embedded(b), b.TempDir()
		var nodes []*storetest.Node
		for range machines {
			nodes = append(nodes, storetest.NewNode(b, s))
		}
		all := submit(b, s)
		began := time.Now()
		for life := range lives {
			live(b, s, nodes, dir, all, (life+1)*len(all)/lives)
		}
		report(b, dir, time.Since(began))
	}
}

// This function stores jobs of three tenants. The stored jobs are single jobs,
// gangs, arrays and jobs that use parts of GPUs. Some of the jobs are
// cancelled while they wait.
func submit(b *testing.B, s *store.Store) []ares.JobID {
	b.Helper()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same mix each time
	tenants := []ares.Tenant{storetest.NewTenant(b, s), storetest.NewTenant(b, s), storetest.NewTenant(b, s)}
	var asks []store.Creation
	for i := range jobs {
		spec := ares.Spec{Command: []string{"true"}, CPUs: 1, Priority: new(random.IntN(2500))}
		switch i % 5 {
		case 0, 1:
			spec.GPUs = 1 + random.IntN(8)
		case 2:
			spec.GPUs, spec.Members = 1+random.IntN(4), 2+random.IntN(3)
		case 3:
			spec.GPUMilli = 100 + 100*random.IntN(8)
		default:
			spec.GPUs, spec.Array = 1, ares.Array{Count: 1 + random.IntN(4), Parallelism: 2}
		}
		spec.Retry = ares.RetryPolicy{MaxRetries: new(1), InitialBackoffSeconds: 0.05}
		asks = append(asks, storetest.JobOf(tenants[random.IntN(len(tenants))], spec))
	}
	var out []ares.JobID
	for i, got := range s.Create(b.Context(), asks) {
		if got.Err != nil {
			b.Fatal(got.Err)
		}
		if id := asks[i].Job.ID; i%17 == 0 {
			if _, err := s.RequestStop(b.Context(), id, ares.Stop{Why: ares.StopCancel, By: "somebody", At: time.Now()}); err != nil {
				b.Fatal(err)
			}
		} else {
			out = append(out, id)
		}
	}
	return out
}

// This function runs the server until the given number of jobs has ended.
func live(b *testing.B, s *store.Store, nodes []*storetest.Node, dir string, all []ares.JobID, until int) {
	b.Helper()
	quiet := slog.New(slog.DiscardHandler)
	view := cache.NewView(time.Now)
	loop := scheduler.NewLoop(view, config.Default())
	loop.Store, loop.Server, loop.TTL, loop.Now, loop.Log = s, "server", 2*time.Second, time.Now, quiet
	loop.Observe, loop.Record = func(time.Duration) {}, func(scheduler.Decision) {}
	loop.Judge = func(state *engine.State, plan *ares.Plan) {
		for _, broken := range laws.Check(state, plan) {
			b.Error(broken)
		}
	}
	loop.Recorder = recording.NewDecisionRecorder(dir, 64<<10, 1000, quiet, func() recording.Header {
		return recording.NewHeader("server", "bench", config.Default(), time.Now())
	})
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return view.Run(ctx, s, func(error) {}) }, loop.Run, loop.Recorder.Run,
	} {
		wg.Go(func() {
			if err := part(ctx); err != nil && !errors.Is(err, context.Canceled) {
				b.Error(err)
			}
		})
	}
	for _, n := range nodes {
		wg.Go(func() { work(ctx, s, view, n) })
	}
	for revision := int64(0); b.Context().Err() == nil; {
		if ended(view, all) >= until {
			return
		}
		revision = max(revision, view.Revision()) + 1
		wait, done := context.WithTimeout(ctx, time.Second)
		_ = view.WaitFor(wait, revision) // on an error, look again
		done()
	}
}

func ended(view *cache.View, all []ares.JobID) (n int) {
	for _, id := range all {
		if e := view.Job(id); e != nil && e.Run.Phase.Final() && e.Run.Free() {
			n++
		}
	}
	return n
}

// This function does what a node's agent does, but without processes. Every
// eleventh attempt fails.
func work(ctx context.Context, s *store.Store, view *cache.View, n *storetest.Node) {
	for {
		entries, _, changed := view.SeatsOn(n.ID)
		for _, e := range entries {
			for i := range e.Run.Attempts {
				a := &e.Run.Attempts[i]
				for k := range a.Seats {
					if h := &a.Seats[k]; h.Node == n.ID {
						step(ctx, s, n, store.SeatRef{Job: e.Job.ID, Fence: a.Fence, Rank: h.Rank, Node: n.ID}, h.State, e.Run.Stop != nil)
					}
				}
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// `step` performs the next transition of one seat. If the store rejects the
// transition, the view will soon show the reason.
func step(ctx context.Context, s *store.Store, n *storetest.Node, ref store.SeatRef, state ares.SeatState, stopped bool) {
	outcome := ares.OutcomeSucceeded
	if stopped {
		outcome = ares.OutcomeStopped
	} else if ref.Fence%11 == 0 {
		outcome = ares.OutcomeFailed
	}
	switch {
	case state == ares.SeatPlaced && stopped:
		_ = s.Decline(ctx, ref, n.Session, time.Now())
	case state == ares.SeatPlaced:
		_ = s.Claim(ctx, ref, n.Session, time.Now())
	case state == ares.SeatClaimed:
		_, _ = s.Finish(ctx, ref, storetest.Result(outcome), time.Now())
	case state == ares.SeatFinished:
		_ = s.Release(ctx, ref)
	}
}

// This function replays every recording and prints the result.
func report(b *testing.B, dir string, took time.Duration) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+recording.Suffix))
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(files)
	var sum sim.ReplayResult
	var bytes int64
	began := time.Now()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		r, err := sim.Replay(f, nil)
		if err != nil {
			b.Fatal(err)
		}
		info, err := f.Stat()
		if err = errors.Join(err, f.Close()); err != nil {
			b.Fatal(err)
		}
		bytes += info.Size()
		sum.Batches, sum.Events, sum.Decisions = sum.Batches+r.Batches, sum.Events+r.Events, sum.Decisions+r.Decisions
		sum.Placed, sum.Different = sum.Placed+r.Placed, sum.Different+r.Different
		if r.Different > 0 {
			b.Errorf("%s: %d decisions are different, the first %+v", name, r.Different, r.First)
		}
	}
	again := time.Since(began)
	if err := rounds.Table(os.Stdout, "The recording of a live server, decided again; wanted: every plan has the same digest", [][]string{
		{"", "value"},
		{"decisions with the same digest", fmt.Sprintf("%d of %d (%d placements)", sum.Decisions-sum.Different, sum.Decisions, sum.Placed)},
		{"files, each from a snapshot", fmt.Sprintf("%d, of one server restarted %d times", len(files), lives-1)},
		{"bytes", fmt.Sprintf("%d (%d per placement)", bytes, bytes/int64(max(sum.Placed, 1)))},
		{"time", fmt.Sprintf("%s live, %s replayed (%.0f decisions/s)", took.Round(time.Millisecond), again.Round(time.Millisecond), float64(sum.Decisions)/again.Seconds())},
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(sum.Different), "different")
}
