package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// randomCluster is a random cluster and the records of its queues.
type randomCluster struct {
	*enginetest.Cluster
	r      *rand.Rand
	queues map[string]ares.Queue
	jobs   int
}

func (t *randomCluster) one(of ...string) string { return of[t.r.IntN(len(of))] }

func (t *randomCluster) chance(percent int) bool { return t.r.IntN(100) < percent }

// newRandomCluster returns a cluster where some jobs have run and many wait.
func newRandomCluster(tb testing.TB, seed uint64) *randomCluster {
	t := &randomCluster{Cluster: enginetest.NewCluster(), r: rand.New(rand.NewPCG(seed, 4)), queues: map[string]ares.Queue{}}
	for _, id := range []string{"default", "ml", "vision"} {
		t.tenant(id)
	}
	for i := range 2 + t.r.IntN(7) {
		t.node(i)
	}
	if t.chance(30) {
		t.PutEvents(ares.Event{Topology: &ares.Topology{MaxNodesPerLeaf: t.r.IntN(4), Domains: []ares.Domain{
			{Name: "r0", Level: ares.LevelLeaf, Adjacent: []string{"r1"}, Switch: "100GbE"}, {Name: "r1", Level: ares.LevelLeaf, Switch: "10GbE"},
		}}})
	}
	for range 3 + t.r.IntN(3) {
		for range 2 + t.r.IntN(8) {
			t.submit()
		}
		t.decide(tb)
		t.live()
		t.Now = t.Now.Add(time.Duration(t.r.IntN(1800)) * time.Second)
	}
	if t.chance(70) {
		t.decide(tb)
		t.decide(tb)
	}
	return t
}

func (t *randomCluster) decide(tb testing.TB) {
	tb.Helper()
	plan, err := t.Decide()
	if err == nil {
		err = t.Commit(plan)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func (t *randomCluster) tenant(id string) {
	l := ares.NoLimits()
	if t.chance(30) {
		l.GPUs = 2 + t.r.IntN(12)
	}
	if t.chance(15) {
		l.ConcurrentJobs = 1 + t.r.IntN(4)
	}
	if t.chance(15) {
		l.CPUs = 8 + t.r.IntN(40)
	}
	rec := &ares.Tenant{ID: id, Limits: l, Weight: float64(1 + t.r.IntN(3))}
	if t.chance(15) {
		rec.GPUHours = 1 + t.r.IntN(4)
	}
	if t.chance(20) {
		rec.PriorityTier = ares.High
	}
	if t.chance(35) {
		rec.Quotas = append(rec.Quotas, ares.Quota{Model: t.one("", "h100"), Nominal: t.r.IntN(8), Borrow: t.r.IntN(4), Lend: t.r.IntN(6)})
	}
	t.PutEvents(ares.Event{Tenant: rec})
	if t.chance(40) {
		q := ares.Queue{Tenant: id, Name: "q", Weight: 1, Limits: ares.NoLimits()}
		if t.chance(60) {
			q.Limits.GPUs = 1 + t.r.IntN(6)
		}
		t.queues[q.ID()] = q
		t.PutEvents(ares.Event{Queue: &q})
	}
}

func (t *randomCluster) node(i int) {
	n := ares.Node{
		ID: fmt.Sprintf("n%d", i), CPUs: 8 << t.r.IntN(3), MemoryMB: 1000 << t.r.IntN(3),
		Labels: map[string]string{"region": t.one("eu", "us"), "leaf": t.one("r0", "r1"), "pool": t.one("a", "b")},
	}
	model, memory := t.one("H100", "A100"), 40_000<<t.r.IntN(2)
	for g := range []int{0, 1, 2, 4, 4, 8}[t.r.IntN(6)] {
		d := ares.Device{ID: fmt.Sprintf("%s-%d", n.ID, g), Index: g, Type: "gpu", Model: model, MemoryMB: memory, NUMA: g % 2, Healthy: !t.chance(5)}
		if t.chance(6) {
			d.Celsius = 80
		}
		n.Devices = append(n.Devices, d)
	}
	if t.chance(50) {
		n.NUMA = []ares.NUMANode{{ID: 0, CPUs: n.CPUs / 2, MemoryMB: n.MemoryMB / 2}, {ID: 1, CPUs: n.CPUs / 2, MemoryMB: n.MemoryMB / 2}}
	}
	if t.chance(15) {
		n.Taints = []ares.Taint{{Key: "owner", Value: t.one("ml", "vision"), Effect: ares.NoSchedule}}
	}
	if t.chance(4) {
		n.Unfit = "no cgroups"
	}
	t.AddNode(n)
	if t.chance(20) {
		t.PutEvents(ares.Event{Cordon: &ares.Cordon{Node: n.ID, By: "ann"}})
	}
	if t.chance(5) {
		t.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: n.ID}})
	}
}

func (t *randomCluster) submit() {
	s := ares.Spec{
		Tenant: t.one("default", "ml", "vision"), CPUs: t.r.IntN(5), MemoryMB: t.r.IntN(300),
		Priority: new([]int{0, 100, 500, 500, 700, 1000, 2000}[t.r.IntN(7)]), Labels: map[string]string{"app": t.one("x", "y")},
		Retry: ares.RetryPolicy{InitialBackoffSeconds: 5000, MaxBackoffSeconds: 5000},
	}
	if *s.Priority == 2000 && s.Tenant != "default" {
		s.Priority = new(600)
	}
	switch t.r.IntN(5) {
	case 0:
		s.GPUMilli = 100 + t.r.IntN(900)
	case 1, 2, 3:
		s.GPUs = 1 + t.r.IntN(4)
	}
	if t.chance(25) {
		s.Members = 2 + t.r.IntN(4)
		if t.chance(40) {
			s.MinMembers = 1 + t.r.IntN(s.Members)
		}
		if t.chance(40) {
			s.EditPlacement().RequiredLevel = t.one("leaf", "node", "region")
		}
		if t.chance(10) {
			s.EditPlacement().NetworkBandwidth = "40Gb"
		}
	}
	t.wishes(&s)
	id := ares.JobID(fmt.Sprintf("job-%s-%03d", s.Tenant, t.jobs))
	t.jobs++
	t.Submit(id, s)
}

func (t *randomCluster) wishes(s *ares.Spec) {
	p := s.EditPlacement()
	if _, ok := t.queues[ares.QueueID(s.Tenant, "q")]; ok && t.chance(50) {
		s.Queue = "q"
	}
	if s.GPUs+s.GPUMilli > 0 && t.chance(15) {
		s.GPUModel = t.one("h100", "a100", "v100")
	}
	if s.GPUs > 0 && t.chance(10) {
		s.GPUMemoryMB = s.GPUs * 60_000
	}
	if t.chance(8) {
		p.NodeSelector = map[string]string{"pool": t.one("a", "b", "c")}
	}
	if t.chance(6) {
		p.NodeAffinity = []string{t.one("pool in (b)", "!pool", "region!=us")}
	}
	if t.chance(6) {
		p.NodeRequirements, _ = ares.ParseNodeRequirements(t.one("pool in (a,b)", "!pool", "region!=eu", "gpu.count>=4"))
	}
	if t.chance(6) {
		p.Regions = []string{t.one("eu", "us", "mars")}
	}
	if t.chance(10) {
		p.Tolerations = []string{"owner=" + t.one("ml", "vision")}
	}
	if t.chance(6) {
		p.AntiAffinity = []string{t.one("app=x", "app=y @leaf")}
	}
	if t.chance(5) {
		p.Affinity = []string{t.one("app=x", "app=y @leaf")}
	}
	if s.GPUs > 0 && t.chance(10) {
		s.NUMAPolicy = t.one("required", "preferred")
	}
	if s.GPUs > 0 && t.chance(4) {
		p.LatencySensitive = true
	}
	if t.jobs > 0 && t.chance(8) {
		for job := range t.State.Jobs() {
			if t.chance(30) {
				s.After = append(s.After, string(job.ID))
				break
			}
		}
	}
	if t.chance(8) {
		s.Array = ares.Array{Count: 2 + t.r.IntN(4)}
		s.Array.Parallelism = 1 + t.r.IntN(s.Array.Count)
	}
}

// The method `live` makes some jobs start, end or fail.
func (t *randomCluster) live() {
	var active []ares.JobID
	for job, run := range t.State.Jobs() {
		if run != nil && run.Current() != nil {
			active = append(active, job.ID)
		}
	}
	for _, id := range active {
		switch dice := t.r.IntN(10); {
		case dice < 4:
			t.each(id, func(j *ares.Job, r *ares.Run, a *ares.Attempt, h *ares.SeatStatus) error {
				return r.Claim(j, a.Fence, h.Rank, h.Node, t.Now)
			})
		case dice < 6:
			t.finish(id, ares.OutcomeSucceeded)
		case dice < 8:
			t.finish(id, ares.OutcomeFailed)
		}
	}
}

// For every seat of a job's last attempt, the method `each` applies a transition if the seat allows
// it.
func (t *randomCluster) each(id ares.JobID, do func(*ares.Job, *ares.Run, *ares.Attempt, *ares.SeatStatus) error) {
	run, _ := t.State.Run(id)
	a := run.Last()
	for i := range a.Seats {
		_ = t.UpdateRun(id, func(j *ares.Job, r *ares.Run) error { return do(j, r, a, &a.Seats[i]) }) // some seats are already beyond this transition
	}
}

func (t *randomCluster) finish(id ares.JobID, outcome ares.Outcome) {
	res := ares.RankResult{Outcome: outcome, StartedAt: t.Now, EndedAt: t.Now}
	if outcome == ares.OutcomeFailed {
		res.ExitCode = 1
	}
	t.each(id, func(j *ares.Job, r *ares.Run, a *ares.Attempt, h *ares.SeatStatus) error {
		return r.Finish(j, a.Fence, h.Rank, res, t.Now)
	})
	t.each(id, func(_ *ares.Job, r *ares.Run, a *ares.Attempt, h *ares.SeatStatus) error {
		return r.Release(a.Fence, h.Rank)
	})
}

// The method `succeed` ends a job, or all elements of an array, with success.
func (t *randomCluster) succeed(id ares.JobID) {
	run, _ := t.State.Run(id)
	for i := range run.Next {
		if e, _ := t.State.Run(ares.ElementID(id, i)); !e.Phase.Final() {
			t.succeed(ares.ElementID(id, i))
		}
	}
	if run.Current() != nil {
		t.finish(id, ares.OutcomeSucceeded)
		return
	}
	run.Phase, run.Nominated = ares.Succeeded, nil
	t.PutEvents(ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
}

// The method `take` performs one step of a remedy as a user would.
func (t *randomCluster) take(tb testing.TB, id ares.JobID, step ares.Step) {
	tb.Helper()
	switch step.Kind {
	case ares.StepWait:
		t.Now = t.Now.Add(time.Duration(step.Amount) * time.Millisecond)
	case ares.StepSucceed:
		t.succeed(ares.JobID(step.Target.ID))
	case ares.StepPriority, ares.StepRelax, ares.StepShrink:
		job, _ := t.State.Job(id)
		again := *job
		again.Spec = step.Changed(job.Spec)
		t.PutEvents(ares.Event{Job: &again})
	case ares.StepLimit, ares.StepQuota:
		t.raise(tb, step)
	case ares.StepUncordon:
		t.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindCordon, ID: step.Target.ID}})
	case ares.StepEnd, ares.StepFree:
		for _, id := range step.Jobs {
			if err := t.UpdateRun(id, func(_ *ares.Job, r *ares.Run) error {
				return r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "ann", At: t.Now})
			}); err != nil {
				tb.Fatalf("%s cannot be ended: %v", id, err)
			}
			t.finish(id, ares.OutcomeStopped)
		}
	case ares.StepNode:
		for v := range t.State.Nodes() {
			if v.Node.ID == step.Target.ID {
				for i := range step.Amount {
					t.AddNode(*newNodeLike(v.Node, i))
				}
				return
			}
		}
		tb.Fatalf("there is no node %s", step.Target.ID)
	default:
		tb.Fatalf("unknown kind of step %q", step.Kind)
	}
}

// newNodeLike returns the i-th new node, which has the same hardware as an existing node.
func newNodeLike(n *ares.Node, i int) *ares.Node {
	out := *n
	out.ID, out.Unfit, out.Revision = fmt.Sprintf("%s-more-%d", n.ID, i), "", 0
	out.Devices = slices.Clone(n.Devices)
	for k := range out.Devices {
		d := &out.Devices[k]
		d.ID, d.Healthy, d.Reason, d.Celsius = out.ID+"/"+d.ID, true, "", 0
	}
	return &out
}

func (t *randomCluster) raise(tb testing.TB, step ares.Step) {
	tb.Helper()
	id, queue := step.Target.Tenant, step.Target.Queue
	rec, _, ok := t.State.Tenant(id)
	if !ok || step.Amount <= 0 {
		tb.Fatalf("step %+v", step)
	}
	tenant, q := *rec, t.queues[step.Target.ID]
	limits, quotas := &tenant.Limits, &tenant.Quotas
	if queue != "" {
		limits, quotas = &q.Limits, &q.Quotas
		if q.Name != queue {
			tb.Fatalf("step %+v", step)
		}
	}
	switch {
	case step.Kind == ares.StepQuota:
		*quotas = slices.Clone(*quotas)
		at := slices.IndexFunc(*quotas, func(q ares.Quota) bool { return strings.EqualFold(q.Model, step.Field) })
		(*quotas)[at].Nominal += step.Amount
	case step.Field == "max_gpus":
		limits.GPUs += step.Amount
	case step.Field == "max_gpu_memory_mb":
		limits.GPUMemoryMB += step.Amount
	case step.Field == "max_cpu_cores":
		limits.CPUs += step.Amount
	case step.Field == "max_memory_mb":
		limits.MemoryMB += step.Amount
	case step.Field == "max_concurrent_jobs":
		limits.ConcurrentJobs += step.Amount
	case step.Field == "gpu_hours_per_month":
		tenant.GPUHours += step.Amount
	default:
		tb.Fatalf("step %+v", step)
	}
	if queue != "" {
		t.PutEvents(ares.Event{Queue: &q})
	} else {
		t.PutEvents(ares.Event{Tenant: &tenant})
	}
}
