package engine_test

import (
	"cmp"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// machine throws random events at a world; the laws must hold after each.
type machine struct {
	w    *enginetest.World
	jobs int
}

func (m *machine) node(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "node")
}

func (m *machine) Join(t *rapid.T) {
	n := ares.Node{
		ID: m.node(t), CPUs: rapid.IntRange(0, 16).Draw(t, "cpus"), MemoryMB: 1000,
		Labels: map[string]string{"region": rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")},
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "gpus") {
		n.Devices = append(n.Devices, ares.Device{
			ID: fmt.Sprintf("%s%d", n.ID, i), Index: i, Type: "gpu", Model: rapid.SampledFrom([]string{"A100", "H100"}).Draw(t, "model"),
			MemoryMB: 1000, Healthy: rapid.IntRange(0, 9).Draw(t, "health") > 0,
		})
	}
	m.w.Join(n)
}

func (m *machine) Session(t *rapid.T) {
	id := m.node(t)
	if rapid.Bool().Draw(t, "end") {
		m.w.Put(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: id}})
		return
	}
	m.w.Put(ares.Event{Session: &ares.Session{Node: id}})
}

func (m *machine) Cordon(t *rapid.T) {
	id := m.node(t)
	if rapid.Bool().Draw(t, "lift") {
		m.w.Put(ares.Event{Gone: ares.Gone{Kind: ares.KindCordon, ID: id}})
		return
	}
	m.w.Put(ares.Event{Cordon: &ares.Cordon{Node: id}})
}

func (m *machine) ForgetNode(t *rapid.T) {
	m.w.Put(ares.Event{Gone: ares.Gone{Kind: ares.KindNode, ID: m.node(t)}})
}

func (m *machine) Tenant(t *rapid.T) {
	l := ares.NoLimits()
	l.GPUs, l.ConcurrentJobs = rapid.IntRange(0, 8).Draw(t, "gpus"), rapid.IntRange(0, 5).Draw(t, "jobs")
	m.w.Put(ares.Event{Tenant: &ares.Tenant{ID: "ml", Limits: l}})
}

func (m *machine) Submit(t *rapid.T) {
	s := ares.Spec{
		Tenant: rapid.SampledFrom([]string{"", "ml", "nobody"}).Draw(t, "tenant"), Members: rapid.IntRange(1, 4).Draw(t, "members"),
		CPUs: rapid.IntRange(0, 4).Draw(t, "cpus"), MemoryMB: rapid.IntRange(0, 400).Draw(t, "memory"),
		Priority: new(rapid.SampledFrom([]int{0, 100, 500, 700, 2000}).Draw(t, "priority")),
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		s.GPUMilli = rapid.SampledFrom([]int{1, 300, 500, 1000}).Draw(t, "milli")
	case 1, 2:
		s.GPUs = rapid.IntRange(1, 3).Draw(t, "gpus")
		s.GPUModel = rapid.SampledFrom([]string{"", "h100"}).Draw(t, "model")
	}
	if rapid.IntRange(0, 4).Draw(t, "where") == 0 {
		s.Placement.NodeSelector = map[string]string{"region": "eu"}
	}
	if rapid.IntRange(0, 4).Draw(t, "together") == 0 {
		s.Placement.RequiredLevel = "node"
	}
	if m.jobs > 0 && rapid.IntRange(0, 4).Draw(t, "after") == 0 {
		s.After = []string{fmt.Sprintf("j%03d", rapid.IntRange(0, m.jobs-1).Draw(t, "which"))}
	}
	if rapid.IntRange(0, 2).Draw(t, "elastic") == 0 {
		s.MinMembers = rapid.IntRange(1, s.Members).Draw(t, "least")
	}
	if rapid.IntRange(0, 3).Draw(t, "array") == 0 {
		s.Array = ares.Array{Count: rapid.IntRange(1, 6).Draw(t, "count")}
		s.Array.Parallelism = rapid.IntRange(1, s.Array.Count).Draw(t, "parallelism")
	}
	m.w.Submit(ares.JobID(fmt.Sprintf("j%03d", m.jobs)), s)
	m.jobs++
}

// Report lets an agent, or somebody, do anything to some attempt; what the run
// does not allow changes nothing.
func (m *machine) Report(t *rapid.T) {
	if m.jobs == 0 {
		t.Skip("no jobs")
	}
	id := ares.JobID(fmt.Sprintf("j%03d", rapid.IntRange(0, m.jobs-1).Draw(t, "job")))
	run, ok := m.w.State.Run(id)
	if n := run.Next; ok && n > 0 {
		if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
			_ = m.w.Change(id, func(_ *ares.Job, r *ares.Run) error { // it may be over
				return r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "ann", At: m.w.Now})
			})
		}
		id = ares.ElementID(id, rapid.IntRange(0, n-1).Draw(t, "element"))
		run, ok = m.w.State.Run(id)
	}
	if !ok || len(run.Attempts) == 0 {
		t.Skip("no attempt")
	}
	a := rapid.SampledFrom(run.Attempts).Draw(t, "attempt")
	h := rapid.SampledFrom(a.Seats).Draw(t, "seat")
	now := m.w.Now
	res := ares.RankResult{Outcome: rapid.SampledFrom([]ares.Outcome{
		ares.OutcomeSucceeded, ares.OutcomeFailed, ares.OutcomeStopped, ares.OutcomeLost,
	}).Draw(t, "outcome"), StartedAt: now, EndedAt: now}
	why := rapid.SampledFrom([]ares.StopWhy{ares.StopCancel, ares.StopPreempt, ares.StopDrain}).Draw(t, "why")
	verb := rapid.IntRange(0, 5).Draw(t, "verb")
	_ = m.w.Change(id, func(j *ares.Job, r *ares.Run) error { // a refused report is a fine outcome
		switch verb {
		case 0, 1:
			return r.Claim(j, a.Fence, h.Rank, h.Node, now)
		case 2:
			return r.Finish(j, a.Fence, h.Rank, res, now)
		case 3:
			return r.Release(a.Fence, h.Rank)
		case 4:
			return r.Decline(j, a.Fence, h.Rank, now)
		default:
			return r.RequestStop(ares.Stop{Why: why, By: "ann", At: now})
		}
	})
}

func (m *machine) Void(t *rapid.T) {
	if err := m.w.Void(m.node(t)); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) Clean(t *rapid.T) {
	if err := m.w.Clean(m.node(t)); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) Archive(t *rapid.T) {
	for job, run := range m.w.State.Jobs() {
		if run != nil && run.Phase.Final() && run.Free() && !m.kept(job, run) {
			m.w.Put(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(job.ID)}})
			return
		}
	}
	t.Skip("nothing to archive")
}

// kept says whether a job stays for its array, or for its elements.
func (m *machine) kept(job *ares.Job, run *ares.Run) bool {
	for i := range run.Next {
		if _, live := m.w.State.Job(ares.ElementID(job.ID, i)); live {
			return true
		}
	}
	array, live := m.w.State.Run(job.ArrayOf)
	return live && !array.Phase.Final()
}

func (m *machine) Advance(t *rapid.T) {
	m.w.Now = m.w.Now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
}

func (m *machine) Decide(t *rapid.T) {
	plan, err := m.w.Decide()
	if err != nil {
		t.Fatal(err)
	}
	m.agree(t, plan)
	if err := m.w.Commit(plan); err != nil {
		t.Fatal(err)
	}
}

// agree wants Place and Explain to say the same as the plan about the first
// job it placed and every job it refused.
func (m *machine) agree(t *rapid.T, plan ares.Plan) {
	if len(plan.Place) > 0 && len(plan.Refuse) == 0 {
		job, _ := m.w.State.Job(cmp.Or(plan.Place[0].ArrayOf, plan.Place[0].Job))
		placing, refusal := engine.Place(m.w.State, job, m.w.Now)
		if refusal != nil || !reflect.DeepEqual(placing.Seats, plan.Place[0].Seats) {
			t.Fatalf("Place gives %s %v (%v), the plan %v", job.ID, placing.Seats, refusal, plan.Place[0].Seats)
		}
		if r := engine.Explain(m.w.State, job.ID, m.w.Now); len(r.Blockers) > 0 {
			t.Fatalf("%s is placed and explained as %v", job.ID, r)
		}
	}
	if len(plan.Place) > 0 {
		return
	}
	for _, refused := range plan.Refuse {
		job, _ := m.w.State.Job(refused.Job)
		if r := engine.Explain(m.w.State, job.ID, m.w.Now); len(r.Blockers) == 0 {
			t.Fatalf("%s is refused (%v) and explained by nothing", job.ID, refused)
		}
		if _, refusal := engine.Place(m.w.State, job, m.w.Now); refusal == nil {
			t.Fatalf("%s is refused (%v) and Place finds seats", job.ID, refused)
		}
	}
}

func (m *machine) Check(t *rapid.T) {
	if err := enginetest.Check(m.w.State); err != nil {
		t.Fatal(err)
	}
}

// TestLaws: whatever happens, nothing is sold twice, gangs are whole, limits
// hold, a decision leaves no trace; and the same history gives the same plans.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{w: enginetest.NewWorld()}
		t.Repeat(rapid.StateMachineActions(m))
		if _, err := m.w.Settle(); err != nil {
			t.Fatal(err)
		}
		if err := m.w.Replay(); err != nil {
			t.Fatal(err)
		}
	})
}
