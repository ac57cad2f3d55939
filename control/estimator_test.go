package control

import (
	"context"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// life tells an estimator of jobs, without a store.
type life struct {
	*Estimator
	now      time.Time
	revision int64
}

func newLife() *life {
	l := &life{now: noon}
	l.Estimator = NewEstimator(NewView(time.Now))
	l.Now, l.Log = func() time.Time { return l.now }, quiet
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

// attempts is a run whose attempts took so long, with their outcomes; the last
// one goes on when its outcome is "".
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
	return ares.Attempt{EndedAt: noon.Add(d), Outcome: o}
}

// TestEstimatorLearnsOnce: a run that ended is learned from once, however often
// it is told, over snapshots and what was saved.
func TestEstimatorLearnsOnce(t *testing.T) {
	t.Parallel()
	l := newLife()
	done := attempts("a", ares.Succeeded, noon, endedAfter(time.Hour, ares.OutcomeSucceeded))
	l.tell(true, trainEvent("a"))
	l.tell(false, done)
	l.tell(false, done)
	l.tell(true, trainEvent("a"), done)
	if l.learned != 1 {
		t.Errorf("learned %d times", l.learned)
	}
	// A server that begins with what was saved hears of the same run again, and of
	// one that ended later.
	next := newLife()
	mind, err := forecast.Restore(forecast.Config{}, l.mind.Save())
	if err != nil {
		t.Fatal(err)
	}
	next.mind, next.latest, next.known = mind, l.latest, l.latest
	next.tell(true, trainEvent("a"), trainEvent("b"), done, attempts("b", ares.Failed, noon, endedAfter(2*time.Hour, ares.OutcomeFailed)))
	if next.learned != 1 {
		t.Errorf("after a restart %d runs are learned", next.learned)
	}
	if !next.latest.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("the latest run ended %v", next.latest)
	}
}

// TestEstimatorTellsHowRunsEnded: retries are runs of their own; a job that was
// stopped and goes on from its checkpoint ran once, and as long as both.
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
			trainEvent("a"), attempts("a", ares.Succeeded, noon, endedAfter(time.Hour, ares.OutcomeFailed), endedAfter(3*time.Hour, ares.OutcomeSucceeded)),
			[]time.Duration{time.Hour, 2 * time.Hour},
			[]forecast.Outcome{forecast.Ended, forecast.Ended},
			false,
		},
		"preempted": {
			trainEvent("a"), attempts("a", ares.Preempted, noon, endedAfter(time.Hour, ares.OutcomeStopped)),
			[]time.Duration{time.Hour},
			[]forecast.Outcome{forecast.Cut},
			false,
		},
		"preempted by its own exit": {
			trainEvent("a"), attempts("a", ares.Preempted, noon, endedAfter(time.Hour, ares.OutcomeFailed)),
			[]time.Duration{time.Hour},
			[]forecast.Outcome{forecast.Cut},
			false,
		},
		"with a checkpoint": {
			trainEvent("a", saves), attempts("a", ares.Succeeded, noon, endedAfter(time.Hour, ares.OutcomeStopped), endedAfter(3*time.Hour, ares.OutcomeSucceeded)),
			[]time.Duration{3 * time.Hour},
			[]forecast.Outcome{forecast.Ended},
			false,
		},
		"with a checkpoint, step by step": {
			trainEvent("a", saves), attempts("a", ares.Succeeded, noon, endedAfter(time.Hour, ares.OutcomeStopped), endedAfter(3*time.Hour, ares.OutcomeSucceeded)),
			[]time.Duration{3 * time.Hour},
			[]forecast.Outcome{forecast.Ended},
			true,
		},
		"cancelled with a checkpoint": {
			trainEvent("a", saves), attempts("a", ares.Cancelled, noon, endedAfter(time.Hour, ares.OutcomeStopped), endedAfter(3*time.Hour, ares.OutcomeStopped)),
			[]time.Duration{3 * time.Hour},
			[]forecast.Outcome{forecast.Cut},
			true,
		},
		"at its limit": {
			trainEvent("a"), attempts("a", ares.Failed, noon, endedAfter(time.Hour, ares.OutcomeTimeout)),
			[]time.Duration{time.Hour},
			[]forecast.Outcome{forecast.Limited},
			false,
		},
		"lost":        {trainEvent("a"), attempts("a", ares.Pending, noon, endedAfter(time.Hour, ares.OutcomeLost)), []time.Duration{time.Hour}, []forecast.Outcome{forecast.Cut}, false},
		"never began": {trainEvent("a"), attempts("a", ares.Failed, time.Time{}, endedAfter(time.Hour, ares.OutcomeSpawnError)), nil, nil, false},
	} {
		s := &subject{job: c.job.Job}
		var got []overRun
		if n := len(c.run.Run.Run.Attempts); c.steps { // as it happens, not at once
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

// TestOverdueRunsCountOnce: a run that outlasts its p90 is a miss then, and not
// again when it ends.
func TestOverdueRunsCountOnce(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.tell(true, trainEvent("a"))
	l.tell(false, ares.Event{Forecast: &ares.RuntimePredicted{Job: "a", P50: time.Minute, P90: time.Hour}})
	l.tell(false, attempts("a", ares.Running, noon, ares.Attempt{}))
	for range 3 {
		l.look()
		if told, _, _ := l.Accuracy(); told != 0 {
			t.Fatal("it is within its p90")
		}
	}
	l.now = noon.Add(61 * time.Minute)
	l.look()
	l.look()
	l.tell(false, attempts("a", ares.Succeeded, noon, endedAfter(2*time.Hour, ares.OutcomeSucceeded)))
	if told, covered, _ := l.Accuracy(); told != 1 || covered != 0 {
		t.Errorf("%d of %d were covered", covered, told)
	}
}

// TestPredictionsAreWritten: a leader says something of every job that waits or
// comes, and saves what it learned; the next one goes on from there.
func TestPredictionsAreWritten(t *testing.T) {
	s := storetest.Embedded(t)
	var est *Estimator
	v := NewView(time.Now)
	est = NewEstimator(v)
	est.Store, est.Now, est.Log, est.Rest, est.SaveEvery = s, time.Now, quiet, time.Millisecond, time.Nanosecond
	if err := est.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []ares.JobID
	add := func(n int) {
		for range n {
			ids = append(ids, storetest.NewJob(t, s).ID)
		}
	}
	add(store.PredictionsAtOnce + 5) // before it leads
	stopView := run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	stopRun := run(t, est.Run)
	lead, _ := storetest.NewLead(t, s)
	stopLead := run(t, func(ctx context.Context) error { return est.Lead(ctx, lead) })
	add(3)
	await(t, v, "every job's prediction", func() bool {
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
	await(t, v, "the run to be saved", func() bool {
		memory, at, err := s.Forecaster(t.Context())
		return err == nil && memory != nil && !at.IsZero()
	})
	stopLead()
	stopRun()
	stopView()
	second := NewEstimator(NewView(time.Now))
	second.Store, second.Now, second.Log = s, time.Now, quiet
	if err := second.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := second.Predict(job); !strings.Contains(got.Basis, "1 run of ") {
		t.Errorf("the next leader says %+v", got)
	}
	if told, _, _ := second.Accuracy(); second.known.IsZero() || told > 1 {
		t.Errorf("it knows runs until %v", second.known)
	}
}
