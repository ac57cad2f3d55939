package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// A `moment` is a snapshot for a test. It has nodes with eight GPUs each, and jobs that are running or waiting.
type moment struct {
	t      *testing.T
	events []ares.Event
	jobs   int
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMoment(t *testing.T, nodes ...string) *moment {
	t.Helper()
	m := &moment{t: t}
	m.tenant("a", ares.Unlimited)
	for _, id := range nodes {
		n := &ares.Node{ID: id, CPUs: 64, MemoryMB: 1 << 19}
		for k := range 8 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(id, "/", k), Index: k, Type: "gpu", Model: "h100", Healthy: true})
		}
		m.events = append(m.events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: id, Instance: "i"}})
	}
	return m
}

func (m *moment) tenant(id string, gpus int) *ares.Tenant {
	t := &ares.Tenant{ID: id, Limits: ares.NoLimits(), Weight: 1}
	t.Limits.GPUs = gpus
	m.events = append(m.events, ares.Event{Tenant: t})
	return t
}

// This method adds a waiting job. The parameter `minutes` is its time limit, or 0 if it has no limit.
func (m *moment) waits(name, tenant string, gpus, minutes int, edit ...func(*ares.Spec)) *ares.Job {
	m.jobs++
	spec := ares.Spec{Name: name, Tenant: tenant, GPUs: gpus, MaxRuntimeMinutes: minutes}
	for _, e := range edit {
		e(&spec)
	}
	job := &ares.Job{Spec: spec.WithDefaults(), ID: ares.NewJobID("t", name), AcceptedAt: noon.Add(-time.Hour), Revision: int64(m.jobs)}
	m.events = append(m.events, ares.Event{Job: job})
	return job
}

// This method adds a job that runs on the first GPUs of a node.
func (m *moment) runs(name, tenant, node string, gpus, minutes int, ago time.Duration, edit ...func(*ares.Spec)) *ares.Job {
	job := m.waits(name, tenant, gpus, minutes, edit...)
	run := ares.NewRun(job.AcceptedAt)
	seat := ares.Seat{Node: node, NUMA: -1}
	for k := range gpus {
		seat.Shares = append(seat.Shares, ares.Share{Device: fmt.Sprint(node, "/", k), Index: k, Milli: 1000})
	}
	for _, err := range []error{
		run.Place([]ares.Seat{seat}, 0, noon.Add(-ago)),
		func() error { run.Last().Fence = ares.Fence(m.jobs); return nil }(),
		run.Claim(job, ares.Fence(m.jobs), 0, node, noon.Add(-ago)),
	} {
		if err != nil {
			m.t.Fatal(err)
		}
	}
	m.events = append(m.events, ares.Event{Run: &ares.RunEvent{Job: job.ID, Run: run}})
	return job
}

func (m *moment) snapshot() *Snapshot {
	return &Snapshot{Taken: noon, Config: config.Default(), Batch: ares.Batch{Revision: 1000, Reset: true, At: noon, Events: m.events}}
}

func (m *moment) ask(e *Edit) *WhatIf {
	m.t.Helper()
	w, err := RunWhatIf(m.t.Context(), m.snapshot(), e, 24*time.Hour, time.Hour)
	if err != nil {
		m.t.Fatal(err)
	}
	again, err := RunWhatIf(m.t.Context(), m.snapshot(), e, 24*time.Hour, time.Hour)
	if err != nil {
		m.t.Fatal(err)
	}
	if a, b := fmt.Sprint(jsonOf(m.t, w)), fmt.Sprint(jsonOf(m.t, again)); a != b {
		m.t.Errorf("asked twice, it says\n%s\nand\n%s", a, b)
	}
	return w
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func parsed(t *testing.T, texts ...string) []Amount {
	t.Helper()
	var out []Amount
	for _, text := range texts {
		a, err := ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

// This function describes how each job's waiting time changes, for example "first:
// 40m0s -> 0s".
func shifts(w *WhatIf) string {
	var out []string
	for _, j := range w.Jobs {
		at := func(s *time.Time) string {
			if s == nil {
				return "never"
			}
			return s.Sub(w.Taken).String()
		}
		line := fmt.Sprintf("%s: %s -> %s", j.Name, at(j.Now), at(j.Then))
		if j.Lost {
			line += " lost"
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

// In TestMoreQuota, a tenant has reached its GPU limit, so its next job waits for its running job.
// If the limit is raised, the next job must not wait. A running job with a time limit runs until
// the limit.
func TestMoreQuota(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "n1")
	m.tenant("b", 4)
	m.runs("old", "b", "n1", 4, 60, 20*time.Minute)
	m.waits("next", "b", 4, 30)
	m.waits("third", "b", 4, 0)
	w := m.ask(&Edit{Quotas: parsed(t, "b=+4")})
	if got := shifts(w); got != "next: 40m0s -> 0s, third: 1h10m0s -> 30m0s" {
		t.Errorf("what changes is %s", got)
	}
	if got := strings.Join(w.Changes, "; "); got != "max_gpus of b 4 → 8" {
		t.Errorf("it says %q", got)
	}
	b := w.Tenants[0]
	if b.Tenant != "b" || b.Waiting != 2 || b.Sooner != 2 || b.Later != 0 || b.Now.Wait != 3300 || b.Then.Wait != 900 || b.Now.Started != 2 || b.Then.Ended != 3 {
		t.Errorf("of the tenant it says %+v", b)
	}
	if w.Bases[ByLimit] != 2 || w.Bases[ByAssumption] != 1 || w.Running != 1 || w.Waiting != 2 {
		t.Errorf("runtimes are by %v; %d run, %d wait", w.Bases, w.Running, w.Waiting)
	}
	// The jobs use 4 GPUs for 40 minutes, for 30 minutes and for the assumed hour.
	if got := fmt.Sprintf("%.3f %.3f", w.Now.GPUHours, w.Now.Use); got != "8.667 4.514" {
		t.Errorf("used is %s", got)
	}
}

// TestMoreNodes checks that added nodes let jobs start. Predictions must take precedence over limits.
func TestMoreNodes(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "n1")
	old := m.runs("old", "a", "n1", 8, 600, 30*time.Minute)
	m.events = append(m.events, ares.Event{Forecast: &ares.RuntimePredicted{Job: old.ID, P50: 20 * time.Minute, P90: 50 * time.Minute, Samples: 3}})
	m.waits("big", "a", 8, 0, func(s *ares.Spec) { s.Members = 2 })
	m.waits("one", "a", 8, 0)
	s := m.snapshot()
	w := m.ask(&Edit{Add: []Addition{{Like: "n1", Nodes: s.Like("n1", 2)}, {Profile: "small", Nodes: NewNodes(&ares.Node{}, "small", 1)}}})
	// Job "old" has run longer than its predicted median. It is therefore expected to end after 50 minutes, which is
	// its predicted p90. Job "one" needs fewer GPUs for the same assumed time, so it starts before job "big".
	if got := shifts(w); got != "big: never -> 20m0s, one: 20m0s -> 0s" {
		t.Errorf("what changes is %s", got)
	}
	if got := strings.Join(w.Changes, "; "); got != "2 more nodes like n1; 1 more small node" {
		t.Errorf("it says %q", got)
	}
	if w.Now.GPUs != 8 || w.Then.GPUs != 24 || w.Bases[ByPrediction] != 1 {
		t.Errorf("it says %+v", w)
	}
}

// TestPredictionWithoutRunsIsNotUsed checks that a prediction that is not based on any runs is
// ignored. The time limit or the assumed runtime must be used instead. An element that does not
// exist yet must use the prediction of its array.
func TestPredictionWithoutRunsIsNotUsed(t *testing.T) {
	t.Parallel()
	sweep := func(s *ares.Spec) { s.Array = ares.Array{Count: 2} }
	for _, c := range []struct {
		name           string
		minutes, known int
		array          bool
		want           time.Duration
		basis          Basis
	}{
		{"nothing", 0, 0, false, 90 * time.Minute, ByAssumption},
		{"a limit", 20, 0, false, 20 * time.Minute, ByLimit},
		{"runs", 20, 3, false, 12 * time.Minute, ByPrediction},
		{"an array of nothing", 0, 0, true, 90 * time.Minute, ByAssumption},
		{"an array with a limit", 20, 0, true, 20 * time.Minute, ByLimit},
		{"an array like runs", 0, 3, true, 12 * time.Minute, ByPrediction},
	} {
		m := newMoment(t, "n1")
		edit := []func(*ares.Spec){}
		if c.array {
			edit = append(edit, sweep)
		}
		job := m.waits("job", "a", 8, c.minutes, edit...)
		m.events = append(m.events, ares.Event{Forecast: &ares.RuntimePredicted{Job: job.ID, P50: 12 * time.Minute, P90: 12 * time.Hour, Samples: c.known}})
		f := newProjection(m.snapshot(), config.Default(), 24*time.Hour, 90*time.Minute)
		f.resumeJobs()
		if err := f.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(f.outcomes) == 0 {
			t.Errorf("%s: nothing ran", c.name)
		}
		for _, fate := range f.outcomes {
			if got := fate.End.Sub(fate.Start); got != c.want || fate.Basis != c.basis {
				t.Errorf("%s: %s runs for %s by %s, want %s by %s", c.name, fate.Job.Name, got, fate.Basis, c.want, c.basis)
			}
		}
	}
}

// TestFewerNodes removes a machine. A job on this machine must start over on another machine, unless it is an
// at_most_once job.
func TestFewerNodes(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "n1", "n2")
	m.runs("goes", "a", "n2", 8, 60, 30*time.Minute)
	m.runs("stays", "a", "n1", 8, 60, 30*time.Minute)
	w := m.ask(&Edit{Remove: []string{"n2", "n2"}})
	if got := strings.Join(w.Changes, "; "); got != "without node n2" {
		t.Errorf("it says %q", got)
	}
	if got := shifts(w); got != "goes: 0s -> 30m0s lost" {
		t.Errorf("what changes is %s", got)
	}
	if w.Then.Stops != 1 || w.Then.Ended != 2 || w.Tenants[0].Later != 1 {
		t.Errorf("it says %+v", w)
	}

	m = newMoment(t, "n1", "n2")
	m.runs("once", "a", "n2", 8, 60, 30*time.Minute, func(s *ares.Spec) { s.Mode = ares.AtMostOnce })
	if w = m.ask(&Edit{Remove: []string{"n2"}}); w.Then.GPUHours != 0 || shifts(w) != "once: 0s -> never lost" {
		t.Errorf("what changes is %s, and %v GPU-hours", shifts(w), w.Then.GPUHours)
	}
}

// TestArraysAndDependencies checks that each element of an array counts as a job. An element that
// is not created within the horizon must count as waiting. A job that depends on an array must
// start when the array ends.
func TestArraysAndDependencies(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "n1")
	m.tenant("b", 4)
	sweep := m.waits("sweep", "b", 4, 600, func(s *ares.Spec) { s.Array = ares.Array{Count: 4} })
	m.waits("after", "b", 0, 10, func(s *ares.Spec) { s.After, s.CPUs = []string{string(sweep.ID)}, 1 })
	w := m.ask(&Edit{Quotas: parsed(t, "b=8")})
	if got := shifts(w); got != "sweep[3]: never -> 10h0m0s, sweep[1]: 10h0m0s -> 0s, sweep[2]: 20h0m0s -> 10h0m0s, after: never -> 20h0m0s" {
		t.Errorf("what changes is %s", got)
	}
	if w.Waiting != 5 || w.Now.Started != 3 || w.Then.Started != 5 {
		t.Errorf("it says %+v", w)
	}
}

func TestPolicyKeepsServerSettings(t *testing.T) {
	t.Parallel()
	server := config.Default()
	server.ThermalLimit, server.ModelWeights, server.AgeingStep = 90, map[string]int{"h100": 2000}, time.Minute
	policy := config.Default()
	policy.AgeingStep, policy.Seed = time.Hour, 7
	if got := configFor(policy, server); got.ThermalLimit != 90 || got.ModelWeights["h100"] != 2000 || got.AgeingStep != time.Hour || got.Seed != 7 {
		t.Errorf("it decides by %+v", got)
	}
}

// TestAnotherPolicy simulates a policy with preemption. The short job must not wait for the long job, and the long job
// must later resume from its checkpoint.
func TestAnotherPolicy(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "n1")
	long := m.runs("long", "a", "n1", 8, 600, time.Hour, func(s *ares.Spec) { s.Checkpoint.Enabled = true })
	short := m.waits("short", "a", 8, 10)
	for job, d := range map[*ares.Job]time.Duration{long: 5 * time.Hour, short: 10 * time.Minute} {
		m.events = append(m.events, ares.Event{Forecast: &ares.RuntimePredicted{Job: job.ID, P50: d, P90: d, Samples: 3}})
	}
	p, err := PolicyNamed("srtf")
	if err != nil {
		t.Fatal(err)
	}
	w := m.ask(&Edit{Policy: p.Name, Config: &p.Engine})
	// With the default policy, "short" preempts "long" too, but only after "long" has run for so long that it is expected
	// to run much longer.
	if got := shifts(w); got != "short: 3h50m0s -> 0s" {
		t.Errorf("what changes is %s", got)
	}
	then := newProjection(m.snapshot(), p.Engine, 24*time.Hour, time.Hour)
	then.resumeJobs()
	if err = then.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := then.outcomes[long.ID].End.Sub(noon); got != 4*time.Hour+10*time.Minute {
		t.Errorf("the long job ends after %s", got)
	}
}

// TestStopsInProgress simulates a job that was asked to stop and a job that waits for its next
// try. The first job must end, and the second job must start again.
func TestStopsInProgress(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "n1")
	m.runs("cancelled", "a", "n1", 8, 600, time.Minute)
	stopped := &m.events[len(m.events)-1].Run.Run
	if err := stopped.RequestStop(ares.Stop{Why: ares.StopCancel, By: "me", At: noon}); err != nil {
		t.Fatal(err)
	}
	job := m.waits("retries", "a", 1, 600)
	run := ares.NewRun(noon)
	run.Phase, run.NotBefore = ares.Retrying, noon.Add(5*time.Minute)
	m.events = append(m.events, ares.Event{Run: &ares.RunEvent{Job: job.ID, Run: run}})
	now := newProjection(m.snapshot(), config.Default(), time.Hour, time.Hour)
	now.resumeJobs()
	if err := now.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := now.outcomes[job.ID].Start.Sub(noon); got != 5*time.Minute {
		t.Errorf("the delayed job starts after %s", got)
	}
	if err := now.state.Check(); err != nil {
		t.Error(err)
	}
	if r, _ := now.state.Run(ares.NewJobID("t", "cancelled")); r.Phase != ares.Cancelled || !r.Free() {
		t.Errorf("the cancelled job is %s", r.Phase)
	}
}

// TestNoChangeChangesNothing checks that an edit without effect changes no projection. The totals must be right.
func TestNoChangeChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := newMoment(t, "n1", "n2", "n3")
		m.tenant("b", rapid.IntRange(1, 16).Draw(r, "limit"))
		for _, node := range []string{"n1", "n2"} {
			gpus := rapid.IntRange(0, 8).Draw(r, "gpus")
			m.runs("on "+node, "a", node, gpus, rapid.IntRange(0, 300).Draw(r, "minutes"), time.Duration(rapid.IntRange(0, 500).Draw(r, "ago"))*time.Minute)
		}
		for i := range rapid.IntRange(0, 20).Draw(r, "jobs") {
			m.waits(fmt.Sprint("job ", i), rapid.SampledFrom([]string{"a", "b"}).Draw(r, "tenant"), rapid.IntRange(0, 8).Draw(r, "gpus"),
				rapid.IntRange(0, 300).Draw(r, "minutes"), func(s *ares.Spec) {
					s.Members = rapid.IntRange(1, 3).Draw(r, "members")
					s.Array.Count = rapid.IntRange(0, 4).Draw(r, "count")
					s.Priority = new(rapid.IntRange(0, 2500).Draw(r, "priority"))
				})
		}
		w := m.ask(&Edit{Weights: parsed(t, "b=+0")})
		if len(w.Jobs) > 0 || w.Now != w.Then {
			r.Errorf("nothing was changed, and %s; %+v became %+v", shifts(w), w.Now, w.Then)
		}
		f := newProjection(m.snapshot(), config.Default(), 12*time.Hour, time.Hour)
		f.resumeJobs()
		if err := f.run(t.Context()); err != nil {
			r.Error(err)
		}
		if err := f.state.Check(); err != nil {
			r.Error(err)
		}
	})
}

func TestWhatIfMistakes(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "dgx-1")
	m.tenant("science", 4)
	m.tenant("art", ares.Unlimited).Quotas = []ares.Quota{{Model: "h100", Nominal: 4}, {Model: "a100", Nominal: 2}}
	for want, e := range map[string]*Edit{
		`there is no tenant "scienc": did you mean science?`:             {Quotas: parsed(t, "scienc=+1")},
		`there is no tenant "zzzzzz": the known names are a, art, scien`: {Weights: parsed(t, "zzzzzz=2")},
		`there is no queue "science/nigth": the known names are`:         {Quotas: parsed(t, "science/nigth=+1")},
		`there is no node "dgx-2": did you mean dgx-1?`:                  {Remove: []string{"dgx-2"}},
		`a has no GPU limit`: {Quotas: parsed(t, "a=+1")},
		`art has quotas for the GPU models h100, a100: name one`: {Quotas: parsed(t, "art=+1")},
		`there is no quota of art "h10": did you mean h100?`:     {Quotas: parsed(t, "art:h10=+1")},
		`science has no quotas for GPU models`:                   {Quotas: parsed(t, "science:h100=+1")},
		`not a whole number of GPUs`:                             {Quotas: parsed(t, "science=+0.5")},
		`, but the new weight is -2 (1-3)`:                       {Weights: parsed(t, "science=-3")},
		`no change is given`:                                     {},
	} {
		if _, err := RunWhatIf(context.Background(), m.snapshot(), e, time.Hour, time.Hour); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	w := m.ask(&Edit{Quotas: parsed(t, "art:h100=+4", "science=2"), Weights: parsed(t, "science/default=3")})
	if got := strings.Join(w.Changes, "; "); got != "quota (h100) of art 4 → 8; max_gpus of science 4 → 2; weight of science/default 1 → 3" {
		t.Errorf("it says %q", got)
	}
	for _, text := range []string{"", "a", "a=", "=3", "a=x", "a=NaN"} {
		if _, err := ParseAmount(text); err == nil {
			t.Errorf("%q is an amount", text)
		}
	}
}
