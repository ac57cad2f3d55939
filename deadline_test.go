package ares_test

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The function `attempt` returns a test attempt that ran between two given minutes. The argument `saved` is the
// minute of the attempt's last checkpoint. If `saved` is -1, the attempt has no checkpoint.
func attempt(from, to, saved int, how ares.Outcome) ares.Attempt {
	at := func(minute int) time.Time {
		if minute < 0 {
			return time.Time{}
		}
		return dawn.Add(time.Duration(minute) * time.Minute)
	}
	return ares.Attempt{StartedAt: at(from), EndedAt: at(to), CheckpointedAt: at(saved), Outcome: how}
}

// TestDone checks that a job without checkpoints starts over with each attempt, and that a job with checkpoints
// continues from the last one.
func TestDone(t *testing.T) {
	now := dawn.Add(100 * time.Minute)
	running := attempt(90, -1, 95, "")
	for name, c := range map[string]struct {
		attempts []ares.Attempt
		ran      int
		keeps    bool
		want     int // minutes
	}{
		"nothing":                       {nil, 0, true, 0},
		"begins anew":                   {[]ares.Attempt{attempt(0, 30, -1, ares.OutcomeStopped), running}, 7, false, 10},
		"waits, and begins anew":        {[]ares.Attempt{attempt(0, 30, -1, ares.OutcomeStopped)}, 7, false, 0},
		"stopped":                       {[]ares.Attempt{attempt(0, 30, -1, ares.OutcomeStopped), running}, 0, true, 40},
		"stopped after its checkpoint":  {[]ares.Attempt{attempt(0, 30, 20, ares.OutcomeStopped)}, 0, true, 20},
		"failed":                        {[]ares.Attempt{attempt(0, 30, -1, ares.OutcomeFailed), running}, 0, true, 10},
		"lost after its checkpoint":     {[]ares.Attempt{attempt(0, 30, 20, ares.OutcomeLost), running}, 0, true, 30},
		"stopped, then failed":          {[]ares.Attempt{attempt(0, 30, -1, ares.OutcomeStopped), attempt(40, 50, -1, ares.OutcomeFailed)}, 0, true, 30},
		"attempts that are long gone":   {[]ares.Attempt{attempt(0, 30, -1, ares.OutcomeStopped)}, 7, true, 37},
		"placed, and not yet begun":     {[]ares.Attempt{attempt(0, 30, -1, ares.OutcomeStopped), {}}, 0, true, 30},
		"stopped before it could start": {[]ares.Attempt{{Outcome: ares.OutcomeStopped, EndedAt: now}}, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := &ares.Job{}
			j.Checkpoint.Enabled = c.keeps
			r := ares.Run{Attempts: c.attempts, Ran: time.Duration(c.ran) * time.Minute}
			if got := r.Done(j, now); got != time.Duration(c.want)*time.Minute {
				t.Errorf("%s are done, want %d min", got, c.want)
			}
		})
	}
}

// TestOutlook checks the sentence that compares a predicted end with a deadline.
func TestOutlook(t *testing.T) {
	due := func(within time.Duration) *ares.Job {
		return &ares.Job{Spec: ares.Spec{Deadline: dawn.Add(within)}}
	}
	array := due(3 * time.Hour)
	array.Array = ares.Array{Count: 5, Parallelism: 2}
	keeps := due(time.Hour)
	keeps.Checkpoint.Enabled = true
	half := &ares.Run{Attempts: []ares.Attempt{{StartedAt: dawn.Add(-2 * time.Hour), EndedAt: dawn.Add(-30 * time.Minute), Outcome: ares.OutcomeStopped}}}
	limited := due(2 * time.Hour)
	limited.MaxRuntimeMinutes = 61
	long := ares.RuntimePredicted{P50: time.Hour, P90: 190 * time.Minute, Samples: 30, Own: 30}
	for name, c := range map[string]struct {
		job  *ares.Job
		run  *ares.Run
		said ares.RuntimePredicted
		late time.Duration
		text string
	}{
		"late":                  {due(65 * time.Minute), nil, long, 125 * time.Minute, "deadline 2026-01-01T01:05:00Z: p90 of its runtime is 3h10m, so it would end 2h05m late"},
		"in time":               {due(4 * time.Hour), nil, long, -50 * time.Minute, "so it has 50m00s to spare"},
		"just in time":          {due(190 * time.Minute), nil, long, 0, "so it has to start now"},
		"nobody knows":          {due(time.Hour), nil, ares.RuntimePredicted{}, 0, "no estimate: too few runs of this job have ended"},
		"other jobs are known":  {due(time.Hour), nil, ares.RuntimePredicted{P50: time.Hour, P90: 190 * time.Minute, Samples: 30, Own: 8}, 0, "no estimate: too few runs of this job have ended"},
		"an array, three waves": {array, nil, long, 130 * time.Minute, "p90 of its runtime is 5h10m, so it would end 2h10m late"},
		"rounded to its limit":  {limited, nil, ares.RuntimePredicted{P50: time.Hour, P90: 61 * time.Minute, Samples: 30, Own: 30}, -59 * time.Minute, "p90 of its runtime is 1h01m, so it has 59m00s to spare"},
		"half of it is done":    {keeps, half, long, 40 * time.Minute, "so it would end 40m00s late"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.job.Outlook(c.run, c.said, dawn)
			if o.Late() != c.late || !strings.Contains(o.String(), c.text) {
				t.Errorf("%s late: %s", o.Late(), &o)
			}
		})
	}
}

// TestNoteLateness checks that each Lateness value is recorded once and in order. No value may be
// recorded for a job that has ended.
func TestNoteLateness(t *testing.T) {
	r := ares.NewRun(dawn)
	note := func(l ares.Lateness) error {
		return r.NoteLateness(&ares.Noting{Lateness: l, Text: string(l)}, dawn.Add(time.Hour))
	}
	for i, c := range []struct {
		lateness ares.Lateness
		ok       bool
	}{{ares.LatenessRisk, true}, {ares.LatenessRisk, false}, {ares.LatenessMissed, true}, {ares.LatenessRisk, false}, {ares.LatenessMissed, false}} {
		if err := note(c.lateness); (err == nil) != c.ok {
			t.Errorf("note %d: %v", i, err)
		}
	}
	if last := r.Transitions[len(r.Transitions)-1]; r.Lateness != ares.LatenessMissed || len(r.Transitions) != 3 || last.Message != "missed" || last.Phase != ares.Pending {
		t.Errorf("the run is %+v", r)
	}
	r = ares.NewRun(dawn)
	if err := r.RequestStop(ares.Stop{Why: ares.StopCancel, At: dawn}); err != nil {
		t.Fatal(err)
	}
	if note(ares.LatenessMissed) == nil {
		t.Error("noted of a job that has ended")
	}
}

// TestMetDeadline checks that a job meets its deadline only if it succeeds in time, and that a job cancelled before its
// deadline is not counted.
func TestMetDeadline(t *testing.T) {
	j := &ares.Job{Spec: ares.Spec{Deadline: dawn.Add(time.Hour)}}
	for _, c := range []struct {
		phase      ares.Phase
		at         time.Duration
		met, asked bool
	}{
		{ares.Succeeded, time.Hour, true, true},
		{ares.Succeeded, time.Hour + 1, false, true},
		{ares.Failed, time.Minute, false, true},
		{ares.Cancelled, time.Minute, false, false},
		{ares.Cancelled, 2 * time.Hour, false, true},
		{ares.Running, 2 * time.Hour, false, false},
	} {
		r := ares.Run{Phase: c.phase, FinishedAt: dawn.Add(c.at)}
		if met, asked := r.MetDeadline(j); met != c.met || asked != c.asked {
			t.Errorf("%s after %s: met %t, asked %t", c.phase, c.at, met, asked)
		}
	}
	r := ares.Run{Phase: ares.Succeeded}
	if _, asked := r.MetDeadline(&ares.Job{}); asked {
		t.Error("a job without a deadline is asked for one")
	}
}

// TestGiveUp checks that the queue timeout ends a waiting job only if the job was never placed or nominated. For a
// running array, the timeout only prevents the creation of further elements.
func TestGiveUp(t *testing.T) {
	stop := ares.Stop{Why: ares.StopQueue, By: "waited 1 min", At: dawn.Add(time.Minute)}
	waiting := ares.NewRun(dawn)
	if err := waiting.RequestStop(stop); err != nil || waiting.Phase != ares.Cancelled || waiting.Reason != "waited 1 min" {
		t.Errorf("%v: %+v", err, waiting)
	}
	placed := ares.NewRun(dawn)
	if err := placed.Place([]ares.Seat{{Node: "a"}}, 0, dawn); err != nil {
		t.Fatal(err)
	}
	kept := ares.NewRun(dawn)
	if err := kept.Nominate(ares.Nomination{At: dawn}); err != nil {
		t.Fatal(err)
	}
	again := ares.Run{Phase: ares.Pending, Placed: 1}
	for i, r := range []*ares.Run{&placed, &kept, &again, {Phase: ares.Succeeded}} {
		before := r.Phase
		if err := r.RequestStop(stop); ares.CodeOf(err) != ares.Conflict || r.Phase != before || r.Stop != nil {
			t.Errorf("run %d: %v: %+v", i, err, r)
		}
	}
	array := ares.Run{Phase: ares.Running, Next: 2}
	if err := array.RequestStop(stop); err != nil || array.Phase != ares.Running || array.Stop == nil {
		t.Errorf("%v: %+v", err, array)
	}
	if err := array.Advance(&ares.ArrayStep{Next: 3}, dawn); err == nil {
		t.Error("an element was made after all")
	}
	made := ares.Elements{Total: 5, Made: 2, Succeeded: 2}
	if phase, why := made.Outcome(&array); phase != ares.Cancelled || why != "waited 1 min (2 succeeded, 3 never started)" {
		t.Errorf("%s: %s", phase, why)
	}
	cancel := ares.Stop{Why: ares.StopCancel, By: "ann", At: dawn}
	if err := array.RequestStop(cancel); err != nil || array.Stop.Why != ares.StopCancel {
		t.Errorf("a cancel does not override: %v: %+v", err, array.Stop)
	}
}
