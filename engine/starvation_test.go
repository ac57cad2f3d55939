package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// stream is a small fleet under more work than it can do: every minute jobs of
// class high come in, and every job runs for as long as the others.
type stream struct {
	t       *testing.T
	w       *enginetest.Cluster
	runs    time.Duration
	made    int
	ends    map[time.Time][]ares.JobID
	started map[ares.JobID]time.Time
}

func newStream(t *testing.T, gpus int, tenants ...string) *stream {
	s := &stream{t: t, w: enginetest.NewCluster(), runs: 4 * time.Minute, ends: map[time.Time][]ares.JobID{}, started: map[ares.JobID]time.Time{}}
	s.w.AddNode(*machineOf("n", gpus))
	for _, id := range tenants {
		s.w.PutEvents(tenantEvent(id))
	}
	return s
}

func (s *stream) submit(id ares.JobID, tenant string, priority, gpus int) {
	s.w.Submit(id, ares.Spec{Tenant: tenant, GPUs: gpus, Priority: &priority})
}

// minute lets one minute pass: jobs end, jobs of each tenant come, the loop
// decides.
func (s *stream) minute(each int, tenants ...string) {
	s.t.Helper()
	s.w.Now = s.w.Now.Add(time.Minute)
	for _, id := range s.ends[s.w.Now] {
		s.finish(id)
	}
	delete(s.ends, s.w.Now)
	for _, tenant := range tenants {
		for range each {
			s.submit(ares.JobID(fmt.Sprintf("high%06d", s.made)), tenant, 1999, 1)
			s.made++
		}
	}
	plan := engine.Decide(s.w.State, s.w.Now)
	if err := s.w.ApplyPlan(plan); err != nil {
		s.t.Fatal(err)
	}
	for _, p := range plan.Place {
		s.started[p.Job] = s.w.Now
		s.ends[s.w.Now.Add(s.runs)] = append(s.ends[s.w.Now.Add(s.runs)], p.Job)
	}
}

// finish ends a job and archives it, so that the world stays small.
func (s *stream) finish(id ares.JobID) {
	s.t.Helper()
	now := s.w.Now
	err := s.w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error {
		f := r.Last().Fence
		if err := r.Claim(j, f, 0, "n", now); err != nil {
			return err
		}
		if err := r.Finish(j, f, 0, ares.RankResult{Outcome: ares.OutcomeSucceeded, StartedAt: now, EndedAt: now}, now); err != nil {
			return err
		}
		return r.Release(f, 0)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.w.ArchiveJob(id); err != nil {
		s.t.Fatal(err)
	}
}

// Of a tenant with the least share: the first room after 1000 steps.
func TestNobodyStarvesBehindRicherTenants(t *testing.T) {
	s := newStream(t, 4, "ann", "bob", "poor")
	for range 30 {
		s.minute(1, "ann", "bob")
	}
	accepted := s.w.Now
	s.submit("low", "poor", 0, 1)
	bound := 1000*config.Default().AgeingStep + s.runs + time.Minute // it decides once a minute
	for !s.w.Now.After(accepted.Add(bound)) {
		s.minute(1, "ann", "bob")
		if at, ok := s.started["low"]; ok {
			t.Logf("started after %s; the bound is %s", at.Sub(accepted), bound)
			if at.Sub(accepted) < 1000*config.Default().AgeingStep {
				t.Errorf("a best-effort job went before jobs of class high after %s", at.Sub(accepted))
			}
			return
		}
	}
	t.Fatalf("it waits for more than %s", bound)
}

// Behind others of its own queue: when those have started that came up to 1999
// steps after it.
func TestNobodyStarvesInAQueue(t *testing.T) {
	s := newStream(t, 4)
	for range 30 {
		s.minute(2, "")
	}
	accepted := s.w.Now
	s.submit("low", "", 0, 1)
	window := 1999 * config.Default().AgeingStep
	before := 0 // jobs that may go first
	for range 2000 {
		s.minute(2, "")
		if s.w.Now.Sub(accepted) < window {
			before = s.made
		}
		if at, ok := s.started["low"]; ok {
			t.Logf("started after %s, behind %d jobs; %d came within %s of it, and %d in all", at.Sub(accepted), len(s.started)-1, before, window, s.made)
			if len(s.started) > before+4 { // those that start with it
				t.Errorf("%d jobs went before it; only the %d that came within %s may", len(s.started)-1, before, window)
			}
			return
		}
	}
	t.Fatal("it waits for ever")
}

// A job that asks for more than comes free at once has it kept for it. Nobody
// knows here when others end: what comes free is kept once it has waited for
// Reserving.Hold, and as every job ends in runs, so does its wait.
func TestNobodyStarvesBehindSmallerOnes(t *testing.T) {
	s := newStream(t, 4)
	s.minute(1, "")
	accepted := s.w.Now
	s.submit("big", "", 1999, 4)
	bound := config.Default().Backfill.DrainAfter + s.runs + time.Minute // it decides once a minute
	for !s.w.Now.After(accepted.Add(bound)) {
		s.minute(1, "")
		if at, ok := s.started["big"]; ok {
			t.Logf("started after %s; the bound is %s", at.Sub(accepted), bound)
			return
		}
	}
	t.Fatalf("it waits for more than %s", bound)
}
