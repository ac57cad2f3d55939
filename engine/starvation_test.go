package engine_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// A `stream` is a small cluster that gets more jobs than it can run. Jobs of class high are
// submitted every minute, and all jobs have the same runtime.
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
	s.w.AddNode(*nodeOf("n", gpus))
	for _, id := range tenants {
		s.w.PutEvents(tenantEvent(id))
	}
	return s
}

func (s *stream) submit(id ares.JobID, tenant string, priority, gpus int) {
	s.w.Submit(id, ares.Spec{Tenant: tenant, GPUs: gpus, Priority: &priority})
}

// The method `minute` advances the time by one minute: jobs end, jobs of each tenant are
// submitted, and one cycle runs.
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

// The method `finish` ends a job and archives it, so that the cluster stays small.
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

// TestNoStarvationBehindOtherTenants checks that a job of the tenant with the lowest share gets the first free capacity
// after 1000 ageing steps.
func TestNoStarvationBehindOtherTenants(t *testing.T) {
	s := newStream(t, 4, "ann", "bob", "poor")
	for range 30 {
		s.minute(1, "ann", "bob")
	}
	accepted := s.w.Now
	s.submit("low", "poor", 0, 1)
	bound := 1000*config.Default().AgeingStep + s.runs + time.Minute // one cycle per minute
	for !s.w.Now.After(accepted.Add(bound)) {
		s.minute(1, "ann", "bob")
		if at, ok := s.started["low"]; ok {
			t.Logf("started after %s; the bound is %s", at.Sub(accepted), bound)
			if at.Sub(accepted) < 1000*config.Default().AgeingStep {
				t.Errorf("a best-effort job started before jobs of class high after %s", at.Sub(accepted))
			}
			return
		}
	}
	t.Fatalf("the job waits for more than %s", bound)
}

// TestNoStarvationInAQueue checks that later jobs cannot delay a job forever. Only jobs that were submitted less
// than 1999 ageing steps after the job may start before it.
func TestNoStarvationInAQueue(t *testing.T) {
	s := newStream(t, 4)
	for range 30 {
		s.minute(2, "")
	}
	accepted := s.w.Now
	s.submit("low", "", 0, 1)
	window := 1999 * config.Default().AgeingStep
	before := 0 // jobs that may start first
	for range 2000 {
		s.minute(2, "")
		if s.w.Now.Sub(accepted) < window {
			before = s.made
		}
		if at, ok := s.started["low"]; ok {
			t.Logf("started after %s, behind %d jobs; %d were submitted within %s of it, and %d in all", at.Sub(accepted), len(s.started)-1, before, window, s.made)
			if len(s.started) > before+4 { // 4 jobs start in the same cycle
				t.Errorf("%d jobs started before it; only the %d submitted within %s may", len(s.started)-1, before, window)
			}
			return
		}
	}
	t.Fatal("the job does not start")
}

// TestNoStarvationBehindSmallerJobs checks a job that needs more devices than usually become free at the same time.
// The job must start nevertheless. After Backfill.DrainAfter, nodes are held for the job as soon as it has earned the
// idle time. The ends of running jobs are unknown here, so they are expected in 10 minutes. Then the price of a hold is
// never above a quarter of the job's GPUs for 10 minutes, plus a twentieth of these GPUs for the 4 hours that are assumed
// for the job itself.
func TestNoStarvationBehindSmallerJobs(t *testing.T) {
	s := newStream(t, 4)
	s.minute(1, "")
	accepted := s.w.Now
	s.submit("big", "", 1999, 4)
	c := config.Default().Backfill
	earned := (10*time.Minute/4 + 4*time.Hour/20) * 1000 / time.Duration(c.HoldIdle)
	bound := c.DrainAfter + earned + s.runs + time.Minute // one cycle per minute
	for !s.w.Now.After(accepted.Add(bound)) {
		s.minute(1, "")
		if at, ok := s.started["big"]; ok {
			t.Logf("started after %s; the bound is %s", at.Sub(accepted), bound)
			return
		}
	}
	t.Fatalf("the job waits for more than %s", bound)
}
