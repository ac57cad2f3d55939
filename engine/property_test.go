package engine_test

import (
	"cmp"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// A machine applies random events to a cluster. The laws must hold after each event.
type machine struct {
	w    *enginetest.Cluster
	jobs int
}

var nodeIDs = []string{"a", "b", "c", "d", "e", "f"}

// newMachine returns a machine whose cluster is empty or has some nodes, tenants and jobs.
func newMachine(t *rapid.T) *machine {
	m := &machine{w: enginetest.NewClusterWithConfig(drawConfig(t))}
	if once(t, 4, "from nothing") {
		return m
	}
	for _, id := range nodeIDs {
		m.w.AddNode(drawNode(t, id))
	}
	m.Topology(t)
	for _, id := range []string{"ml", "web"} {
		m.w.PutEvents(ares.Event{Tenant: &ares.Tenant{ID: id, Limits: ares.NoLimits(), Weight: drawWeight(t)}})
	}
	for range pick(t, "windows", 0, 0, 1, 2) {
		m.reserve(t)
	}
	for range rapid.IntRange(0, 8).Draw(t, "jobs") {
		m.submit(drawSpec(t))
	}
	return m
}

func (m *machine) node(t *rapid.T) string { return rapid.SampledFrom(nodeIDs).Draw(t, "node") }

func (m *machine) Join(t *rapid.T) { m.w.AddNode(drawNode(t, m.node(t))) }

// The action Warm changes the temperature and the health of a node's devices.
func (m *machine) Warm(t *rapid.T) {
	id := m.node(t)
	for v := range m.w.State.Nodes() {
		if v.Node.ID != id {
			continue
		}
		n := *v.Node
		n.Devices = slices.Clone(n.Devices)
		for i := range n.Devices {
			n.Devices[i].Celsius = pick(t, "celsius", 40, 60, 66, 75, 76, 90)
			n.Devices[i].Healthy = !once(t, 8, "sick")
		}
		m.w.PutEvents(ares.Event{Node: &n})
		return
	}
	t.Skip("no such node")
}

func (m *machine) Topology(t *rapid.T) {
	if once(t, 5, "gone") {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindTopology}})
		return
	}
	topology := drawTopology(t)
	if err := topology.Check(); err != nil {
		t.Fatal(err)
	}
	m.w.PutEvents(ares.Event{Topology: topology})
}

func (m *machine) Queue(t *rapid.T) {
	q := &ares.Queue{
		Tenant: pick(t, "tenant", "ml", "web", ares.DefaultTenant), Name: pick(t, "name", "q1", "q2", "default"), Parent: pick(t, "parent", "", "q1", "q2", "q3"),
		Weight: drawWeight(t), Limits: drawLimits(t), Quotas: drawQuotas(t),
	}
	if once(t, 4, "gone") {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindQueue, ID: q.ID()}})
		return
	}
	if q.Check() != nil {
		t.Skip("no such queue can be made")
	}
	m.w.PutEvents(ares.Event{Queue: q})
}

// The action Usage writes the usage of archived jobs.
func (m *machine) Usage(t *rapid.T) {
	m.w.PutEvents(ares.Event{Usage: &ares.Usage{
		Tenant: pick(t, "tenant", "ml", "web"), Queue: pick(t, "queue", "default", "q1"), At: m.w.Now.Add(-pick(t, "age", 0, time.Minute, 30*time.Hour)),
		GPUMilliSecs: pick[int64](t, "gpu", 0, 1, 3_600_000, 100_000_000), CPUSecs: pick[int64](t, "cpu", 0, 100_000), MemoryGBSecs: pick[int64](t, "memory", 0, 1000),
		Month: m.w.Now.UTC().Format("2006-01"), GPUSecs: pick[int64](t, "month", 0, 3599, 3600, 7200),
	}})
}

func (m *machine) Session(t *rapid.T) {
	id := m.node(t)
	if rapid.Bool().Draw(t, "end") {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: id}})
		return
	}
	m.w.PutEvents(ares.Event{Session: &ares.Session{Node: id}})
}

func (m *machine) Cordon(t *rapid.T) {
	id := m.node(t)
	if rapid.Bool().Draw(t, "lift") {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindCordon, ID: id}})
		return
	}
	m.w.PutEvents(ares.Event{Cordon: &ares.Cordon{Node: id}})
}

func (m *machine) ForgetNode(t *rapid.T) {
	m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindNode, ID: m.node(t)}})
}

func (m *machine) Tenant(t *rapid.T) {
	tenant := &ares.Tenant{
		ID: pick(t, "id", "ml", "web"), Limits: drawLimits(t), Weight: drawWeight(t), Quotas: drawQuotas(t), GPUHours: pick(t, "hours", 0, 0, 1, 2),
	}
	if once(t, 8, "gone") {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindTenant, ID: tenant.ID}})
		return
	}
	m.w.PutEvents(ares.Event{Tenant: tenant})
}

func (m *machine) Submit(t *rapid.T) {
	s := drawSpec(t)
	if m.jobs > 0 && once(t, 5, "after") {
		s.After = []string{fmt.Sprintf("j%03d", rapid.IntRange(0, m.jobs-1).Draw(t, "which"))}
	}
	if within := pick(t, "deadline", 0, 0, 20*time.Second, 10*time.Minute, time.Hour, 5*time.Hour, -time.Minute); within != 0 {
		s.Deadline = m.w.Now.Add(within)
	}
	s.Command = []string{"true"}
	after := s.After
	if s.After = nil; s.Check() != nil { // the names used here are not job IDs
		t.Skip("no such job can be submitted")
	}
	s.After = after
	if once(t, 3, "what if") {
		m.whatIf(t, s)
		return
	}
	m.submit(s)
}

// The method `whatIf` checks that the next plan handles a submitted job as WhatIf predicted, if nothing else
// changes.
func (m *machine) whatIf(t *rapid.T, s ares.Spec) {
	before := engine.Decide(m.w.State, m.w.Now)
	job := &ares.Job{ID: ares.JobID(fmt.Sprintf("j%03d", m.jobs)), Spec: s.WithDefaults()}
	placing, why := engine.WhatIf(m.w.State, job, nil, m.w.Now)
	if why == nil && len(placing.Seats) == 0 || why != nil && len(why.Blockers) == 0 {
		t.Fatalf("%s has neither a placing nor a blocker: %v, %v", job.ID, placing, why)
	}
	m.submit(s)
	after := engine.Decide(m.w.State, m.w.Now)
	if len(before.Place)+len(before.Ready)+len(before.Nominate)+len(before.Withdraw) > 0 {
		return
	}
	placed := slices.ContainsFunc(after.Place, func(p ares.Placing) bool { return p.Job == job.ID || p.ArrayOf == job.ID })
	if placed != (why == nil) {
		t.Fatalf("%s is placed: %t, WhatIf said %v, %v", job.ID, placed, placing.Seats, why)
	}
}

func (m *machine) submit(s ares.Spec) {
	m.w.Submit(ares.JobID(fmt.Sprintf("j%03d", m.jobs)), s)
	m.jobs++
}

// The action Report applies a random agent report or stop request to a random attempt. If the run does
// not allow the transition, Report changes nothing.
func (m *machine) Report(t *rapid.T) {
	if m.jobs == 0 {
		t.Skip("no jobs")
	}
	id := ares.JobID(fmt.Sprintf("j%03d", rapid.IntRange(0, m.jobs-1).Draw(t, "job")))
	run, ok := m.w.State.Run(id)
	if n := run.Next; ok && n > 0 {
		if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
			_ = m.w.UpdateRun(id, func(_ *ares.Job, r *ares.Run) error { // fails if the array has ended
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
	_ = m.w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error { // a rejected report is fine
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

// The action Predict writes a forecast of a job.
func (m *machine) Predict(t *rapid.T) {
	if m.jobs == 0 {
		t.Skip("no jobs")
	}
	id := ares.JobID(fmt.Sprintf("j%03d", rapid.IntRange(0, m.jobs-1).Draw(t, "job")))
	half := pick(t, "half", time.Minute, time.Millisecond, time.Hour, 30*time.Hour)
	m.w.PutEvents(ares.Event{Forecast: &ares.RuntimePredicted{Job: id, P50: half, P90: half * time.Duration(pick(t, "late", 1, 3)), Samples: pick(t, "samples", 0, 7), Own: pick(t, "own", 0, 7), Doubt: pick(t, "doubt", 0, 0, 35, 100)}})
}

// The action Protect protects a job from preemption, or ends its protection.
func (m *machine) Protect(t *rapid.T) {
	if m.jobs == 0 {
		t.Skip("no jobs")
	}
	id := ares.JobID(fmt.Sprintf("j%03d", rapid.IntRange(0, m.jobs-1).Draw(t, "job")))
	if rapid.Bool().Draw(t, "end") {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindProtection, ID: string(id)}})
		return
	}
	m.w.PutEvents(ares.Event{Protect: &ares.Protection{Job: id, Why: pick(t, "why", "rule a", "rule b")}})
}

// The action Score writes or deletes the history score of a node.
func (m *machine) Score(t *rapid.T) {
	id := m.node(t)
	if rapid.IntRange(0, 3).Draw(t, "forget") == 0 {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindScore, ID: id}})
		return
	}
	m.w.PutEvents(ares.Event{Score: &ares.NodeScore{Node: id, Score: pick(t, "score", 0, 350, 980, 1000), At: m.w.Now}})
}

func (m *machine) Void(t *rapid.T) {
	if err := m.w.VoidNode(m.node(t)); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) Clean(t *rapid.T) {
	if err := m.w.CleanNode(m.node(t)); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) Archive(t *rapid.T) {
	for job, run := range m.w.State.Jobs() {
		if run != nil && run.Phase.Final() && run.Free() && !m.kept(job, run) {
			if err := m.w.ArchiveJob(job.ID); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Skip("nothing to archive")
}

// The method `kept` reports whether a finished job must not be archived yet. This is so while the
// job's array has not ended, or while one of the job's own elements is not archived.
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
	m.w.Now = m.w.Now.Add(pick(t, "by", 0, time.Second, 5*time.Second, 20*time.Minute, 3*time.Hour, 26*time.Hour, 20*24*time.Hour))
}

func (m *machine) Decide(t *rapid.T) {
	plan, err := m.w.Decide()
	if err != nil {
		t.Fatal(err)
	}
	m.agree(t, plan)
	if once(t, 3, "resume") {
		if err := m.w.CheckSnapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if k := len(plan.Place); k > 0 && once(t, 5, "drop") && plan.Place[k-1].ArrayOf == "" {
		plan.Place = plan.Place[:k-1] // as if a cancel had arrived first
	}
	if err := m.w.Commit(plan); err != nil {
		t.Fatal(err)
	}
}

// The method `agree` checks Place and Explain for the first placed job and for every refused job.
// Their results must match the plan.
func (m *machine) agree(t *rapid.T, plan ares.Plan) {
	if len(plan.Place) > 0 && len(plan.Refuse) == 0 {
		job, _ := m.w.State.Job(cmp.Or(plan.Place[0].ArrayOf, plan.Place[0].Job))
		placing, refusal := engine.Place(m.w.State, job, m.w.Now)
		if refusal != nil || !reflect.DeepEqual(placing.Seats, plan.Place[0].Seats) {
			t.Fatalf("Place gives %s %v (%v), the plan gives %v", job.ID, placing.Seats, refusal, plan.Place[0].Seats)
		}
		if r := engine.Explain(m.w.State, job.ID, m.w.Now); len(r.Blockers) > 0 {
			t.Fatalf("%s is placed, and Explain has blockers: %v", job.ID, r)
		}
	}
	if len(plan.Place) > 0 || len(plan.Nominate) > 0 { // placements and nominations use capacity that Place and Explain see as free
		return
	}
	for _, refused := range plan.Refuse {
		job, _ := m.w.State.Job(refused.Job)
		if r := engine.Explain(m.w.State, job.ID, m.w.Now); len(r.Blockers) == 0 {
			t.Fatalf("%s is refused (%v), and Explain has no blocker", job.ID, refused)
		}
		if _, refusal := engine.Place(m.w.State, job, m.w.Now); refusal == nil && refused.Blockers[0].Kind != "order" {
			t.Fatalf("%s is refused (%v), and Place finds seats", job.ID, refused)
		}
	}
}

func (m *machine) Check(t *rapid.T) {
	if err := enginetest.CheckState(m.w.State); err != nil {
		t.Fatal(err)
	}
}

// TestLaws applies random events and checks all laws after each event: for example, no capacity is allocated
// twice, gangs are complete, and a replay gives the same plans.
func TestLaws(t *testing.T) {
	rounds := 5 // each with 100 histories
	if asked := flag.Lookup("rapid.checks"); asked.Value.String() != asked.DefValue {
		rounds = 1
	}
	for range rounds {
		rapid.Check(t, func(t *rapid.T) {
			m := newMachine(t)
			t.Repeat(rapid.StateMachineActions(m))
			if _, err := m.w.DecideUntilStable(); err != nil {
				t.Fatal(err)
			}
			if err := m.w.CheckReplay(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
