package engine

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

var demandNow = time.Unix(1_700_000_000, 0)

// demandNodes returns a few nodes of two kinds. Nodes of one kind have 8 devices and 96 cores, and
// nodes of the other kind have 2 devices and 104 cores.
func demandNodes() []ares.Event {
	events := []ares.Event{{Tenant: &ares.Tenant{ID: "default", Limits: ares.NoLimits()}}}
	for i := range 12 {
		n := &ares.Node{ID: fmt.Sprintf("n%02d", i), CPUs: 96, MemoryMB: 393_216}
		devices, model := 8, "NVIDIA G2"
		if i%3 == 2 {
			n.CPUs, devices, model = 104, 2, "NVIDIA T4"
		}
		for k := range devices {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprintf("%s-%d", n.ID, k), Index: k, Type: "gpu", Model: model, Healthy: true})
		}
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID}})
	}
	return events
}

// demandJob returns the i-th job of a sequence that has jobs of several kinds.
func demandJob(i int, revision int64) *ares.Job {
	kinds := []ares.Spec{
		{GPUMilli: 810, CPUs: 4, MemoryMB: 5600},
		{GPUs: 1, CPUs: 12, MemoryMB: 49_152},
		{GPUMilli: 470, CPUs: 8, MemoryMB: 30_517},
		{GPUs: 1, CPUs: 4, MemoryMB: 5600, GPUModel: "T4"},
		{CPUs: 13, MemoryMB: 57_344},
		{GPUMilli: 160, CPUs: 2, MemoryMB: 4096},
		{GPUs: 2, CPUs: 16, MemoryMB: 65_536, Members: 2},
	}
	return &ares.Job{
		Spec: kinds[i*i%len(kinds)].WithDefaults(), ID: ares.JobID(fmt.Sprintf("j%04d", i)), AcceptedAt: demandNow, Revision: revision,
	}
}

// The function `history` submits and places jobs, and archives some of them. It returns
// the state that received all events, and a snapshot of the store's records at the end.
func history(jobs int) (*State, ares.Batch) {
	s := New()
	snapshot := ares.Batch{Reset: true, Events: demandNodes()}
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: snapshot.Events})
	rev := int64(1)
	apply := func(events ...ares.Event) {
		rev++
		s.Apply(ares.Batch{Revision: rev, Events: events})
	}
	for i := range jobs {
		apply(ares.Event{Job: demandJob(i, rev+1)})
		for _, p := range Decide(s, demandNow).Place {
			run := ares.NewRun(demandNow)
			if err := p.Apply(&run, demandNow); err != nil {
				panic(err)
			}
			apply(ares.Event{Run: &ares.RunEvent{Job: p.Job, Run: run}})
		}
		if old := ares.JobID(fmt.Sprintf("j%04d", i-30)); i%3 == 0 && s.core.Jobs.EntryByID[old] != nil {
			apply(ares.Event{Gone: ares.Gone{Kind: ares.KindRun, ID: string(old)}}, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(old)}})
		}
	}
	for job, run := range s.Jobs() {
		snapshot.Events = append(snapshot.Events, ares.Event{Job: job})
		if run != nil {
			snapshot.Events = append(snapshot.Events, ares.Event{Run: &ares.RunEvent{Job: job.ID, Run: *run}})
		}
	}
	snapshot.Revision = rev
	return s, snapshot
}

// TestWorkloadMixOfASnapshot compares a state that received all events with a state that started from a snapshot.
// The two states must have the same workload mix and make the same decisions, for histories of any length.
func TestWorkloadMixOfASnapshot(t *testing.T) {
	mixes := map[string]bool{}
	for _, jobs := range []int{1, 5, 31, 64, 120, 200} {
		seen, snapshot := history(jobs)
		restored := New()
		restored.Apply(snapshot)
		for i := range 12 { // both states get the same additional jobs
			next := ares.Batch{Revision: seen.Revision() + 1, Events: []ares.Event{{Job: demandJob(jobs+i, seen.Revision()+1)}}}
			seen.Apply(next)
			restored.Apply(next)
			a, b := Decide(seen, demandNow), Decide(restored, demandNow)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("after %d jobs and %d more, the state with history decides\n%+v\nthe one from a snapshot\n%+v", jobs, i+1, a, b)
			}
			x, y := &seen.core.Scorer.Demand.Mix, &restored.core.Scorer.Demand.Mix
			if x.Fills != y.Fills || len(x.Kinds) != len(y.Kinds) {
				t.Fatalf("after %d jobs and %d more, the mix has %d kinds with history, %d from a snapshot", jobs, i+1, len(x.Kinds), len(y.Kinds))
			}
		}
		if err := seen.Check(); err != nil {
			t.Error(err)
		}
		mixes[fmt.Sprint(seen.core.Scorer.Demand.Mix.Fills)] = true
	}
	if len(mixes) < 4 {
		t.Errorf("six histories led to %d different mixes, want at least 4", len(mixes))
	}
}

// TestDemandIgnoresBatches checks that the same events lead to the same workload mix, whether they are in one batch
// or in many.
func TestDemandIgnoresBatches(t *testing.T) {
	one, many := New(), New()
	all := ares.Batch{Revision: 90, Reset: true, Events: demandNodes()}
	many.Apply(ares.Batch{Revision: 1, Reset: true, Events: demandNodes()})
	for i := range 80 {
		job := demandJob(i, int64(i+2))
		all.Events = append(all.Events, ares.Event{Job: job})
		many.Apply(ares.Batch{Revision: job.Revision, Events: []ares.Event{{Job: job}}})
		if i%7 == 0 {
			Decide(many, demandNow) // a decision changes nothing
		}
	}
	many.Apply(ares.Batch{Revision: 90})
	one.Apply(all)
	if a, b := Decide(one, demandNow), Decide(many, demandNow); len(a.Place) == 0 || !reflect.DeepEqual(a, b) {
		t.Errorf("in one batch\n%+v\nin many\n%+v", a, b)
	}
}

// TestConfiguredMix checks that a configured mix is used unchanged, regardless of the jobs' requests.
func TestConfiguredMix(t *testing.T) {
	cfg := config.Default()
	cfg.Mix = []config.Mix{{GPUs: 8, CPUs: 80, Weight: 1000}}
	s := NewWith(cfg)
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: demandNodes()})
	for i := range 200 {
		s.Apply(ares.Batch{Revision: int64(i + 2), Events: []ares.Event{{Job: demandJob(i, int64(i+2))}}})
	}
	Decide(s, demandNow)
	if k := s.core.Scorer.Demand.Mix.Kinds; len(k) != 1 || k[0].Kind.GPUs != 8 || s.core.Scorer.MixCount != 1 {
		t.Errorf("the mix has %d kinds after %d changes: %+v", len(k), s.core.Scorer.MixCount, k)
	}
}

// TestCPUJobsAvoidScarceCores places a job without devices. The job must get a node that has more cores than its
// devices need.
func TestCPUJobsAvoidScarceCores(t *testing.T) {
	seen, _ := history(60)
	place := func(spec ares.Spec) *ares.Node {
		p, refusal := Place(seen, &ares.Job{Spec: spec.WithDefaults(), ID: "next", AcceptedAt: demandNow}, demandNow)
		if refusal != nil {
			t.Fatalf("%+v: %+v", spec, refusal)
		}
		return seen.core.Cluster.NodesByID[p.Seats[0].Node].Record
	}
	if n := place(ares.Spec{CPUs: 24, MemoryMB: 4096}); len(n.Devices) != 2 {
		t.Errorf("a job of 24 cores was placed beside %d devices on %s, where cores are scarce", len(n.Devices), n.ID)
	}
}

// TestHorizonIsStable adds and removes one job many times. With each change, the number of jobs crosses a
// threshold at which the demand horizon can move. The horizon must move only a few times, because each move
// makes the state recount all demand.
func TestHorizonIsStable(t *testing.T) {
	s := New()
	job := func(i int, revision int64) ares.Event {
		return ares.Event{Job: &ares.Job{Spec: ares.Spec{GPUs: 1 + i%8}.WithDefaults(), ID: ares.JobID(fmt.Sprint("j", i)), Revision: revision}}
	}
	var events []ares.Event
	for i := range 1024 {
		events = append(events, job(i, int64(i+1)))
	}
	s.Apply(ares.Batch{Revision: 50_000, Reset: true, Events: events})
	moves, last := 0, s.core.Scorer.Demand.CountedUntil
	for r := int64(50_001); r <= 51_000; r++ {
		ev := job(1024, r)
		if r%2 == 0 {
			ev = ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: "j1024"}}
		}
		s.Apply(ares.Batch{Revision: r, Events: []ares.Event{ev}})
		if s.core.Scorer.Demand.CountedUntil != last {
			moves, last = moves+1, s.core.Scorer.Demand.CountedUntil
		}
	}
	if moves > 20 {
		t.Errorf("the horizon moved %d times in 1000 revisions, want at most 20", moves)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
