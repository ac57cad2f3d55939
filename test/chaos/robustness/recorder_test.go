package robustness_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// A `recorder` records every revision of the store.
type recorder struct {
	t         testing.TB
	endpoints []string
	record    *trace.Writer

	mu       sync.Mutex
	revision int64
	runs     map[ares.JobID]ares.Run
	placed   []time.Duration // times at which placements of attempts were seen
	steps    []lossStep      // what followed the losses of nodes
}

// A `lossStep` is a change of the store that follows the loss of a node.
type lossStep struct {
	at      time.Duration
	node    string     // whose session ended, or ""
	job     ares.JobID // that changed, or ""
	attempt int
	placed  bool // the attempt was placed; otherwise it was taken back from a node
}

func newRecorder(t testing.TB, endpoints []string, record *trace.Writer) *recorder {
	return &recorder{t: t, endpoints: endpoints, record: record, runs: map[ares.JobID]ares.Run{}}
}

// This method records the store's revisions until ctx ends, even if the store
// is unavailable for a while.
func (r *recorder) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := store.Open(ctx, store.Config{Endpoints: r.endpoints, Timeout: 5 * time.Second})
		if err == nil {
			_ = s.Watch(ctx, r.apply) // it ends when the store fails or the run ends
			_ = s.Close()
		}
		rest(ctx, 100*time.Millisecond)
	}
}

func (r *recorder) apply(b ares.Batch) error {
	if err := r.record.Entry(trace.Entry{At: trace.Now(), Batch: b}); err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revision = b.Revision
	if b.Reset {
		clear(r.runs)
	}
	for _, e := range b.Events {
		switch {
		case e.Job != nil:
			if _, known := r.runs[e.Job.ID]; !known {
				r.runs[e.Job.ID] = ares.NewRun(e.Job.AcceptedAt)
			}
		case e.Run != nil:
			if e.Run.Run.Phase == ares.Scheduled && e.Run.Run.Placed > r.runs[e.Run.Job].Placed {
				r.placed = append(r.placed, trace.Now())
				r.steps = append(r.steps, lossStep{at: trace.Now(), job: e.Run.Job, attempt: e.Run.Run.Placed, placed: true})
			}
			if e.Run.Run.Losses > r.runs[e.Run.Job].Losses {
				r.steps = append(r.steps, lossStep{at: trace.Now(), job: e.Run.Job, attempt: e.Run.Run.Placed})
			}
			r.runs[e.Run.Job] = e.Run.Run
		case e.Gone.Kind == ares.KindSession:
			r.steps = append(r.steps, lossStep{at: trace.Now(), node: e.Gone.ID})
		case e.Gone.Kind == ares.KindJob:
			delete(r.runs, ares.JobID(e.Gone.ID))
		}
	}
	return nil
}

// This method returns the time of the first step that the function accepts, or 0.
func (r *recorder) step(accept func(lossStep) bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.steps {
		if accept(s) {
			return s.at
		}
	}
	return 0
}

// This method returns the last recorded revision.
func (r *recorder) seen() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

// The method `placements` returns the number of attempts placed so far.
func (r *recorder) placements() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.placed)
}

// placedAfter waits for the first placement after the given time.
func (r *recorder) placedAfter(at time.Duration) time.Duration {
	var first time.Duration
	live.Await(r.t, time.Minute, "a decision", func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, when := range r.placed {
			if when > at {
				first = when
				return true, ""
			}
		}
		return false, ""
	})
	return first
}

// This method counts the jobs that have not ended.
func (r *recorder) unfinished() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, run := range r.runs {
		if !run.Phase.Final() {
			n++
		}
	}
	return n
}

// This method finds the jobs that have not ended or still hold a device. The
// method returns one of these jobs (or "" if there are none) and their number.
func (r *recorder) unsettled() (string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, n := "", 0
	for id, run := range r.runs {
		if run.Phase.Final() && run.Free() {
			continue
		}
		n++
		name = fmt.Sprintf("%s is %s (%s)", id, run.Phase, run.Reason)
		if a := run.Last(); a != nil {
			for _, h := range a.Seats {
				name += fmt.Sprintf(", rank %d on %s %s", h.Rank, h.Node, h.State)
			}
		}
	}
	return name, n
}
