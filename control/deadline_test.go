package control

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

func due(within time.Duration) func(*ares.Spec) {
	return func(s *ares.Spec) { s.Deadline = noon.Add(within) }
}

// TestDeadlinesAtTheDesk: a deadline that is past is refused, one that will hardly
// be met by policy; and a request that was accepted stays accepted.
func TestDeadlinesAtTheDesk(t *testing.T) {
	d := newDesk(t)
	said := ares.RuntimePredicted{P50: time.Hour, P90: 190 * time.Minute, Basis: "30 runs of train", Samples: 30}
	d.Predict = func(*ares.Job) ares.RuntimePredicted { return said }
	for _, c := range []struct {
		policy        Infeasible
		within        time.Duration
		samples       int
		warns, refuse string
	}{
		{InfeasibleWarn, 4 * time.Hour, 30, "", ""},
		{InfeasibleWarn, 65 * time.Minute, 30, "p90 of its runtime is 3h10m, so it would end 2h05m late (30 runs of train)", ""},
		{InfeasibleWarn, 65 * time.Minute, 0, "", ""},
		{InfeasibleAccept, 65 * time.Minute, 30, "", ""},
		{"", 65 * time.Minute, 30, "", ""},
		{InfeasibleRefuse, 4 * time.Hour, 30, "", ""},
		{InfeasibleRefuse, 65 * time.Minute, 30, "", "deadline: cannot be met: deadline 2026-01-02T13:05:00Z: p90 of its runtime is 3h10m, so it would end 2h05m late (30 runs of train); set it to"},
		{InfeasibleRefuse, 65 * time.Minute, 27, "", ""}, // too few
		{InfeasibleAccept, 0, 30, "", "is past"},
		{InfeasibleWarn, -time.Hour, 30, "", "is past"},
	} {
		d.Infeasible, said.Samples = c.policy, c.samples
		got, err := d.Submit(t.Context(), spec(due(c.within)), "me")
		_, drafted := d.Draft(t.Context(), spec(due(c.within)), "me")
		if c.refuse != "" {
			want := strings.ReplaceAll(c.refuse, "2026-01-02T13:05:00Z", noon.Add(c.within).UTC().Format(time.RFC3339))
			wantCode(t, err, ares.Refused, want)
			wantCode(t, drafted, ares.Refused, want)
			continue
		}
		if err != nil || drafted != nil || (len(got.Warnings) == 0) != (c.warns == "") || !strings.Contains(strings.Join(got.Warnings, "; "), c.warns) {
			t.Errorf("%+v: %+v, %v, %v", c, got, err, drafted)
		}
	}
}

// TestRetriedDeadline: the same request is the same job, whatever has become of its
// deadline since, and a retry of a job is not held to a deadline that is past.
func TestRetriedDeadline(t *testing.T) {
	d := newDesk(t)
	now := noon
	d.Now = func() time.Time { return now }
	d.Infeasible = InfeasibleRefuse
	ask := spec(due(time.Hour), asking("r1"))
	first := d.submit(t, ask)
	now = noon.Add(2 * time.Hour)
	got, err := d.Submit(t.Context(), ask, "me")
	if err != nil || got.ID != first.ID || !got.Duplicate || len(got.Warnings) > 0 {
		t.Errorf("the same request again: %+v, %v", got, err)
	}
	d.Predict = func(*ares.Job) ares.RuntimePredicted {
		return ares.RuntimePredicted{P50: time.Hour, P90: 3 * time.Hour, Samples: 30}
	}
	now = noon
	if got, err = d.Submit(t.Context(), ask, "me"); err != nil || got.ID != first.ID || !got.Duplicate {
		t.Errorf("the same request when more is known: %+v, %v", got, err)
	}
	now = noon.Add(2 * time.Hour)
	if _, err = d.Cancel(t.Context(), first.ID, "me"); err != nil {
		t.Fatal(err)
	}
	if got, err = d.Retry(t.Context(), first.ID, "", "me"); err != nil || got.ID == first.ID {
		t.Errorf("its retry: %+v, %v", got, err)
	}
}

// TestPatience: the leader ends a job that has waited for as long as it would, and
// notes a deadline that is past, by its clock alone.
func TestPatience(t *testing.T) {
	s := storetest.Embedded(t)
	var ahead atomic.Int64
	srv := newServer(t, "server-1", s, func(l *Loop) {
		l.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	if err := s.RegisterTenant(t.Context(), ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}); err != nil {
		t.Fatal(err)
	}
	d := &Desk{Store: s, View: srv.view, Now: time.Now, MinLostAfter: 20 * time.Second}
	hasty := d.submit(t, spec(func(s *ares.Spec) { s.GPUs, s.MaxQueueMinutes = 1, 30 }))
	array := d.submit(t, spec(func(s *ares.Spec) { s.GPUs, s.MaxQueueMinutes, s.Array.Count = 1, 30, 3 }))
	late := d.submit(t, spec(func(s *ares.Spec) { s.GPUs, s.Deadline = 1, time.Now().Add(20*time.Minute) }))
	phase := func(id ares.JobID) ares.Phase { return phaseOf(srv.view, id) }
	await(t, srv.view, "the jobs to be seen", func() bool { return phase(late.ID) == ares.Pending })
	ahead.Store(int64(25 * time.Minute))
	await(t, srv.view, "the deadline to be noted", func() bool { return srv.view.Job(late.ID).Run.Lateness == ares.LatenessMissed })
	if phase(hasty.ID) != ares.Pending || phase(array.ID) != ares.Pending {
		t.Errorf("after 25 minutes they are %s and %s", phase(hasty.ID), phase(array.ID))
	}
	ahead.Store(int64(31 * time.Minute))
	await(t, srv.view, "the end of the hasty ones", func() bool { return phase(hasty.ID) == ares.Cancelled && phase(array.ID) == ares.Cancelled })
	const why = "waited 30 min, the most it asked for (max_queue_minutes)"
	if a, b := srv.view.Job(hasty.ID).Run.Reason, srv.view.Job(array.ID).Run.Reason; a != why || b != why {
		t.Errorf("they ended because of %q and %q", a, b)
	}
	run := storetest.Get(t, s, late.ID).Run
	if n := len(run.Transitions); run.Phase != ares.Pending || n != 2 || !strings.Contains(run.Transitions[1].Message, "is past") {
		t.Errorf("the late one is %+v", run)
	}
}
