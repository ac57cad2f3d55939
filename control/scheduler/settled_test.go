package scheduler_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestUseFromWaitsForEarlierPlans lowers the loan of a tenant after a plan for its job was made and before the plan is committed.
// The use from then on must contain that job, and the next job must wait.
func TestUseFromWaitsForEarlierPlans(t *testing.T) {
	s := storetest.Embedded(t)
	storetest.NewNode(t, s)
	tenant := storetest.NewTenant(t, s)
	if _, err := s.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubIncarnation = "west", "hub-1"; return nil }); err != nil {
		t.Fatal(err)
	}
	lowered := make(chan int64, 1)
	var lead atomic.Pointer[store.Leadership]
	srv := controltest.NewServer(t, "server-1", s, func(l *scheduler.Loop) {
		l.Before = func(_ context.Context, got *store.Leadership) error { lead.Store(got); return nil }
		done := false
		l.Judge = func(_ *engine.State, plan *ares.Plan) {
			if len(plan.Place) == 0 || done {
				return
			}
			done = true
			revision, err := s.SetLoan(t.Context(), lead.Load(), tenant.ID, ares.Loan{Hub: "hub-1", Version: 1, GPUs: 0, Quota: 8})
			if err != nil {
				t.Error(err)
			}
			lowered <- revision
		}
	})
	create := func() ares.JobID {
		t.Helper()
		now, err := s.Tenant(t.Context(), tenant.ID)
		if err != nil {
			t.Fatal(err)
		}
		ask := storetest.JobOf(now, storetest.Sleep())
		if got := s.Create(t.Context(), []store.Creation{ask})[0]; got.Err != nil {
			t.Fatal(got.Err)
		}
		return ask.Job.ID
	}
	create()
	use, err := srv.Loop.UseFrom(t.Context(), tenant.ID, <-lowered)
	if err != nil || use.GPUs != 1 {
		t.Errorf("the use is %+v, %v, and one job was placed", use, err)
	}
	waits := create()
	controltest.Await(t, srv.View, "a reason to wait", func() bool {
		return len(srv.Loop.Refusal(waits).Blockers) > 0 || srv.View.Job(waits) != nil && srv.View.Job(waits).Run.Placed > 0
	})
	if e := srv.View.Job(waits); e.Run.Placed > 0 {
		t.Error("a job was started without a loan")
	}
	why := srv.Loop.Explain(waits)
	var text []string
	for _, b := range why.Blockers {
		text = append(text, b.Detail.String())
	}
	if want := "which lets its jobs use 0 of its 8 GPUs in this cluster"; !strings.Contains(strings.Join(text, "; "), want) || len(why.Remedies) > 0 {
		t.Errorf("the job waits because of %q, and %+v would help; want %q and nothing", text, why.Remedies, want)
	}
}
