package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// floodedCluster is a cluster that is overloaded with small jobs. Each leaf of the cluster's network has four
// nodes with 8 GPUs each. The function `say` returns the runtime that is predicted for a job with a given
// true runtime.
type floodedCluster struct {
	t       *testing.T
	w       *enginetest.Cluster
	r       *rand.Rand
	say     func(runs time.Duration) *ares.RuntimePredicted // nil for no prediction
	runs    map[ares.JobID]time.Duration
	ends    map[ares.JobID]time.Time
	started map[ares.JobID]time.Time
	made    int
}

func newFloodedCluster(t *testing.T, nodes, holdIdle int, say func(time.Duration) *ares.RuntimePredicted) *floodedCluster {
	cfg := enginetest.AgedConfig()
	cfg.Backfill.DrainAfter, cfg.Backfill.HoldIdle = 30*time.Minute, holdIdle
	f := &floodedCluster{t: t, w: enginetest.NewClusterWithConfig(cfg), r: rand.New(rand.NewPCG(7, 7)), say: say, runs: map[ares.JobID]time.Duration{}, ends: map[ares.JobID]time.Time{}, started: map[ares.JobID]time.Time{}}
	for i := range nodes {
		n := nodeOf(fmt.Sprintf("n%02d", i), 8)
		n.Labels = map[string]string{"leaf": fmt.Sprintf("l%d", i/4)}
		f.w.AddNode(*n)
	}
	return f
}

func (f *floodedCluster) submit(id ares.JobID, spec ares.Spec, runs time.Duration) {
	f.runs[id] = runs
	f.w.Submit(id, spec)
	if p := f.say(runs); p != nil {
		p.Job = id
		f.w.PutEvents(ares.Event{Forecast: p})
	}
}

// The method `minute` advances the time by one minute: jobs end, new small jobs are submitted, and cycles
// run until a plan changes nothing.
func (f *floodedCluster) minute(come int) {
	f.t.Helper()
	f.w.Now = f.w.Now.Add(time.Minute)
	var over []ares.JobID
	for id, at := range f.ends {
		if !at.After(f.w.Now) {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		delete(f.ends, id)
		f.change(id, func(_ *ares.Job, r *ares.Run, rank int) error {
			return r.Release(r.Last().Fence, rank)
		}, ares.OutcomeSucceeded)
		if err := f.w.ArchiveJob(id); err != nil {
			f.t.Fatal(err)
		}
	}
	for range come {
		f.submit(ares.JobID(fmt.Sprintf("small%06d", f.made)), ares.Spec{GPUs: 1 + f.r.IntN(3)}, time.Duration(5+f.r.IntN(115))*time.Minute)
		f.made++
	}
	for {
		plan := engine.Decide(f.w.State, f.w.Now)
		if plan.Empty() {
			return
		}
		if err := f.w.ApplyPlan(plan); err != nil {
			f.t.Fatal(err)
		}
		for _, p := range plan.Place {
			f.started[p.Job] = f.w.Now
			f.ends[p.Job] = f.w.Now.Add(f.runs[p.Job])
			f.change(p.Job, func(j *ares.Job, r *ares.Run, rank int) error {
				return r.Claim(j, r.Last().Fence, rank, r.Last().Seats[rank].Node, f.w.Now)
			}, "")
		}
	}
}

// The method `change` applies a transition to every rank of a job's last attempt. If an outcome is given,
// each rank first finishes with this outcome.
func (f *floodedCluster) change(id ares.JobID, move func(*ares.Job, *ares.Run, int) error, as ares.Outcome) {
	f.t.Helper()
	err := f.w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error {
		for rank := range r.Last().Seats {
			if as != "" {
				if err := r.Finish(j, r.Last().Fence, rank, ares.RankResult{Outcome: as, EndedAt: f.w.Now}, f.w.Now); err != nil {
					return err
				}
			}
			if err := move(j, r, rank); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// The map `predictors` contains several functions that predict a runtime.
var predictors = map[string]func(time.Duration) *ares.RuntimePredicted{
	"no prediction": func(time.Duration) *ares.RuntimePredicted { return nil },
	"exact":         func(d time.Duration) *ares.RuntimePredicted { return &ares.RuntimePredicted{P50: d, P90: d} },
	"the same for all": func(time.Duration) *ares.RuntimePredicted {
		return &ares.RuntimePredicted{P50: time.Hour, P90: 110 * time.Minute}
	},
	"a tenth": func(d time.Duration) *ares.RuntimePredicted { return &ares.RuntimePredicted{P50: d / 10, P90: d / 8} },
}

// TestLargeJobStartsUnderSmallJobs checks that a gang of 64 GPUs starts in an overloaded cluster. Small jobs
// that could use all free capacity are submitted all the time. The gang must start with every kind of runtime
// prediction (compare KAI #1969). Without backfill reservations the gang never starts.
func TestLargeJobStartsUnderSmallJobs(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  ares.Spec
		bound time.Duration // counted from submission; small jobs run for at most two hours
	}{
		{"8 x 8", ares.Spec{Members: 8, GPUs: 8}, 12 * time.Hour},
		{"4 x 8 on a leaf", ares.Spec{Members: 4, GPUs: 8, Constraints: &ares.Placement{RequiredLevel: "leaf"}}, 12 * time.Hour},
		{"16 x 4", ares.Spec{Members: 16, GPUs: 4}, 12 * time.Hour},
		{"a whole node", ares.Spec{GPUs: 8}, 12 * time.Hour},
	} {
		for prediction, say := range predictors {
			t.Run(c.name+", predictions: "+prediction, func(t *testing.T) {
				t.Parallel()
				f := newFloodedCluster(t, 16, 200, say)
				f.minute(70)
				for range 60 {
					f.minute(1 + f.r.IntN(5)/4)
				}
				accepted := f.w.Now
				f.submit("gang", c.spec, time.Hour)
				for !f.w.Now.After(accepted.Add(c.bound)) {
					f.minute(1 + f.r.IntN(5)/4)
					if at, ok := f.started["gang"]; ok {
						t.Logf("started after %s", at.Sub(accepted))
						return
					}
				}
				t.Errorf("the job waits for more than %s", c.bound)
			})
		}
	}
}
