package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// contendedCluster is a small overloaded cluster with tenants that may preempt.
type contendedCluster struct {
	w     *enginetest.Cluster
	jobs  []ares.JobID
	nodes []string
	by    map[ares.PreemptionBasis]int // number of victims so far, by reason; nominations without victims are under ""
}

func newContendedCluster(t *rapid.T, moving bool) *contendedCluster {
	return newContendedClusterWith(t, enginetest.AgedConfig(), moving)
}

func newContendedClusterWith(t *rapid.T, cfg config.Config, moving bool) *contendedCluster {
	y := &cfg.Preemption
	y.Ceiling, y.MaxPreemptions = pick(t, "ceiling", 4000, 1000, 2000, 0), pick(t, "yields", 3, 0, 1)
	y.Cooldown, y.Restart = pick(t, "cooldown", time.Minute, 0, 10*time.Minute), pick(t, "restart", time.Minute, 0)
	y.PerTenant = pick(t, "rate", 100, 0, 2)
	y.Moving, y.MoveGain = moving, pick(t, "gain", 1000, 2000)
	m := &contendedCluster{w: enginetest.NewClusterWithConfig(cfg), by: map[ares.PreemptionBasis]int{}}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := nodeOf(fmt.Sprintf("n%d", i), pick(t, "gpus", 2, 4, 8))
		n.Labels = map[string]string{"leaf": fmt.Sprint("l", i/2)}
		n.CPUs, n.MemoryMB = 16, 1000
		m.nodes = append(m.nodes, n.ID)
		m.w.AddNode(*n)
	}
	quota := func(what string) []ares.Quota {
		return []ares.Quota{{Nominal: pick(t, what, 4, 0, 2, 8), Borrow: pick(t, "borrow", ares.Unlimited, 2), Lend: pick(t, "lend", ares.Unlimited, 1)}}
	}
	a, b := &ares.Tenant{ID: "a", Limits: ares.NoLimits(), MayPreempt: true}, &ares.Tenant{ID: "b", Limits: ares.NoLimits(), MayPreempt: rapid.Bool().Draw(t, "may")}
	if rapid.Bool().Draw(t, "quotas") {
		a.Quotas, b.Quotas = quota("a"), quota("b")
	}
	m.w.PutEvents(ares.Event{Tenant: a}, ares.Event{Tenant: b})
	if rapid.Bool().Draw(t, "queues") {
		m.w.PutEvents(ares.Event{Queue: &ares.Queue{Tenant: "a", Name: "one", Limits: ares.NoLimits(), Quotas: quota("one")}},
			ares.Event{Queue: &ares.Queue{Tenant: "a", Name: "two", Limits: ares.NoLimits(), Quotas: quota("two")}})
	}
	return m
}

func (m *contendedCluster) submit(t *rapid.T) {
	id := ares.JobID(fmt.Sprintf("j%03d", len(m.jobs)))
	s := ares.Spec{Tenant: pick(t, "tenant", "a", "b"), Members: pick(t, "members", 1, 1, 2, 4), GPUs: pick(t, "gpus", 1, 2, 4), CPUs: pick(t, "cpus", 0, 1, 4)}
	if s.Tenant == "a" {
		s.Queue = pick(t, "queue", "", "one", "two")
	}
	if once(t, 6, "share") {
		s.GPUs, s.GPUMilli = 0, pick(t, "milli", 500, 300, 800)
	}
	if s.Members == 4 && once(t, 3, "elastic") {
		s.MinMembers = 2
	}
	if s.Members > 1 {
		s.EditPlacement().RequiredLevel = pick(t, "level", "", "leaf", "node")
	}
	s.Priority = new(pick(t, "priority", 500, 0, 100, 1000, 2000))
	s.Checkpoint.Enabled, s.EditPlacement().LatencySensitive = rapid.Bool().Draw(t, "checkpoint"), s.GPUMilli == 0 && once(t, 8, "latency")
	if once(t, 8, "once") {
		s.Mode = ares.AtMostOnce
	}
	if s.Mode != ares.AtMostOnce && !s.Placement().LatencySensitive {
		s.Preemptible = pick(t, "preemptible", nil, nil, new(true), new(false))
	}
	s.MaxRuntimeMinutes = pick(t, "minutes", 0, 0, 1, 60)
	m.w.Submit(id, s)
	m.jobs = append(m.jobs, id)
}

// The method `settle` runs cycles and commits their plans until a plan changes nothing.
func (m *contendedCluster) settle(t *rapid.T) {
	plans, err := m.w.DecideUntilStable()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		for _, n := range p.Nominate {
			for _, v := range n.Nomination.Victims {
				m.by[v.Preemption.Why]++
			}
			if len(n.Nomination.Victims) == 0 {
				m.by[""]++
			}
		}
		for range p.Withdraw {
			m.by["withdrawn"]++
		}
	}
}

// The method `report` makes one placed job start, write a checkpoint, end, or stop as requested.
func (m *contendedCluster) report(t *rapid.T) {
	var active []ares.JobID
	for _, id := range m.jobs {
		if run, ok := m.w.State.Run(id); ok && (run.Phase.Active() || !run.Free()) {
			active = append(active, id)
		}
	}
	if len(active) == 0 {
		return
	}
	m.move(t, rapid.SampledFrom(active).Draw(t, "whose"), rapid.IntRange(0, 5).Draw(t, "what"))
}

func (m *contendedCluster) move(t *rapid.T, id ares.JobID, what int) {
	err := m.w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error {
		a := r.Last()
		outcome := ares.OutcomeSucceeded
		if r.Stop != nil {
			outcome = ares.OutcomeStopped
		}
		for k := range a.Seats {
			rank, state := a.Seats[k].Rank, a.Seats[k].State
			switch {
			case a.Ended() || state == ares.SeatFinished:
				if err := r.Release(a.Fence, rank); err != nil {
					return err
				}
			case r.Stop == nil && a.StartedAt.IsZero():
				if err := r.Claim(j, a.Fence, rank, a.Seats[k].Node, m.w.Now); err != nil {
					return err
				}
			case r.Stop == nil && what < 2:
				return r.Checkpointed(a.Fence, m.w.Now)
			case r.Stop == nil && what < 3:
				return nil
			default:
				if err := r.Finish(j, a.Fence, rank, ares.RankResult{Outcome: outcome, EndedAt: m.w.Now}, m.w.Now); err != nil {
					return err
				}
				if what == 4 {
					continue // the devices are released later
				}
				if err := r.Release(a.Fence, rank); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The method `disturb` cordons, uncordons or disconnects a random node, or cancels a random job.
func (m *contendedCluster) disturb(t *rapid.T) {
	node := rapid.SampledFrom(m.nodes).Draw(t, "node")
	switch rapid.IntRange(0, 4).Draw(t, "trouble") {
	case 0:
		m.w.PutEvents(ares.Event{Cordon: &ares.Cordon{Node: node, Since: m.w.Now}})
	case 1:
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindCordon, ID: node}})
	case 2:
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: node}})
		if err := m.w.VoidNode(node); err != nil {
			t.Fatal(err)
		}
		m.settle(t)
		m.w.PutEvents(ares.Event{Session: &ares.Session{Node: node, Instance: "again"}})
		if err := m.w.CleanNode(node); err != nil {
			t.Fatal(err)
		}
	case 3:
		if len(m.jobs) > 0 {
			id := rapid.SampledFrom(m.jobs).Draw(t, "cancelled")
			_ = m.w.UpdateRun(id, func(_ *ares.Job, r *ares.Run) error { // fails for a finished job
				return r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "ann", At: m.w.Now})
			})
		}
	}
}

// fillWithLongJobs starts a job on each node that uses all its devices, allows its preemption, and is expected to run
// for days. Then it submits short jobs and lets them wait. Random jobs alone seldom leave a long job running while a
// short one of its queue and class waits.
func (m *contendedCluster) fillWithLongJobs(t *rapid.T) {
	tenant := pick(t, "tenant of long jobs", "a", "b")
	var long []ares.JobID
	for k := range m.w.State.Nodes() {
		id := ares.JobID(fmt.Sprintf("long-%s", k.Node.ID))
		s := ares.Spec{Tenant: tenant, Members: 1, GPUs: len(k.Node.Devices), Priority: new(500)}
		s.Checkpoint.Enabled = true
		m.w.Submit(id, s)
		m.w.PutEvents(ares.Event{Forecast: &ares.RuntimePredicted{Job: id, P50: 500 * time.Hour, P90: 500 * time.Hour, Samples: 9}})
		long = append(long, id)
	}
	m.settle(t)
	for _, id := range long {
		if run, ok := m.w.State.Run(id); ok && run.Phase.Active() {
			m.move(t, id, 2) // starts it
		}
	}
	m.jobs = append(m.jobs, long...)
	m.w.Now = m.w.Now.Add(3 * time.Hour)
	for i := range rapid.IntRange(1, 3).Draw(t, "short jobs") {
		id := ares.JobID(fmt.Sprintf("short-%d", i))
		m.w.Submit(id, ares.Spec{Tenant: tenant, Members: 1, GPUs: pick(t, "gpus", 1, 2), Priority: new(500)})
		m.w.PutEvents(ares.Event{Forecast: &ares.RuntimePredicted{Job: id, P50: time.Minute, P90: 10 * time.Minute, Samples: 9}})
		m.jobs = append(m.jobs, id)
	}
	m.settle(t)
	m.w.Now = m.w.Now.Add(2 * time.Hour)
	m.settle(t)
}

// TestPreemptionOfLongerJobs lets time pass by hours, so that jobs of the same queue and class preempt each other. It
// checks that no plan breaks a law: only jobs that allow it are preempted inside their class, and in no cycle.
func TestPreemptionOfLongerJobs(t *testing.T) {
	t.Parallel()
	victims := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newContendedClusterWith(t, config.Default(), false)
		if rapid.Bool().Draw(t, "long jobs first") {
			m.fillWithLongJobs(t)
		}
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "come") {
				m.submit(t)
				if id := m.jobs[len(m.jobs)-1]; once(t, 2, "predicted") {
					p50 := time.Duration(pick(t, "p50", 1, 60, 3000)) * time.Minute
					m.w.PutEvents(ares.Event{Forecast: &ares.RuntimePredicted{Job: id, P50: p50, P90: p50 * time.Duration(pick(t, "p90", 1, 3, 20)), Samples: 9}})
				}
			}
			m.settle(t)
			for range rapid.IntRange(0, 6).Draw(t, "reports") {
				m.report(t)
			}
			m.w.Now = m.w.Now.Add(time.Duration(pick(t, "minutes", 10, 0, 90, 600, 6000)) * time.Minute)
		}
		if err := m.w.CheckReplay(); err != nil {
			t.Fatal(err)
		}
		victims += m.by[ares.PreemptByOrder]
	})
	if t.Logf("%d victims", victims); victims == 0 {
		t.Error("no job was preempted for a shorter one of its class")
	}
}

// TestPreemption lets jobs preempt others because of a higher priority class or to reclaim quota. It checks
// that no plan breaks a law. Preemptions must form no cycle, must not exceed the ceiling and must have a valid
// reason. No other job may use nominated seats.
func TestPreemption(t *testing.T) {
	t.Parallel()
	by := map[ares.PreemptionBasis]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := newContendedCluster(t, false)
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "come") {
				m.submit(t)
			}
			m.settle(t)
			for range rapid.IntRange(0, 4).Draw(t, "reports") {
				m.report(t)
			}
			if once(t, 8, "disturbed") {
				m.disturb(t)
			}
			m.w.Now = m.w.Now.Add(time.Duration(pick(t, "seconds", 10, 0, 100, 1000)) * time.Second)
		}
		if err := m.w.CheckReplay(); err != nil {
			t.Fatal(err)
		}
		for why, n := range m.by { // order-free: sums
			by[why] += n
		}
	})
	t.Logf("victims by reason: %v", by)
	if by[ares.PreemptByClass] == 0 || by[ares.PreemptByQuota] == 0 || by[""] == 0 || by["withdrawn"] == 0 {
		t.Errorf("want victims by each basis, nominations without victims, and withdrawn nominations: %v", by)
	}
}
