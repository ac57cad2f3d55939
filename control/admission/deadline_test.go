package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

func due(within time.Duration) func(*ares.Spec) {
	return func(s *ares.Spec) { s.Deadline = storetest.Noon.Add(within) }
}

// TestDeadlinePolicies checks that a deadline in the past is rejected. If a job will probably miss its deadline, the
// deadline policy must decide whether the job is accepted.
func TestDeadlinePolicies(t *testing.T) {
	d := newAdmission(t)
	said := ares.RuntimePredicted{P50: time.Hour, P90: 190 * time.Minute, Basis: "30 runs of train", Samples: 30, Own: 30}
	d.Predict = func(*ares.Job) ares.RuntimePredicted { return said }
	for _, c := range []struct {
		policy        DeadlinePolicy
		within        time.Duration
		own           int
		warns, refuse string
	}{
		{DeadlineWarn, 4 * time.Hour, 30, "", ""},
		{DeadlineWarn, 65 * time.Minute, 30, "p90 of its runtime is 3h10m, so it would end 2h05m late (30 runs of train)", ""},
		{DeadlineWarn, 65 * time.Minute, 0, "", ""},
		{DeadlineAccept, 65 * time.Minute, 30, "", ""},
		{"", 65 * time.Minute, 30, "", ""},
		{DeadlineReject, 4 * time.Hour, 30, "", ""},
		{DeadlineReject, 65 * time.Minute, 30, "", "deadline: the job cannot end in time: deadline 2026-01-02T13:05:00Z: p90 of its runtime is 3h10m, so it would end 2h05m late (30 runs of train); set the deadline to"},
		{DeadlineReject, 65 * time.Minute, 8, "", ""}, // too few runs of the job itself
		{DeadlineAccept, 0, 30, "", "is in the past"},
		{DeadlineWarn, -time.Hour, 30, "", "is in the past"},
	} {
		d.DeadlinePolicy, said.Own = c.policy, c.own
		got, err := d.submitOne(t.Context(), spec(due(c.within)), "me")
		_, drafted := d.Draft(t.Context(), Request{Submitted: spec(due(c.within)), Owner: "me"})
		if c.refuse != "" {
			want := strings.ReplaceAll(c.refuse, "2026-01-02T13:05:00Z", storetest.Noon.Add(c.within).UTC().Format(time.RFC3339))
			wantCode(t, err, ares.DeadlineUnreachable, want)
			wantCode(t, drafted, ares.DeadlineUnreachable, want)
			continue
		}
		if err != nil || drafted != nil || (len(got.Warnings) == 0) != (c.warns == "") || !strings.Contains(strings.Join(got.Warnings, "; "), c.warns) {
			t.Errorf("%+v: %+v, %v, %v", c, got, err, drafted)
		}
	}
}

// TestRetriedDeadline makes two requests after the deadline of a job has passed. A repeated request must return the same
// job, and a retry must be accepted.
func TestRetriedDeadline(t *testing.T) {
	d := newAdmission(t)
	now := storetest.Noon
	d.Now = func() time.Time { return now }
	d.DeadlinePolicy = DeadlineReject
	ask := spec(due(time.Hour), asking("r1"))
	first := d.submit(t, ask)
	now = storetest.Noon.Add(2 * time.Hour)
	got, err := d.submitOne(t.Context(), ask, "me")
	if err != nil || got.ID != first.ID || !got.Duplicate || len(got.Warnings) > 0 {
		t.Errorf("the same request again: %+v, %v", got, err)
	}
	d.Predict = func(*ares.Job) ares.RuntimePredicted {
		return ares.RuntimePredicted{P50: time.Hour, P90: 3 * time.Hour, Samples: 30, Own: 30}
	}
	now = storetest.Noon
	if got, err = d.submitOne(t.Context(), ask, "me"); err != nil || got.ID != first.ID || !got.Duplicate {
		t.Errorf("the same request with a new prediction: %+v, %v", got, err)
	}
	now = storetest.Noon.Add(2 * time.Hour)
	if _, err = d.Cancel(t.Context(), first.ID, "me"); err != nil {
		t.Fatal(err)
	}
	if got, err = d.Retry(t.Context(), first.ID, Request{Owner: "me"}); err != nil || got.ID == first.ID {
		t.Errorf("its retry: %+v, %v", got, err)
	}
}

// TestDeadlinesTellNoExactRuntime tries many deadlines with two predicted runtimes that are rounded to the same value. If the
// answers differed, trying deadlines would tell the exact prediction, which follows from the runs of other tenants.
func TestDeadlinesTellNoExactRuntime(t *testing.T) {
	d := newAdmission(t)
	d.DeadlinePolicy = DeadlineReject
	for within := 186 * time.Minute; within <= 191*time.Minute; within += 20 * time.Second {
		var answers []string
		for _, p90 := range []time.Duration{185*time.Minute + time.Second, 189*time.Minute + 59*time.Second} {
			d.Predict = func(*ares.Job) ares.RuntimePredicted {
				return ares.RuntimePredicted{P50: time.Hour, P90: p90, Basis: "runs", Samples: 30, Own: 30}
			}
			_, err := d.Draft(t.Context(), Request{Submitted: spec(due(within)), Owner: "me"})
			answers = append(answers, fmt.Sprint(err))
		}
		if answers[0] != answers[1] || (answers[0] == "<nil>") != (within >= 190*time.Minute) {
			t.Errorf("a deadline in %s: %q", within, answers)
		}
	}
}
