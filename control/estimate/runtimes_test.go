package estimate

import (
	"context"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
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
	if told, _, _ := second.Accuracy(); second.runtimes.Until().IsZero() || told > 1 {
		t.Errorf("it knows runs until %v", second.runtimes.Until())
	}
}
