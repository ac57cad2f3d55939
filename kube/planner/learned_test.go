package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// finish ends a bound pod after a time.
func (c *cluster) finish(name string, outcome ares.Outcome, took time.Duration) {
	c.t.Helper()
	p := *c.pods[name]
	began := c.now
	c.now = c.now.Add(took)
	p.Ended, p.Started, p.Result = true, began, &ares.RankResult{Outcome: outcome, StartedAt: began, EndedAt: c.now}
	c.SetPod(&p, c.now)
}

// on pins a pod to a node.
func on(node string) func(*watch.Pod) {
	return func(p *watch.Pod) {
		p.Spec.EditPlacement().NodeRequirements = ares.NodeRequirements{{Key: ares.KeyNodeName, Operator: ares.OperatorIn, Values: []string{node}}}
	}
}

// TestLearned checks that a node on which pods are lost is avoided, that short workloads are placed before long ones, and
// that the next process knows both.
func TestLearned(t *testing.T) {
	c := newCluster(t, 2)
	for i := range 8 {
		for _, kind := range []string{"short", "long"} {
			name := fmt.Sprintf("%s-%d", kind, i)
			c.pod(name, 8, "", 1, on("node-001"))
			c.cycle()
			c.bind(name)
			c.finish(name, ares.OutcomeSucceeded, map[string]time.Duration{"short": time.Minute, "long": 10 * time.Hour}[kind])
			c.cycle()
		}
	}
	for i := range 8 {
		name := fmt.Sprintf("lost-%d", i)
		c.pod(name, 1, "", 1, on("node-000"))
		c.cycle()
		c.bind(name)
		c.finish(name, ares.OutcomeLost, time.Minute)
	}
	check := func(c *cluster, when string) {
		t.Helper()
		c.pod("single-"+when, 1, "", 1)
		c.cycle()
		if got := c.plan("single-" + when); !strings.HasPrefix(got, "node-001") {
			t.Errorf("%s: the pod is planned on %q, want node-001, because node-000 lost pods", when, got)
		}
		c.DeletePod("uid-single-"+when, c.now)
		c.cycle()

		c.pod("long-"+when, 8, "", 1, on("node-001"))
		c.pod("short-"+when, 8, "", 1, on("node-001"))
		c.cycle()
		if c.plan("short-"+when) == "" || c.plan("long-"+when) != "" {
			t.Errorf("%s: the short workload is planned on %q and the long one on %q, want only the short one", when, c.plan("short-"+when), c.plan("long-"+when))
		}
	}
	check(c, "before")

	data, err := c.Learned(c.now)
	if err != nil {
		t.Fatal(err)
	}
	next := newCluster(t, 0)
	next.now = c.now
	if err := next.SetLearned(data, next.now); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		next.SetNode(gpuNode(i), true, false)
	}
	check(next, "after")
}

// phases is an observer that keeps the phase in the last run event.
type phases struct{ last ares.Phase }

func (o *phases) Follow(b ares.Batch, _ time.Time) {
	for i := range b.Events {
		if r := b.Events[i].Run; r != nil {
			o.last = r.Run.Phase
		}
	}
}

func (*phases) Lost(ares.JobID, time.Time)      {}
func (*phases) Recovered(ares.JobID, time.Time) {}

// TestEndedUnits checks that the engine learns how a unit ended: its last run event has an outcome.
func TestEndedUnits(t *testing.T) {
	for outcome, phase := range map[ares.Outcome]ares.Phase{
		ares.OutcomeSucceeded: ares.Succeeded, ares.OutcomeFailed: ares.Failed, ares.OutcomeTimeout: ares.Failed, ares.OutcomeStopped: ares.Cancelled,
	} {
		seen := &phases{}
		c := &cluster{Planner: planner.New(scheduler, seen), t: t, now: start, pods: map[string]*watch.Pod{}}
		for i := range 2 {
			c.SetNode(gpuNode(i), true, false)
		}
		for i := range 2 {
			c.pod(fmt.Sprint("rank-", i), 8, "gang", 2)
		}
		c.cycle()
		c.bind("rank-0", "rank-1")
		c.finish("rank-0", ares.OutcomeSucceeded, time.Minute)
		c.finish("rank-1", outcome, time.Minute)
		c.cycle()
		if seen.last != phase {
			t.Errorf("a gang with a rank that ended as %s is %s, want %s", outcome, seen.last, phase)
		}
		c.State(func(s *engine.State) {
			for range s.Jobs() {
				t.Error("the job is still there")
			}
		})
	}
}
