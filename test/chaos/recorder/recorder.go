// Package recorder records every revision of a store while faults are made, and answers what the record shows so far.
package recorder

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// A Recorder records every revision of one store.
type Recorder struct {
	t         testing.TB
	endpoints []string
	record    *trace.Writer

	mu       sync.Mutex
	revision int64
	runs     map[ares.JobID]ares.Run
	placed   []time.Duration // times at which placements of attempts were seen
	steps    []LossStep      // what followed the losses of nodes

	suspended bool
	stopWatch context.CancelFunc // of the current watch, or nil
}

// A LossStep is a change of the store that follows the loss of a node.
type LossStep struct {
	At      time.Duration
	Node    string     // whose session ended, or ""
	Job     ares.JobID // that changed, or ""
	Attempt int
	Placed  bool // the attempt was placed; otherwise it was taken back from a node
}

// New returns a recorder of the store at the given endpoints.
func New(t testing.TB, endpoints []string, record *trace.Writer) *Recorder {
	return &Recorder{t: t, endpoints: endpoints, record: record, runs: map[ares.JobID]ares.Run{}}
}

// Run records the store's revisions until ctx ends, even if the store
// is unavailable for a while.
func (r *Recorder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if watching, stop := r.begin(ctx); watching != nil {
			s, err := store.Open(watching, store.Config{Endpoints: r.endpoints, Timeout: 5 * time.Second})
			if err == nil {
				_ = s.Watch(watching, r.apply) // it ends when the store fails or the run ends
				_ = s.Close()
			}
			stop()
		}
		pause.For(ctx, 100*time.Millisecond)
	}
}

// The method `begin` returns the context of the next watch, or nil while the recorder is suspended.
func (r *Recorder) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspended {
		return nil, nil
	}
	ctx, r.stopWatch = context.WithCancel(ctx)
	return ctx, r.stopWatch
}

// Suspend lets the recorder record nothing until the returned function is called.
func (r *Recorder) Suspend() (resume func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspended = true
	if r.stopWatch != nil {
		r.stopWatch()
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.suspended = false
	}
}

func (r *Recorder) apply(b ares.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspended {
		return context.Canceled
	}
	if err := r.record.Entry(trace.Entry{At: trace.Now(), Batch: b}); err != nil {
		r.t.Error(err)
	}
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
				r.steps = append(r.steps, LossStep{At: trace.Now(), Job: e.Run.Job, Attempt: e.Run.Run.Placed, Placed: true})
			}
			if e.Run.Run.Losses > r.runs[e.Run.Job].Losses {
				r.steps = append(r.steps, LossStep{At: trace.Now(), Job: e.Run.Job, Attempt: e.Run.Run.Placed})
			}
			r.runs[e.Run.Job] = e.Run.Run
		case e.Gone.Kind == ares.KindSession:
			r.steps = append(r.steps, LossStep{At: trace.Now(), Node: e.Gone.ID})
		case e.Gone.Kind == ares.KindJob:
			delete(r.runs, ares.JobID(e.Gone.ID))
		}
	}
	return nil
}

// Step returns the time of the first step that the function accepts, or 0.
func (r *Recorder) Step(accept func(LossStep) bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.steps {
		if accept(s) {
			return s.At
		}
	}
	return 0
}

// Seen returns the last recorded revision.
func (r *Recorder) Seen() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

// Placements returns the number of attempts placed so far.
func (r *Recorder) Placements() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.placed)
}

// PlacedAfter waits for the first placement after the given time.
func (r *Recorder) PlacedAfter(at time.Duration) time.Duration {
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

// Unfinished counts the jobs that have not ended.
func (r *Recorder) Unfinished() int {
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

// Unsettled finds the jobs that have not ended or still hold a device. It returns one of these jobs (or "" if there are none) and their number.
func (r *Recorder) Unsettled() (string, int) {
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
