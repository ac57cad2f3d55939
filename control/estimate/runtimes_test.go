package estimate

import (
	"context"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/forecast"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The type `life` sends jobs to an Estimator in a test without a store.
type life struct {
	*Estimator
	now      time.Time
	revision int64
}

func newLife() *life {
	l := &life{now: storetest.Noon}
	l.Estimator = NewEstimator(cache.NewView(time.Now))
	l.Now, l.Log = func() time.Time { return l.now }, controltest.Quiet
	return l
}

func (l *life) tell(reset bool, events ...ares.Event) {
	l.revision++
	l.inbox.put(ares.Batch{Revision: l.revision, Reset: reset, Events: events})
	l.read()
}

func trainEvent(id ares.JobID, edit ...func(*ares.Spec)) ares.Event {
	spec := ares.Spec{Tenant: "ml", Name: "train-" + string(id), GPUs: 1, Command: []string{"train"}}
	for _, e := range edit {
		e(&spec)
	}
	return ares.Event{Job: &ares.Job{Spec: spec.WithDefaults(), ID: id, Owner: "alice", Revision: 1}}
}

// The function `attempts` returns a run with attempts of the given durations and outcomes. If the outcome of the last attempt is "",
// this attempt is still running.
func attempts(id ares.JobID, phase ares.Phase, from time.Time, list ...ares.Attempt) ares.Event {
	for i := range list {
		list[i].Number, list[i].StartedAt = i+1, from
		if list[i].Outcome != "" {
			from = list[i].EndedAt
		}
	}
	return ares.Event{Run: &ares.RunEvent{Job: id, Run: ares.Run{Phase: phase, Attempts: list, Placed: len(list)}}}
}

func endedAfter(d time.Duration, o ares.Outcome) ares.Attempt {
	return ares.Attempt{EndedAt: storetest.Noon.Add(d), Outcome: o}
}

// TestEstimatorLearnsOnce checks that a finished run is learned once, despite repeated events, snapshots and a saved
// model.
func TestEstimatorLearnsOnce(t *testing.T) {
	t.Parallel()
	l := newLife()
	done := attempts("a", ares.Succeeded, storetest.Noon, endedAfter(time.Hour, ares.OutcomeSucceeded))
	l.tell(true, trainEvent("a"))
	l.tell(false, done)
	l.tell(false, done)
	l.tell(true, trainEvent("a"), done)
	if l.learned != 1 {
		t.Errorf("learned %d times", l.learned)
	}
	// A server that starts with the saved model sees the same run again, and also a run that ended
	// later.
	next := newLife()
	mind, err := forecast.Restore(forecast.Config{}, l.mind.Save())
	if err != nil {
		t.Fatal(err)
	}
	next.mind, next.latest, next.known = mind, l.latest, l.latest
	next.tell(true, trainEvent("a"), trainEvent("b"), done, attempts("b", ares.Failed, storetest.Noon, endedAfter(2*time.Hour, ares.OutcomeFailed)))
	if next.learned != 1 {
		t.Errorf("after a restart %d runs are learned", next.learned)
	}
	if !next.latest.Equal(storetest.Noon.Add(2 * time.Hour)) {
		t.Errorf("the latest run ended %v", next.latest)
	}
}

// TestEstimatorTellsHowRunsEnded checks that the Estimator learns how each run ended, and that each retry counts as a separate run. If a
// job continues from its checkpoint, its two attempts count as one run with the sum of their durations.
func TestEstimatorTellsHowRunsEnded(t *testing.T) {
	t.Parallel()
	saves := func(s *ares.Spec) { s.Checkpoint.Enabled = true }
	for name, c := range map[string]struct {
		job, run ares.Event
		took     []time.Duration
		how      []forecast.Outcome
		steps    bool
	}{
		"retried": {
			trainEvent("a"), attempts("a", ares.Succeeded, storetest.Noon, endedAfter(time.Hour, ares.OutcomeFailed), endedAfter(3*time.Hour, ares.OutcomeSucceeded)),
			[]time.Duration{time.Hour, 2 * time.Hour},
			[]forecast.Outcome{forecast.Ended, forecast.Ended},
			false,
		},
		"preempted": {
			trainEvent("a"), attempts("a", ares.Preempted, storetest.Noon, endedAfter(time.Hour, ares.OutcomeStopped)),
			[]time.Duration{time.Hour},
			[]forecast.Outcome{forecast.Cut},
			false,
		},
		"preempted by its own exit": {
			trainEvent("a"), attempts("a", ares.Preempted, storetest.Noon, endedAfter(time.Hour, ares.OutcomeFailed)),
			[]time.Duration{time.Hour},
			[]forecast.Outcome{forecast.Cut},
			false,
		},
		"with a checkpoint": {
			trainEvent("a", saves), attempts("a", ares.Succeeded, storetest.Noon, endedAfter(time.Hour, ares.OutcomeStopped), endedAfter(3*time.Hour, ares.OutcomeSucceeded)),
			[]time.Duration{3 * time.Hour},
			[]forecast.Outcome{forecast.Ended},
			false,
		},
		"with a checkpoint, step by step": {
			trainEvent("a", saves), attempts("a", ares.Succeeded, storetest.Noon, endedAfter(time.Hour, ares.OutcomeStopped), endedAfter(3*time.Hour, ares.OutcomeSucceeded)),
			[]time.Duration{3 * time.Hour},
			[]forecast.Outcome{forecast.Ended},
			true,
		},
		"cancelled with a checkpoint": {
			trainEvent("a", saves), attempts("a", ares.Cancelled, storetest.Noon, endedAfter(time.Hour, ares.OutcomeStopped), endedAfter(3*time.Hour, ares.OutcomeStopped)),
			[]time.Duration{3 * time.Hour},
			[]forecast.Outcome{forecast.Cut},
			true,
		},
		"at its limit": {
			trainEvent("a"), attempts("a", ares.Failed, storetest.Noon, endedAfter(time.Hour, ares.OutcomeTimeout)),
			[]time.Duration{time.Hour},
			[]forecast.Outcome{forecast.Limited},
			false,
		},
		"lost":        {trainEvent("a"), attempts("a", ares.Pending, storetest.Noon, endedAfter(time.Hour, ares.OutcomeLost)), []time.Duration{time.Hour}, []forecast.Outcome{forecast.Cut}, false},
		"never began": {trainEvent("a"), attempts("a", ares.Failed, time.Time{}, endedAfter(time.Hour, ares.OutcomeSpawnError)), nil, nil, false},
	} {
		s := &subject{job: c.job.Job}
		var got []overRun
		if n := len(c.run.Run.Run.Attempts); c.steps { // apply the events one by one instead of all together
			first := c.run.Run.Run
			first.Phase, first.Attempts = ares.Preempted, first.Attempts[:n-1]
			got = s.follow(&first)
		}
		got = append(got, s.follow(&c.run.Run.Run)...)
		if len(got) != len(c.took) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i := range got {
			if got[i].run.Took != c.took[i] || got[i].run.Outcome != c.how[i] {
				t.Errorf("%s: run %d took %s and %s, want %s and %s", name, i, got[i].run.Took, got[i].run.Outcome, c.took[i], c.how[i])
			}
		}
	}
}

// TestOverdueRunsCountOnce checks that a run counts as a miss when it exceeds its p90. It must not count again when it ends.
func TestOverdueRunsCountOnce(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.tell(true, trainEvent("a"))
	l.tell(false, ares.Event{Forecast: &ares.RuntimePredicted{Job: "a", P50: time.Minute, P90: time.Hour, Samples: 5, Own: 5}})
	l.tell(false, attempts("a", ares.Running, storetest.Noon, ares.Attempt{}))
	for range 3 {
		l.look()
		if told, _, _ := l.Accuracy(); told != 0 {
			t.Fatal("it is within its p90")
		}
	}
	l.now = storetest.Noon.Add(61 * time.Minute)
	l.look()
	l.look()
	l.tell(false, attempts("a", ares.Succeeded, storetest.Noon, endedAfter(2*time.Hour, ares.OutcomeSucceeded)))
	if told, covered, _ := l.Accuracy(); told != 1 || covered != 0 {
		t.Errorf("%d of %d were covered", covered, told)
	}
}

// TestPredictionsAreWritten checks that a leader writes a prediction for every waiting and every new job, and saves
// its model. The test also checks that the next leader continues from that model.
func TestPredictionsAreWritten(t *testing.T) {
	s := storetest.Embedded(t)
	var est *Estimator
	v := cache.NewView(time.Now)
	est = NewEstimator(v)
	est.Store, est.Now, est.Log, est.Rest, est.SaveEvery = s, time.Now, controltest.Quiet, time.Millisecond, time.Nanosecond
	if err := est.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []ares.JobID
	add := func(n int) {
		for range n {
			ids = append(ids, storetest.NewJob(t, s).ID)
		}
	}
	add(store.PredictionsAtOnce + 5) // these jobs exist before the server becomes the leader
	stopView := controltest.Run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	stopRun := controltest.Run(t, est.Run)
	lead, _ := storetest.NewLead(t, s)
	stopLead := controltest.Run(t, func(ctx context.Context) error { return est.Lead(ctx, lead) })
	add(3)
	controltest.Await(t, v, "every job's prediction", func() bool {
		for _, id := range ids {
			if e := v.Job(id); e == nil || e.Forecast == nil || e.Forecast.P90 <= 0 {
				return false
			}
		}
		return true
	})
	node := storetest.NewNode(t, s)
	job := storetest.NewJob(t, s)
	seats := storetest.Place(t, s, lead, job, node)
	storetest.Claim(t, s, seats, node)
	storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded)
	controltest.Await(t, v, "the run to be saved", func() bool {
		memory, at, err := s.Forecaster(t.Context())
		return err == nil && memory != nil && !at.IsZero()
	})
	stopLead()
	stopRun()
	stopView()
	second := NewEstimator(cache.NewView(time.Now))
	second.Store, second.Now, second.Log = s, time.Now, controltest.Quiet
	if err := second.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := second.Predict(job); !strings.Contains(got.Basis, "1 run of ") {
		t.Errorf("the next leader predicts %+v", got)
	}
	if told, _, _ := second.Accuracy(); second.known.IsZero() || told > 1 {
		t.Errorf("it knows runs until %v", second.known)
	}
}
