package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

func job(id ares.JobID, revision int64, spec ares.Spec) *ares.Job {
	return &ares.Job{Spec: spec.WithDefaults(), ID: id, AcceptedAt: enginetest.StartTime, Revision: revision}
}

func nodeOf(id string, gpus int) *ares.Node {
	n := &ares.Node{ID: id, CPUs: 64, MemoryMB: 1 << 19}
	for i := range gpus {
		n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(id, "/", i), Index: i, Type: "gpu", Model: "H100", MemoryMB: 80_000, Healthy: true})
	}
	return n
}

func open(n *ares.Node) []ares.Event {
	return []ares.Event{{Node: n}, {Session: &ares.Session{Node: n.ID}}}
}

func tenantEvent(id string) ares.Event {
	return ares.Event{Tenant: &ares.Tenant{ID: id, Limits: ares.NoLimits()}}
}

func check(t *testing.T, s *engine.State) {
	t.Helper()
	if err := enginetest.CheckState(s); err != nil {
		t.Fatal(err)
	}
}

func TestApplyRevisions(t *testing.T) {
	s := engine.New()
	check(t, s)
	if plan := engine.Decide(s, enginetest.StartTime); !plan.Empty() || len(plan.Refuse) > 0 || !plan.Wake.IsZero() {
		t.Errorf("an empty state plans %+v", plan)
	}
	s.Apply(ares.Batch{Revision: 5, Events: append(open(nodeOf("a", 1)), tenantEvent("default"),
		ares.Event{Job: job("x", 5, ares.Spec{GPUs: 1})})})
	check(t, s)
	run, ok := s.Run("x")
	if want := ares.NewRun(enginetest.StartTime); !ok || !reflect.DeepEqual(run, want) {
		t.Errorf("run of a job without a stored run = %+v, %t; want %+v", run, ok, want)
	}

	// Batches with an old or repeated revision change nothing.
	for _, rev := range []int64{1, 5} {
		s.Apply(ares.Batch{Revision: rev, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: "x"}}}})
		if _, ok := s.Job("x"); !ok || s.Revision() != 5 {
			t.Errorf("revision %d was applied again", rev)
		}
	}

	// A batch with Reset replaces all records.
	s.Apply(ares.Batch{Revision: 4, Reset: true, Events: append(open(nodeOf("b", 1)), ares.Event{Job: job("y", 3, ares.Spec{})})})
	check(t, s)
	if _, ok := s.Job("x"); ok || s.Revision() != 4 {
		t.Error("a reset kept a job of before")
	}
	var nodes []string
	for v := range s.Nodes() {
		nodes = append(nodes, v.Node.ID)
	}
	if !slices.Equal(nodes, []string{"b"}) {
		t.Errorf("nodes = %v", nodes)
	}
	if _, ok := s.Run("x"); ok {
		t.Error("an unknown job has a run")
	}
}

// TestRunIsACopy checks that a caller can change the run that Run returns without changing the state.
func TestRunIsACopy(t *testing.T) {
	w := enginetest.NewCluster()
	w.AddNode(*nodeOf("a", 2))
	w.Submit("x", ares.Spec{GPUs: 2})
	if _, err := w.DecideUntilStable(); err != nil {
		t.Fatal(err)
	}
	run, _ := w.State.Run("x")
	run.Attempts[0].Seats[0].State = ares.SeatReleased
	run.Phase = ares.Failed
	check(t, w.State)
	if again, _ := w.State.Run("x"); again.Phase != ares.Scheduled || again.Attempts[0].Seats[0].State != ares.SeatPlaced {
		t.Error("a change of the returned run changed the state")
	}
}

// TestRecordsInAnyOrder checks that a run may arrive before its job, and a seat before its node.
func TestRecordsInAnyOrder(t *testing.T) {
	run := ares.NewRun(enginetest.StartTime)
	seat := ares.Seat{Node: "a", CPUs: 1, Shares: []ares.Share{{Device: "a/0", Index: 0, Milli: 1000}}}
	if err := run.Place([]ares.Seat{seat}, 0, enginetest.StartTime); err != nil {
		t.Fatal(err)
	}
	s := engine.New()
	s.Apply(ares.Batch{Revision: 1, Events: []ares.Event{{Run: &ares.RunEvent{Job: "x", Run: run}}}})
	check(t, s)
	if _, ok := s.Job("x"); ok {
		t.Error("a run without a job is a job")
	}
	s.Apply(ares.Batch{Revision: 2, Events: append(open(nodeOf("a", 1)), tenantEvent("default"), ares.Event{Job: job("y", 2, ares.Spec{GPUs: 1})})})
	check(t, s)
	if plan := engine.Decide(s, enginetest.StartTime); len(plan.Place) != 0 {
		t.Errorf("a device held by a run without a job was allocated again: %+v", plan.Place)
	}
	s.Apply(ares.Batch{Revision: 3, Events: []ares.Event{{Job: job("x", 1, ares.Spec{GPUs: 1, CPUs: 1})}}})
	check(t, s)
	if _, use, _ := s.Tenant("default"); use != (ares.Use{GPUs: 1, CPUs: 1, Jobs: 1}) {
		t.Errorf("use = %+v", use)
	}
	// After the job's run is deleted, the job is pending and its device is free.
	s.Apply(ares.Batch{Revision: 4, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindRun, ID: "x"}}}})
	check(t, s)
	if plan := engine.Decide(s, enginetest.StartTime); len(plan.Place) != 1 || plan.Place[0].Job != "x" {
		t.Errorf("plan = %+v", plan)
	}
}

func TestPlanLimits(t *testing.T) {
	events := append(open(nodeOf("a", 0)), tenantEvent("default"))
	for i := range 2 * config.MaxPlacings {
		events = append(events, ares.Event{Job: job(ares.JobID(fmt.Sprintf("big%04d", i)), int64(i), ares.Spec{GPUs: 1, MemoryMB: i})})
		late := ares.NewRun(enginetest.StartTime)
		late.Phase, late.NotBefore = ares.Retrying, enginetest.StartTime
		id := ares.JobID(fmt.Sprintf("late%04d", i))
		events = append(events, ares.Event{Job: job(id, int64(i), ares.Spec{})}, ares.Event{Run: &ares.RunEvent{Job: id, Run: late}})
	}
	s := engine.New()
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: events})
	check(t, s)
	plan := engine.Decide(s, enginetest.StartTime)
	if err := enginetest.CheckPlan(s, plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Ready) != config.MaxPlacings || len(plan.Refuse) != config.MaxRefusals || !plan.Wake.Equal(plan.Now) {
		t.Errorf("%d ready, %d refused, wake %s", len(plan.Ready), len(plan.Refuse), plan.Wake)
	}
	if plan.Ready[0] != "late0000" || plan.Refuse[0].Job != "big0000" {
		t.Errorf("first ready %s, first refused %s", plan.Ready[0], plan.Refuse[0].Job)
	}
}

// TestScoreOfALargeGang checks the score of a large gang, which is computed by domains. It must equal the sum over
// all pairs of devices.
func TestScoreOfALargeGang(t *testing.T) {
	w := enginetest.NewCluster()
	labels := func(i int) map[string]string {
		return map[string]string{"region": fmt.Sprint("r", i/8), "zone": fmt.Sprint("z", i/4), "rack": fmt.Sprint("k", i/2)}
	}
	for i := range 16 {
		n := nodeOf(fmt.Sprintf("n%02d", i), 2)
		n.Labels = labels(i)
		w.AddNode(*n)
	}
	w.Submit("gang", ares.Spec{Members: 16, GPUs: 2})
	plan, err := w.Decide()
	if err != nil || len(plan.Place) != 1 {
		t.Fatal(err, plan)
	}
	want := 16 * 110 // pairs inside the nodes
	for i := range 16 {
		for k := range i {
			pair := -50
			switch {
			case i/2 == k/2:
				pair = 50
			case i/4 == k/4:
				pair = 20
			case i/8 == k/8:
				pair = 5
			}
			want += 4 * pair
		}
	}
	if got := plan.Place[0].Score; got != want {
		t.Errorf("score = %d, want %d", got, want)
	}
}

func TestExplainUnknownAndFitting(t *testing.T) {
	w := enginetest.NewCluster()
	if r := engine.Explain(w.State, "nobody", w.Now); len(r.Blockers) > 0 {
		t.Errorf("an unknown job has blockers: %v", r)
	}
	w.Submit("x", ares.Spec{GPUs: 1})
	r := engine.Explain(w.State, "x", w.Now)
	if len(r.Blockers) != 1 || r.Blockers[0].Kind != "nodes" {
		t.Errorf("without nodes: %v", r)
	}
	w.AddNode(*nodeOf("a", 1))
	if r := engine.Explain(w.State, "x", w.Now.Add(time.Hour)); len(r.Blockers) > 0 {
		t.Errorf("a job that fits has blockers: %v", r)
	}
}

// TestDelayWrittenByAWrongClock checks the end of a retry delay that another server has written. If the
// clock of that server is far ahead, the delay must last as long as intended. If the clock of that server
// is correct, the delay must end at the stored time.
func TestDelayWrittenByAWrongClock(t *testing.T) {
	at := enginetest.StartTime
	for _, c := range []struct {
		name  string
		ahead time.Duration // how far the clock of the writing server is ahead
		want  time.Duration // time until the job is due, by the clock of the deciding server
	}{
		{"right", 0, 5 * time.Second},
		{"slightly fast", 900 * time.Millisecond, 5900 * time.Millisecond},
		{"an hour fast", time.Hour, 5 * time.Second},
		{"an hour slow", -time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ended := at.Add(c.ahead)
			run := ares.Run{Phase: ares.Retrying, NotBefore: ended.Add(5 * time.Second), Revision: 2, Attempts: []ares.Attempt{{
				Number: 1, Fence: 1, EndedAt: ended, Outcome: ares.OutcomeFailed,
			}}}
			s := engine.New()
			s.Apply(ares.Batch{Revision: 2, At: at, Events: []ares.Event{
				{Revision: 1, Job: &ares.Job{ID: "job-a", Spec: ares.Spec{Tenant: "default", Members: 1}, Revision: 1}},
				{Revision: 2, Run: &ares.RunEvent{Job: "job-a", Run: run}},
			}})
			if c.want > 0 {
				plan := engine.Decide(s, at.Add(c.want-time.Millisecond))
				if len(plan.Ready) != 0 || !plan.Wake.Equal(at.Add(c.want)) {
					t.Errorf("before the delay ends: ready %v, wake at %s, want %s", plan.Ready, plan.Wake, at.Add(c.want))
				}
			}
			if plan := engine.Decide(s, at.Add(c.want)); len(plan.Ready) != 1 {
				t.Errorf("%s after the batch the job is not ready", c.want)
			}
			// Take a snapshot of the state after the delay was written. At that time, the state's own
			// clock has already passed the time of the other server's clock. The delay must still end at
			// the time that the original state computed.
			s.Apply(ares.Batch{Revision: 3, At: ended.Add(time.Second), Events: []ares.Event{{Revision: 3, Tenant: &ares.Tenant{ID: "t"}}}})
			again := engine.New()
			again.Apply(s.Snapshot())
			for _, now := range []time.Duration{c.want - time.Millisecond, c.want} {
				if want, got := engine.Decide(s, at.Add(now)), engine.Decide(again, at.Add(now)); want.Digest() != got.Digest() || !want.Wake.Equal(got.Wake) {
					t.Errorf("%s after the batch a snapshot readies %v and wakes at %s, the state %v at %s", now, got.Ready, got.Wake, want.Ready, want.Wake)
				}
			}
		})
	}
}

// TestConfigOutlivesASnapshot checks that applying a snapshot replaces the records but not the configuration.
func TestConfigOutlivesASnapshot(t *testing.T) {
	if got, want := engine.New().Config().Digest(), config.Default().Digest(); got != want {
		t.Errorf("a new state has the configuration %s, want the default %s", got, want)
	}
	cfg := config.Default()
	cfg.ThermalLimit = 60
	s := engine.NewWith(cfg)
	s.Apply(ares.Batch{Revision: 5, Reset: true})
	if s.Config().ThermalLimit != 60 {
		t.Errorf("configuration after a snapshot: %+v", s.Config())
	}
}
