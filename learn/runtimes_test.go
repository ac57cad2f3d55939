package learn

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The type `life` sends jobs to a Runtimes.
type life struct {
	*Runtimes
	now      time.Time
	revision int64
}

func newLife() *life { return &life{Runtimes: NewRuntimes(), now: noon} }

func (l *life) tell(reset bool, events ...ares.Event) {
	l.revision++
	l.Learn(l.Follow(&ares.Batch{Revision: l.revision, Reset: reset, Events: events}))
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
	return ares.Attempt{EndedAt: noon.Add(d), Outcome: o}
}

// TestRunsAreLearnedOnce checks that a finished run is learned once, despite repeated events, snapshots and a saved
// model.
func TestRunsAreLearnedOnce(t *testing.T) {
	t.Parallel()
	l := newLife()
	done := attempts("a", ares.Succeeded, noon, endedAfter(time.Hour, ares.OutcomeSucceeded))
	l.tell(true, trainEvent("a"))
	l.tell(false, done)
	l.tell(false, done)
	l.tell(true, trainEvent("a"), done)
	if n := l.Unsaved(); n != 1 {
		t.Errorf("learned %d times", n)
	}
	// A scheduler that starts with the saved model sees the same run again, and also a run that ended
	// later.
	next := newLife()
	if err := next.Restore(l.Save(), l.Until()); err != nil {
		t.Fatal(err)
	}
	next.tell(true, trainEvent("a"), trainEvent("b"), done, attempts("b", ares.Failed, noon, endedAfter(2*time.Hour, ares.OutcomeFailed)))
	if n := next.Unsaved(); n != 1 {
		t.Errorf("after a restart %d runs are learned", n)
	}
	if !next.Until().Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("the latest run ended %v", next.Until())
	}
	if err := next.Restore([]byte("damaged"), noon); err == nil || !next.Until().Equal(noon.Add(2*time.Hour)) {
		t.Errorf("damaged data changed the model: %v", err)
	}
}

// TestHowRunsEnded checks that Runtimes learns how each run ended, and that each retry counts as a separate run. If a
// job continues from its checkpoint, its two attempts count as one run with the sum of their durations.
func TestHowRunsEnded(t *testing.T) {
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
		s := &liveJob{job: c.job.Job}
		var got []EndedRun
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
	l.tell(false, attempts("a", ares.Running, noon, ares.Attempt{}))
	for range 3 {
		l.CheckOverdue(l.now)
		if told, _, _ := l.Accuracy(); told != 0 {
			t.Fatal("it is within its p90")
		}
	}
	l.now = noon.Add(61 * time.Minute)
	l.CheckOverdue(l.now)
	l.CheckOverdue(l.now)
	l.tell(false, attempts("a", ares.Succeeded, noon, endedAfter(2*time.Hour, ares.OutcomeSucceeded)))
	if told, covered, _ := l.Accuracy(); told != 1 || covered != 0 {
		t.Errorf("%d of %d were covered", covered, told)
	}
}

// TestPredictionsAreNotLost checks the queue of jobs that need a prediction: a job whose prediction could not be stored is
// next again, and jobs that ended or have a prediction are left out.
func TestPredictionsAreNotLost(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.tell(true, trainEvent("a"), trainEvent("b"))
	if got := l.Next(9); len(got) != 0 {
		t.Fatalf("before StartPredicting: %+v", got)
	}
	l.StartPredicting()
	l.tell(false, trainEvent("c"), trainEvent("d"))
	if n := l.Arrived(); n != 4 || l.Arrived() != 0 {
		t.Errorf("%d jobs arrived", n)
	}
	first := l.Next(1)
	l.PutBack(first)
	l.tell(false, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: "c"}})
	l.tell(false, ares.Event{Forecast: &ares.RuntimePredicted{Job: "d", P50: time.Minute, P90: time.Hour}})
	rest := l.Next(9)
	if len(first) != 1 || len(rest) != 2 || rest[0].Job != first[0].Job || rest[0].Job == rest[1].Job || rest[0].P90 <= 0 || rest[0].Accepted != 1 {
		t.Errorf("first %+v, then %+v", first, rest)
	}
	l.PutBack(rest)
	if l.StopPredicting(); len(l.Next(9)) != 0 {
		t.Error("it predicts after StopPredicting")
	}
}
