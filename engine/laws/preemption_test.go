package laws_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/laws"
)

// preemptionCase is a cluster of one node with four GPUs. The job "low" holds two GPUs, the job "lent" exceeds
// its tenant's quota by one GPU, and the jobs "urgent", "owed" and "calm" wait.
type preemptionCase struct {
	jobs  map[ares.JobID]*ares.Job
	runs  map[ares.JobID]*ares.Run
	teams map[string]*ares.Tenant
	plan  ares.Plan
	now   time.Time

	protect ares.JobID // the job with a Protection, or ""
}

func newPreemptionCase(t *testing.T) *preemptionCase {
	t.Helper()
	c := &preemptionCase{now: epoch.Add(time.Hour), runs: map[ares.JobID]*ares.Run{}}
	c.teams = map[string]*ares.Tenant{
		"ops":   {ID: "ops", Limits: ares.NoLimits(), MayPreempt: true},
		"lab":   {ID: "lab", Limits: ares.NoLimits()},
		"owner": {ID: "owner", Limits: ares.NoLimits(), Quotas: []ares.Quota{{Nominal: 2, Lend: ares.Unlimited}}},
		"guest": {ID: "guest", Limits: ares.NoLimits(), Quotas: []ares.Quota{{Nominal: 1, Borrow: ares.Unlimited, Lend: ares.Unlimited}}},
	}
	c.jobs = map[ares.JobID]*ares.Job{}
	for id, spec := range map[ares.JobID]ares.Spec{
		"low":    {Tenant: "lab", GPUs: 2, Priority: new(100), Checkpoint: ares.Checkpoint{Enabled: true}},
		"lent":   {Tenant: "guest", GPUs: 2, Checkpoint: ares.Checkpoint{Enabled: true}},
		"urgent": {Tenant: "ops", GPUs: 2, Priority: new(2500)},
		"owed":   {Tenant: "owner", GPUs: 2},
		"calm":   {Tenant: "ops", GPUs: 1, Priority: new(500)},
	} {
		c.jobs[id] = &ares.Job{Spec: spec.WithDefaults(), ID: id, AcceptedAt: epoch, Revision: 1}
	}
	for id, devices := range map[ares.JobID][]int{"low": {0, 1}, "lent": {2, 3}} {
		run := ares.NewRun(epoch)
		if err := run.Place([]ares.Seat{seat("a", 0, devices...)}, 0, epoch); err != nil {
			t.Fatal(err)
		}
		run.Last().Fence = 7
		if err := run.Claim(c.jobs[id], 7, 0, "a", epoch); err != nil {
			t.Fatal(err)
		}
		c.runs[id] = &run
	}
	c.plan = ares.Plan{Revision: 2, Now: c.now}
	return c
}

// The method `nominate` nominates seats for a job and stops the victim.
func (c *preemptionCase) nominate(id ares.JobID, why ares.PreemptionBasis, victim ares.JobID, devices ...int) *preemptionCase {
	y := ares.Preemption{To: id, Tenant: c.jobs[id].Tenant, Why: why, Milli: 2000, Lost: 1, Asked: int64(1000 * len(devices))}
	c.plan.Nominate = append(c.plan.Nominate, ares.Nominating{Job: id, Nomination: ares.Nomination{
		Seats: []ares.Seat{seat("a", 0, devices...)}, Why: why, At: c.now, Until: c.now.Add(time.Minute), Victims: []ares.Victim{{Job: victim, Fence: 7, Preemption: y}},
	}})
	c.plan.Stop = append(c.plan.Stop, ares.Stopping{Job: victim, Stop: ares.Stop{Why: ares.StopPreempt, By: "job " + string(id), At: c.now, Preemption: &y}})
	return c
}

func (c *preemptionCase) nomination() *ares.Nomination { return &c.plan.Nominate[0].Nomination }

func (c *preemptionCase) check() []laws.Violation {
	s := engine.New()
	n := &ares.Node{ID: "a", CPUs: 16, MemoryMB: 1000}
	for k := range 4 {
		n.Devices = append(n.Devices, ares.Device{ID: seat("a", 0, k).Shares[0].Device, Index: k, Type: "gpu", Model: "H100", MemoryMB: 1000, Healthy: true})
	}
	b := ares.Batch{Revision: 2, Events: []ares.Event{{Node: n}, {Session: &ares.Session{Node: "a"}}}}
	for _, tenant := range c.teams {
		b.Events = append(b.Events, ares.Event{Tenant: tenant})
	}
	for id, job := range c.jobs {
		b.Events = append(b.Events, ares.Event{Job: job})
		if run := c.runs[id]; run != nil {
			b.Events = append(b.Events, ares.Event{Run: &ares.RunEvent{Job: id, Run: *run}})
		}
	}
	if c.protect != "" {
		b.Events = append(b.Events, ares.Event{Protect: &ares.Protection{Job: c.protect, Why: "a rule of another system"}})
	}
	s.Apply(b)
	return laws.Check(s, &c.plan)
}

// TestPreemptionViolationsAreFound checks that each law about preemption reports a plan that violates it.
func TestPreemptionViolationsAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(*preemptionCase)
		law   string // "" for none
	}{
		{"by class", func(c *preemptionCase) { c.nominate("urgent", ares.PreemptByClass, "low", 0, 1) }, ""},
		{"by quota", func(c *preemptionCase) { c.nominate("owed", ares.PreemptByQuota, "lent", 2, 3) }, ""},
		{"one class above", func(c *preemptionCase) { c.nominate("calm", ares.PreemptByClass, "low", 0) }, "rights"},
		{"a tenant that may not", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).teams["ops"].MayPreempt = false
		}, "rights"},
		{"by no right", func(c *preemptionCase) { c.nominate("urgent", "", "low", 0, 1) }, "rights"},
		{"who borrowed nothing", func(c *preemptionCase) { c.nominate("owed", ares.PreemptByQuota, "low", 0, 1) }, "rights"},
		{"who is within his quota", func(c *preemptionCase) {
			c.nominate("owed", ares.PreemptByQuota, "lent", 2, 3).teams["guest"].Quotas[0].Nominal = 2
		}, "rights"},
		{"for more than is promised", func(c *preemptionCase) {
			c.nominate("owed", ares.PreemptByQuota, "lent", 2, 3).teams["owner"].Quotas[0].Nominal = 1
		}, "rights"},
		{"a latency-sensitive one", func(c *preemptionCase) {
			c.nominate("owed", ares.PreemptByQuota, "lent", 2, 3).jobs["lent"].EditPlacement().LatencySensitive = true
		}, "rights"},
		{"one that runs at most once", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).jobs["low"].Mode = ares.AtMostOnce
		}, "rights"},
		{"a protected one", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).protect = "low"
		}, "rights"},
		{"a protected one whose seats were nominated earlier", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).protect = "low"
			run := ares.NewRun(epoch)
			run.Nominated = c.nomination()
			c.runs["urgent"], c.plan.Nominate = &run, nil
		}, "yields"},
		{"another attempt", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).nomination().Victims[0].Fence = 6
		}, "reckonings"},
		{"a wrong reckoning", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).nomination().Victims[0].Preemption.Milli = 1000
		}, "reckonings"},
		{"nobody named", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).nomination().Victims = nil
		}, "reckonings"},
		{"no seats", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).nomination().Seats = nil
		}, "reckonings"},
		{"nothing to give up", func(c *preemptionCase) { c.plan.Withdraw = []ares.Withdrawing{{Job: "urgent"}} }, "reckonings"},
		{"a kept seat given away", func(c *preemptionCase) {
			c.nominateEarlier(t)
			delete(c.runs, "low") // the victim has left
			c.plan.Place = []ares.Placing{{Job: "calm", Seats: []ares.Seat{seat("a", 0, 0)}}}
		}, "kept seats"},
		{"its own kept seat", func(c *preemptionCase) {
			c.nominateEarlier(t)
			delete(c.runs, "low")
			c.plan.Place = []ares.Placing{{Job: "urgent", Seats: []ares.Seat{seat("a", 0, 0, 1)}}}
		}, ""},
		{"five for one", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0).nomination().Seats[0].Shares[0].Milli = 400
		}, "ceiling"},
		{"who sits elsewhere", func(c *preemptionCase) {
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1).nomination().Seats[0].Node = "b"
		}, "sitters"},
		{"who sits there stays", func(c *preemptionCase) { c.nominate("urgent", ares.PreemptByClass, "low", 0, 2) }, "sitters"},
		{"for too many at once", func(c *preemptionCase) {
			for range config.MaxNominations + 1 {
				c.nominate("urgent", ares.PreemptByClass, "low", 0, 1)
			}
		}, "sitters"},
		{"to one that was preempted for it", func(c *preemptionCase) {
			c.addPreemption("urgent", "low", c.now)
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1)
		}, "circles"},
		{"to one that was preempted for it, by others", func(c *preemptionCase) {
			c.addPreemption("urgent", "lent", c.now)
			c.addPreemption("calm", "low", c.now)
			c.runs["lent"].Attempts[0].Preemption = &ares.Preemption{To: "calm", Why: ares.PreemptByClass}
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1)
		}, "circles"},
		{"too many in an hour", func(c *preemptionCase) {
			for range 100 {
				c.addPreemption("calm", "owed", c.now)
			}
			c.runs["calm"].Attempts[0].Preemption.Tenant = "ops"
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1)
		}, "rates"},
		{"so many, but not in an hour", func(c *preemptionCase) {
			for range 100 {
				c.addPreemption("calm", "owed", c.now.Add(-time.Hour))
			}
			c.nominate("urgent", ares.PreemptByClass, "low", 0, 1)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			court := newPreemptionCase(t)
			c.plant(court)
			expectViolation(t, court.check(), c.law)
		})
	}
}

// addPreemption records that a waiting job was preempted for another job.
func (c *preemptionCase) addPreemption(id, to ares.JobID, at time.Time) {
	run := c.runs[id]
	if run == nil {
		run = new(ares.NewRun(epoch))
		c.runs[id] = run
	}
	run.Attempts = append(run.Attempts, ares.Attempt{
		Number: len(run.Attempts) + 1, PlacedAt: epoch, EndedAt: at, Outcome: ares.OutcomeStopped,
		Preemption: &ares.Preemption{To: to, Tenant: "ops", Why: ares.PreemptByClass},
	})
	run.Placed = len(run.Attempts)
}

// nominateEarlier nominates seats for the job "urgent", as if an earlier plan had done so.
func (c *preemptionCase) nominateEarlier(t *testing.T) {
	t.Helper()
	run := ares.NewRun(epoch)
	if err := run.Nominate(ares.Nomination{Seats: []ares.Seat{seat("a", 0, 0, 1)}, Why: ares.PreemptByClass, At: epoch, Until: c.now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	c.runs["urgent"] = &run
}

// TestPreemptionCyclesAreFound checks that a cycle of preemptions over three jobs is reported.
func TestPreemptionCyclesAreFound(t *testing.T) {
	c := newPreemptionCase(t)
	s := engine.New()
	b := ares.Batch{Revision: 1}
	for _, job := range c.jobs {
		b.Events = append(b.Events, ares.Event{Job: job})
	}
	s.Apply(b)
	var w laws.PreemptionHistory
	stop := func(by, victim ares.JobID) error {
		return w.Observe(s, &ares.Plan{Now: epoch, Stop: []ares.Stopping{{Job: victim, Stop: ares.Stop{Why: ares.StopPreempt, Preemption: &ares.Preemption{To: by}}}}})
	}
	for _, step := range []struct {
		by, victim ares.JobID
		cycle      bool
	}{
		{"urgent", "low", false},
		{"low", "lent", false},
		{"urgent", "lent", false},
		{"urgent", "low", false}, // a repeated preemption
		{"lent", "urgent", true},
	} {
		if err := stop(step.by, step.victim); (err != nil) != step.cycle {
			t.Errorf("%s stops %s: %v", step.by, step.victim, err)
		}
	}
	if len(w.Preemptions) != 5 || w.MaxPerJob() != 2 {
		t.Errorf("seen were %d stops, of one job at most %d", len(w.Preemptions), w.MaxPerJob())
	}
}
