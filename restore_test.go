package ares_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestRestoreOfAnArray checks that after a restore an array continues with the elements that the backup contains. An at_most_once array
// does not continue, because elements that are not in the backup may have run.
func TestRestoreOfAnArray(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	for _, c := range []struct {
		mode ares.Mode
		stop bool
		want ares.Phase
	}{
		{ares.Restart, false, ares.Running},
		{ares.AtMostOnce, false, ares.Lost},
		{ares.Restart, true, ares.Running},
		{ares.AtMostOnce, true, ares.Running}, // it ends as cancelled after its elements have ended
	} {
		job := &ares.Job{Spec: ares.Spec{Mode: c.mode, Array: ares.Array{Count: 5}}.WithDefaults()}
		r := ares.NewRun(now)
		if err := r.Advance(&ares.ArrayStep{Next: 2}, now); err != nil {
			t.Fatal(err)
		}
		if c.stop {
			if err := r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "somebody", At: now}); err != nil {
				t.Fatal(err)
			}
		}
		changed, err := r.Restore(job, now)
		if err != nil || changed != (c.want == ares.Lost) || r.Phase != c.want || (r.Stop != nil) != c.stop {
			t.Errorf("%s, stop %t: %s, changed %t, %v", c.mode, c.stop, r.Phase, changed, err)
		}
	}
}

func TestRestoreEndsWhatWasUnderWay(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	seats := []ares.Seat{{Node: "a", Rank: 0}, {Node: "b", Rank: 1}}
	for _, c := range []struct {
		name    string
		mode    ares.Mode
		place   bool
		stop    ares.StopWhy
		want    ares.Phase
		changed bool
	}{
		{"waiting", ares.Restart, false, "", ares.Pending, false},
		{"waiting, at most once", ares.AtMostOnce, false, "", ares.Lost, true},
		{"running", ares.Restart, true, "", ares.Pending, true},
		{"running, at most once", ares.AtMostOnce, true, "", ares.Lost, true},
		{"being cancelled", ares.Restart, true, ares.StopCancel, ares.Cancelled, true},
		{"being cancelled, at most once", ares.AtMostOnce, true, ares.StopCancel, ares.Cancelled, true},
		{"giving way", ares.Restart, true, ares.StopPreempt, ares.Pending, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := &ares.Job{Spec: ares.Spec{Mode: c.mode, Members: 2}.WithDefaults()}
			r := ares.NewRun(now)
			if c.place {
				if err := r.Place(seats, 0, now); err != nil {
					t.Fatal(err)
				}
				r.Attempts[0].Fence = 7
				if err := r.Claim(job, 7, 0, "a", now); err != nil {
					t.Fatal(err)
				}
			}
			if c.stop != "" {
				if err := r.RequestStop(ares.Stop{Why: c.stop, By: "somebody", At: now}); err != nil {
					t.Fatal(err)
				}
			}
			changed, err := r.Restore(job, now)
			if err != nil || changed != c.changed || r.Phase != c.want {
				t.Fatalf("got %s, changed %v, %v; want %s, %v", r.Phase, changed, err, c.want, c.changed)
			}
			if !c.place {
				return
			}
			if r.Settled() || r.Attempts[0].Outcome != ares.OutcomeLost {
				t.Errorf("the seats are settled: %v, the attempt is %q", r.Settled(), r.Attempts[0].Outcome)
			}
			if r.Phase.Waiting() {
				if err := r.Place(seats, 0, now); ares.CodeOf(err) != ares.Conflict {
					t.Errorf("placed beside seats that may live: %v", err)
				}
			}
			// If an agent later sends a report with the old fence, the report frees the seat but
			// ends no attempt.
			if err := r.Finish(job, 7, 0, ares.RankResult{Outcome: ares.OutcomeSucceeded}, now); ares.CodeOf(err) != ares.Fenced {
				t.Errorf("a late report: %v", err)
			}
			for rank := range seats {
				if err := r.Release(7, rank); err != nil {
					t.Error(err)
				}
			}
			if again, err := r.Restore(job, now); again || err != nil || !r.Free() || r.Phase != c.want {
				t.Errorf("restored twice: %v %v, free %v, %s", again, err, r.Free(), r.Phase)
			}
		})
	}
}

func TestRestoreLeavesWhatIsFinal(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	r := ares.NewRun(now)
	if err := r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "somebody", At: now}); err != nil {
		t.Fatal(err)
	}
	job := &ares.Job{Spec: ares.Spec{Mode: ares.AtMostOnce}.WithDefaults()}
	if changed, err := r.Restore(job, now); changed || err != nil || r.Phase != ares.Cancelled {
		t.Errorf("got %v %v %s", changed, err, r.Phase)
	}
}
