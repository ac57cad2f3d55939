package storetest

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var drainLaws = []law{
	{"ItStopsWhatWasSeen", drainRules},
	{"OnlyTheLeaderStops", drainLeader},
}

// drainRules checks that Drain stops only the given attempt. It must stop nothing after the drain
// has ended, and must work only for the leader.
func drainRules(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	node, fence := st.nodes[0].ID, st.seats[0].Fence
	cordon := func(drain bool) ares.Cordon {
		t.Helper()
		c := ares.Cordon{Node: node, By: "ops", Since: Noon, Drain: drain}
		if _, err := s.Cordon(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		c.Revision = Records(t, s, "cordons/"+node)[0].Revision
		return c
	}
	drain := func(f ares.Fence, c ares.Cordon) (bool, error) {
		return s.Drain(t.Context(), st.lead, st.job.ID, f, c, Noon)
	}
	old := cordon(true)
	if asked, err := drain(fence, cordon(false)); asked || err != nil {
		t.Errorf("a cordon stopped a job: %v, %v", asked, err)
	}
	_, err := drain(fence, old)
	refused(t, err, ares.Conflict, "has changed")
	now := cordon(true)
	if asked, err := drain(fence-1, now); asked || err != nil {
		t.Errorf("another attempt was stopped: %v, %v", asked, err)
	}
	phase(t, s, st.job.ID, ares.Running)
	if run := Get(t, s, st.job.ID).Run; run.Stop != nil {
		t.Fatalf("stopped by %+v", run.Stop)
	}
	if asked, err := drain(fence, now); !asked || err != nil {
		t.Fatalf("not stopped: %v, %v", asked, err)
	}
	if asked, err := drain(fence, now); asked || err != nil {
		t.Errorf("asked twice: %v, %v", asked, err)
	}
	Finish(t, s, st.seats[0], ares.OutcomeStopped)
	Release(t, s, st.seats...)
	other := NewNode(t, s)
	seats := Place(t, s, st.lead, st.job, other)
	Claim(t, s, seats, other)
	if asked, err := drain(fence, now); asked || err != nil || Get(t, s, st.job.ID).Run.Stop != nil {
		t.Errorf("its next attempt was stopped: %v, %v", asked, err)
	}
	if asked, err := s.Drain(t.Context(), st.lead, "job-none", fence, now, Noon); asked || err != nil {
		t.Errorf("a job that is gone: %v, %v", asked, err)
	}
}

// drainLeader checks that a server that is no longer the leader stops no job.
func drainLeader(t *testing.T, s *store.Store) {
	job, node := NewJob(t, s), NewNode(t, s)
	lead, resign := NewLead(t, s)
	seats := Place(t, s, lead, job, node)
	Claim(t, s, seats, node)
	c := ares.Cordon{Node: node.ID, By: "ops", Since: Noon, Drain: true}
	if _, err := s.Cordon(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Revision = Records(t, s, "cordons/"+node.ID)[0].Revision
	resign()
	_, err := s.Drain(t.Context(), lead, job.ID, seats[0].Fence, c, Noon)
	refused(t, err, ares.Conflict, "no longer the leader")
	if run := phase(t, s, job.ID, ares.Running); run.Stop != nil {
		t.Errorf("stopped by %+v", run.Stop)
	}
}
