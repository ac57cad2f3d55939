package storetest

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// removeLaws lists the tests for removing machines that never return.
var removeLaws = []law{
	{"OnlyWithoutASession", func(t *testing.T, s *store.Store) {
		n := NewNode(t, s)
		_, _, err := s.RemoveNode(t.Context(), n.ID, nil, true, Noon)
		refused(t, err, ares.Conflict, "is connected", "stop its agent")
		n.Close(t, s)
		if _, err = s.Cordon(t.Context(), ares.Cordon{Node: n.ID, By: "somebody", Since: Noon}); err != nil {
			t.Fatal(err)
		}
		if _, _, err = s.RemoveNode(t.Context(), n.ID, nil, false, Noon); err != nil {
			t.Fatal(err)
		}
		if left := append(Records(t, s, "nodes/"+n.ID), Records(t, s, "cordons/"+n.ID)...); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		_, _, err = s.RemoveNode(t.Context(), n.ID, nil, false, Noon)
		refused(t, err, ares.NotFound, "there is no node")
		n.Open(t, s, time.Minute) // it may join again
	}},
	{"FreesVoidedSeats", func(t *testing.T, s *store.Store) {
		lead, resign := NewLead(t, s)
		defer resign()
		a, b := NewNode(t, s), NewNode(t, s)
		job := NewJob(t, s)
		lost := Place(t, s, lead, job, a)
		Claim(t, s, lost, a)
		a.Close(t, s)
		_, _, err := s.RemoveNode(t.Context(), a.ID, []ares.JobID{job.ID}, false, Noon)
		refused(t, err, ares.Conflict, "may still run", "--force")
		if err = s.Void(t.Context(), lead, lost[0], a.Revision(t, s), Noon); err != nil {
			t.Fatal(err)
		}
		again := Place(t, s, lead, job, b)
		Claim(t, s, again, b)
		Finish(t, s, again[0], ares.OutcomeSucceeded)
		Release(t, s, again...)
		snap := Get(t, s, job.ID)
		if err = s.Archive(t.Context(), snap.Job, &snap.Run, nil); ares.CodeOf(err) != ares.Conflict {
			t.Errorf("archived beside a seat that is not free: %v", err)
		}
		freed, _, err := s.RemoveNode(t.Context(), a.ID, []ares.JobID{job.ID}, false, Noon)
		if freed != 1 || err != nil {
			t.Errorf("%d seats freed, %v", freed, err)
		}
		snap = Get(t, s, job.ID)
		if err = s.Archive(t.Context(), snap.Job, &snap.Run, nil); err != nil {
			t.Error(err)
		}
	}},
	{"ForceTakesBackWhatMayLive", func(t *testing.T, s *store.Store) {
		lead, resign := NewLead(t, s)
		defer resign()
		a, b := NewNode(t, s), NewNode(t, s)
		gang := NewJob(t, s, Gang(2))
		seats := Place(t, s, lead, gang, a, b)
		Claim(t, s, seats, a, b)
		a.Close(t, s)
		if n, _, err := s.RemoveNode(t.Context(), a.ID, []ares.JobID{gang.ID}, true, Noon); n != 1 || err != nil {
			t.Fatalf("%d seats freed, %v", n, err)
		}
		run := phase(t, s, gang.ID, ares.Pending)
		if run.Settled() {
			t.Error("the other rank may still live, yet the next attempt need not wait for it")
		}
		_, err := s.Finish(t.Context(), seats[0], Result(ares.OutcomeSucceeded), Noon)
		refused(t, err, ares.Fenced)
		if left := Records(t, s, "leases/"+string(gang.ID)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		Release(t, s, seats[1])
		Place(t, s, lead, gang, b, b)
	}},
}
