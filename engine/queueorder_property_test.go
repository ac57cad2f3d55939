package engine_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// overloadedCluster is a small overloaded cluster. A job with a runtime prediction runs for exactly the predicted
// time.
type overloadedCluster struct {
	w      *enginetest.Cluster
	runs   map[ares.JobID]time.Duration
	ends   map[ares.JobID]time.Time // of the current attempt
	order  []ares.JobID
	nodes  int
	queues []string
	stops  int
}

func newOverloadedCluster(t *rapid.T, q config.QueueConfig) *overloadedCluster {
	cfg := enginetest.AgedConfig()
	cfg.Queue = q
	c := &overloadedCluster{w: enginetest.NewClusterWithConfig(cfg), runs: map[ares.JobID]time.Duration{}, ends: map[ares.JobID]time.Time{}, queues: []string{"", "", "other"}}
	c.nodes = rapid.IntRange(1, 3).Draw(t, "nodes")
	for i := range c.nodes {
		n := ares.Node{ID: string(rune('a' + i)), CPUs: 8, MemoryMB: 1000}
		for k := range 4 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprintf("%s%d", n.ID, k), Index: k, Type: "gpu", Model: "A", MemoryMB: 100, Healthy: true})
		}
		c.w.AddNode(n)
	}
	return c
}

// The method `reconfigure` replaces the configuration. It must be called before any job is submitted.
func (c *overloadedCluster) reconfigure(cfg config.Config) {
	old := c.w
	c.w = enginetest.NewClusterWithConfig(cfg)
	for v := range old.State.Nodes() {
		c.w.AddNode(*v.Node)
	}
}

// The method `submit` submits a job that fits on the empty cluster. If the argument `known` is true, the
// job has a runtime prediction.
func (c *overloadedCluster) submit(t *rapid.T, known bool) {
	id := ares.JobID(fmt.Sprintf("j%03d", len(c.order)))
	c.order = append(c.order, id)
	spec := ares.Spec{Members: min(pick(t, "members", 1, 1, 1, 2), c.nodes), CPUs: pick(t, "cpus", 0, 1, 4), MemoryMB: pick(t, "memory", 0, 400), Queue: pick(t, "queue", c.queues...)}
	if once(t, 5, "share") {
		spec.GPUMilli = 500
	} else {
		spec.GPUs = pick(t, "gpus", 1, 2, 3, 4)
	}
	spec.Checkpoint.Enabled = !once(t, 5, "forgetful")
	c.runs[id] = time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute
	c.w.Submit(id, spec)
	if known {
		c.w.PutEvents(ares.Event{Forecast: &ares.RuntimePredicted{Job: id, P50: c.runs[id], P90: c.runs[id]}})
	}
}

// The method `settle` runs cycles until a plan changes nothing. It also executes the plans: placed jobs start
// and stopped jobs end immediately.
func (c *overloadedCluster) settle(t *rapid.T) {
	for range 200 {
		plan, err := c.w.Decide()
		if err != nil {
			t.Fatal(err)
		}
		if plan.Empty() {
			return
		}
		if err := c.w.Commit(plan); err != nil {
			t.Fatal(err)
		}
		for _, p := range plan.Place {
			c.start(t, p.Job)
		}
		for _, s := range plan.Stop {
			c.stops++
			c.end(t, s.Job, ares.OutcomeStopped)
		}
	}
	t.Fatal("the plans do not settle within 200 cycles: jobs preempt each other in turn")
}

// The method `change` applies a transition to every rank of a job's last attempt.
func (c *overloadedCluster) change(t *rapid.T, id ares.JobID, move func(*ares.Job, *ares.Run, int) error) {
	err := c.w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error {
		for rank := range r.Last().Seats {
			if err := move(j, r, rank); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *overloadedCluster) start(t *rapid.T, id ares.JobID) {
	c.change(t, id, func(j *ares.Job, r *ares.Run, rank int) error {
		return r.Claim(j, r.Last().Fence, rank, r.Last().Seats[rank].Node, c.w.Now)
	})
	run, _ := c.w.State.Run(id)
	job, _ := c.w.State.Job(id)
	left := c.runs[id]
	if job.Checkpoint.Enabled {
		left -= run.RanFor(c.w.Now)
	}
	c.ends[id] = c.w.Now.Add(left)
}

func (c *overloadedCluster) end(t *rapid.T, id ares.JobID, as ares.Outcome) {
	delete(c.ends, id)
	c.change(t, id, func(j *ares.Job, r *ares.Run, rank int) error {
		fence := r.Last().Fence
		if err := r.Finish(j, fence, rank, ares.RankResult{Outcome: as, EndedAt: c.w.Now}, c.w.Now); err != nil {
			return err
		}
		return r.Release(fence, rank)
	})
}

// The method `next` advances the time to the next end of a job, and ends all jobs that
// end at that time. If no job runs, the method returns false.
func (c *overloadedCluster) next(t *rapid.T) bool {
	var first ares.JobID
	for _, id := range c.order {
		if at, runs := c.ends[id]; runs && (first == "" || at.Before(c.ends[first])) {
			first = id
		}
	}
	if first == "" {
		return false
	}
	if at := c.ends[first]; at.After(c.w.Now) {
		c.w.Now = at
	}
	for _, id := range c.order {
		if at, runs := c.ends[id]; runs && !at.After(c.w.Now) {
			c.end(t, id, ares.OutcomeSucceeded)
		}
	}
	return true
}

// The method `finish` advances the time and runs cycles until all jobs have succeeded.
func (c *overloadedCluster) finish(t *rapid.T) {
	c.settle(t)
	for c.next(t) {
		c.settle(t)
	}
	for _, id := range c.order {
		if run, _ := c.w.State.Run(id); run.Phase != ares.Succeeded {
			t.Fatalf("%s is %s at the end", id, run.Phase)
		}
	}
}

// TestQueueOrders checks every queue order with every policy for blocked jobs. Each plan must obey the laws, no two
// jobs may preempt each other again and again, and all jobs must end.
func TestQueueOrders(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := config.QueueConfig{
			Order:   pick(t, "order", config.OrderFIFO, config.OrderShortest, config.OrderRemaining, config.OrderLeastService, config.OrderAttained),
			Blocked: pick(t, "blocked", config.BlockedSkip, config.BlockedHold, config.BlockedReserve),
		}
		q.Preempt = q.Blocked != config.BlockedReserve && rapid.Bool().Draw(t, "yield")
		if q.Order == config.OrderAttained {
			q.Attained = pick(t, "attained", 1, 300, 3000)
			if q.Preempt {
				q.PeersAfter = pick(t, "peers after", 0, time.Minute, 10*time.Minute)
			}
		}
		c := newOverloadedCluster(t, q)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "come") {
				c.submit(t, !once(t, 6, "unknown"))
			}
			c.settle(t)
			if rapid.Bool().Draw(t, "end") {
				c.next(t)
			} else {
				c.w.Now = c.w.Now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
			}
		}
		c.finish(t)
		if err := c.w.CheckReplay(); err != nil {
			t.Fatal(err)
		}
	})
}

// earliestStart returns the time at which the job would start if no other job waited. It assumes that all running
// jobs end as predicted.
func (c *overloadedCluster) earliestStart(t *rapid.T, id ares.JobID) time.Time {
	alone := &overloadedCluster{w: c.w.Fork(), runs: c.runs, ends: maps.Clone(c.ends), order: c.order}
	for _, other := range c.order {
		if run, ok := alone.w.State.Run(other); ok && other != id && run.Phase == ares.Pending {
			if err := alone.w.UpdateRun(other, func(_ *ares.Job, r *ares.Run) error {
				return r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "test", At: alone.w.Now})
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for {
		alone.settle(t)
		if run, _ := alone.w.State.Run(id); run.Phase != ares.Pending {
			return alone.w.Now
		}
		if !alone.next(t) {
			t.Fatalf("%s never starts", id)
		}
	}
}

// TestBackfillDelaysNoJob checks EASY backfill. The first blocked job of a queue must start no later than it
// would start without the jobs behind it. The test also requires that some jobs are backfilled.
func TestBackfillDelaysNoJob(t *testing.T) {
	t.Parallel()
	behind := 0
	rapid.Check(t, func(t *rapid.T) {
		c := newOverloadedCluster(t, config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedReserve})
		c.queues = []string{""}
		earliest := map[ares.JobID]time.Time{}
		look := func() {
			for _, id := range c.order {
				run, _ := c.w.State.Run(id)
				at, was := earliest[id]
				switch {
				case run.Phase == ares.Pending && !was:
					earliest[id] = c.earliestStart(t, id)
				case run.Phase == ares.Pending:
				case was && run.Attempts[0].PlacedAt.After(at):
					t.Fatalf("%s started at %s, and would have started at %s without backfill", id, run.Attempts[0].PlacedAt, at)
				}
				if run.Phase == ares.Pending {
					break // the jobs behind it have no reservation
				}
			}
			for i, id := range c.order {
				if run, _ := c.w.State.Run(id); run.Phase == ares.Pending && i+1 < len(c.order) {
					if next, _ := c.w.State.Run(c.order[i+1]); next.Phase == ares.Running {
						behind++
					}
				}
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "come") {
				c.submit(t, true)
			}
			c.settle(t)
			look()
			if !c.next(t) {
				c.w.Now = c.w.Now.Add(time.Minute)
			}
		}
		c.settle(t)
		look()
		for c.next(t) {
			c.settle(t)
			look()
		}
	})
	if behind == 0 {
		t.Error("no job was backfilled")
	}
}
