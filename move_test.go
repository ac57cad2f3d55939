package ares_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestLeave checks that a cluster that gave a job back gets no offer of it for a while, which doubles each time, up to a limit.
func TestLeave(t *testing.T) {
	r := ares.NewRun(t0)
	now, last := t0, time.Duration(0)
	for i := range 10 {
		before := r.Left
		r.Leave("east", now)
		if len(before) > 0 && before[0].Times != i {
			t.Error("Leave has changed the list that another copy of the run has")
		}
		until := r.LeftAt(now)[0].Until
		if took := until.Sub(now); took != min(max(2*last, ares.LeftFor), 128*ares.LeftFor) {
			t.Errorf("after %d returns, the job is kept away for %s, and before for %s", i+1, took, last)
		} else {
			last = took
		}
		if !r.HasLeft("east", until.Add(-1)) || r.HasLeft("east", until) || r.HasLeft("west", now) {
			t.Errorf("the clusters that must not get the job: %+v", r.Left)
		}
		if r.HasLeft("east", now.Add(-time.Hour)) {
			t.Errorf("after %d returns, a clock that went back keeps the job away for longer", i+1)
		}
		now = until
	}
	for _, c := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r.Leave(c, now)
	}
	if len(r.Left) != 8 || r.Left[0].Cluster != "a" {
		t.Errorf("%d clusters are remembered: %+v", len(r.Left), r.Left)
	}
	base := r.Base()
	if err := r.Bind("west", 7, now); err != nil {
		t.Fatal(err)
	}
	owner := ares.NewRun(now)
	owner.Revision, owner.Returning = 9, "drained"
	if _, err := r.Mirror(&base, &owner); err != nil || len(r.Left) != 8 || r.Returning != "" {
		t.Errorf("the copy of the owner's run is %+v, %v", r, err)
	}
	if (*ares.Run)(nil).HasLeft("east", now) {
		t.Error("a job without a run has left a cluster")
	}
}

// TestFailedInARow counts the failures at the end of a run.
func TestFailedInARow(t *testing.T) {
	for _, c := range []struct {
		outcomes []ares.Outcome
		want     int
	}{
		{nil, 0},
		{[]ares.Outcome{ares.OutcomeFailed}, 1},
		{[]ares.Outcome{ares.OutcomeFailed, ares.OutcomeLost, ares.OutcomeSpawnError, ares.OutcomeTimeout, ares.OutcomeSignaled}, 5},
		{[]ares.Outcome{ares.OutcomeFailed, ares.OutcomeStopped, ares.OutcomeFailed, ares.OutcomeStopped}, 2},
		{[]ares.Outcome{ares.OutcomeStopped}, 0},
		{[]ares.Outcome{ares.OutcomeFailed, ares.OutcomeFailed, ""}, 0},
	} {
		var r ares.Run
		for _, o := range c.outcomes {
			r.Attempts = append(r.Attempts, ares.Attempt{Outcome: o})
		}
		if got := r.FailedInARow(); got != c.want {
			t.Errorf("%v: %d", c.outcomes, got)
		}
	}
}

// TestStopToReturn checks which running jobs are stopped to be returned, and that such a job is neither placed again nor counted
// as failed.
func TestStopToReturn(t *testing.T) {
	claimed := func(j *ares.Job) ares.Run {
		r := ares.NewRun(t0)
		place(t, &r, 5)
		if err := r.Claim(j, 5, 0, "a", t0); err != nil {
			t.Fatal(err)
		}
		return r
	}
	array := grantedJob(ares.Restart)
	array.Array.Count = 3
	for what, c := range map[string]struct {
		job  *ares.Job
		edit func(*ares.Run)
		want bool
	}{
		"runs":                  {grantedJob(ares.Restart), func(*ares.Run) {}, true},
		"is being preempted":    {grantedJob(ares.Restart), func(r *ares.Run) { r.Stop = &ares.Stop{Why: ares.StopPreempt} }, true},
		"is being cancelled":    {grantedJob(ares.Restart), func(r *ares.Run) { r.Stop = &ares.Stop{Why: ares.StopCancel} }, false},
		"at_most_once":          {grantedJob(ares.AtMostOnce), func(*ares.Run) {}, false},
		"an array":              {array, func(*ares.Run) {}, false},
		"an element":            {grantedJob(ares.Restart).Element(3), func(*ares.Run) {}, false},
		"was submitted here":    {&ares.Job{}, func(*ares.Run) {}, false},
		"not confirmed":         {grantedJob(ares.Restart), func(r *ares.Run) { r.Unconfirmed = true }, false},
		"no attempt under way ": {grantedJob(ares.Restart), func(r *ares.Run) { *r = ares.NewRun(t0) }, false},
	} {
		r := claimed(c.job)
		c.edit(&r)
		err := r.StopToReturn(c.job, "cluster east is drained", t0)
		if got := err == nil; got != c.want || err != nil && ares.CodeOf(err) != ares.Conflict || c.want != (r.Returning != "") {
			t.Errorf("%s: stopped %t (%v), want %t; %q", what, got, err, c.want, r.Returning)
		}
	}

	j := grantedJob(ares.Restart)
	r := claimed(j)
	if err := r.StopToReturn(j, "cluster east is drained", t0); err != nil || r.Stop == nil || r.Stop.Grace != j.Grace() {
		t.Fatalf("%v, %+v", err, r.Stop)
	}
	if err := r.CheckReturn(j); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a job whose attempt is being stopped could be returned: %v", err)
	}
	if err := r.Finish(j, 5, 0, ares.RankResult{Outcome: ares.OutcomeStopped}, t0); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckReturn(j); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a job with a seat that is not released could be returned: %v", err)
	}
	if err := r.Release(5, 0); err != nil {
		t.Fatal(err)
	}
	if r.Phase != ares.Pending || r.Retries != 0 || r.Losses != 0 || !r.IsHeld(j) {
		t.Errorf("after the stop, the run is %+v", r)
	}
	if err := r.Place([]ares.Seat{{Node: "a"}}, 0, t0); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a job that is being returned was placed: %v", err)
	}
	if err := r.Return(j, r.Returning, t0); err != nil || r.Phase != ares.Returned || r.Returning != "" {
		t.Errorf("returned: %v, %+v", err, r)
	}
}
