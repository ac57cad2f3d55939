package admission

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestQueueTimeout checks that the leader ends a job that has waited longer than its max_queue_minutes. TestQueueTimeout also checks
// that the leader records a missed deadline, even if no other event occurs.
func TestQueueTimeout(t *testing.T) {
	s := storetest.Embedded(t)
	var ahead atomic.Int64
	srv := controltest.NewServer(t, "server-1", s, func(l *scheduler.Loop) {
		l.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	if err := s.RegisterTenant(t.Context(), ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}); err != nil {
		t.Fatal(err)
	}
	d := &Admission{Store: s, View: srv.View, Now: time.Now, MinLostAfter: 20 * time.Second}
	hasty := d.submit(t, spec(func(s *ares.Spec) { s.GPUs, s.MaxQueueMinutes = 1, 30 }))
	array := d.submit(t, spec(func(s *ares.Spec) { s.GPUs, s.MaxQueueMinutes, s.Array.Count = 1, 30, 3 }))
	late := d.submit(t, spec(func(s *ares.Spec) { s.GPUs, s.Deadline = 1, time.Now().Add(20*time.Minute) }))
	phase := func(id ares.JobID) ares.Phase { return controltest.PhaseOf(srv.View, id) }
	controltest.Await(t, srv.View, "the jobs to be seen", func() bool { return phase(late.ID) == ares.Pending })
	ahead.Store(int64(25 * time.Minute))
	controltest.Await(t, srv.View, "the deadline to be noted", func() bool { return srv.View.Job(late.ID).Run.Lateness == ares.LatenessMissed })
	if phase(hasty.ID) != ares.Pending || phase(array.ID) != ares.Pending {
		t.Errorf("after 25 minutes they are %s and %s", phase(hasty.ID), phase(array.ID))
	}
	ahead.Store(int64(31 * time.Minute))
	controltest.Await(t, srv.View, "the end of the hasty ones", func() bool { return phase(hasty.ID) == ares.Cancelled && phase(array.ID) == ares.Cancelled })
	const why = "not started within 30 min (max_queue_minutes)"
	if a, b := srv.View.Job(hasty.ID).Run.Reason, srv.View.Job(array.ID).Run.Reason; a != why || b != why {
		t.Errorf("they ended because of %q and %q", a, b)
	}
	run := storetest.Get(t, s, late.ID).Run
	if n := len(run.Transitions); run.Phase != ares.Pending || n != 2 || !strings.Contains(run.Transitions[1].Message, "is past") {
		t.Errorf("the late one is %+v", run)
	}
}
