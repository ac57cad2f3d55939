package engine_test

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/enginetest"
	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// TestPlannedStartsAreMet checks that a job with a backfill reservation starts no later than its first planned
// start plus slack. In the test, runtimes are as predicted and no node is lost. Only the first reservation of
// each cycle is checked. The scheduler backfills other jobs while the reserved job waits.
func TestPlannedStartsAreMet(t *testing.T) {
	t.Parallel()
	met, behind := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := newOverloadedCluster(t, config.QueueConfig{})
		cfg := enginetest.AgedConfig()
		cfg.Backfill = config.BackfillConfig{First: rapid.IntRange(1, 8).Draw(t, "first"), SlackPercent: pick(t, "percent", 0, 10), SlackLeast: pick(t, "slack", 0, time.Minute)}
		c.reconfigure(cfg)
		c.queues = []string{""}
		planned := map[ares.JobID]ares.PlannedStart{}
		look := func() {
			for i, p := range c.w.State.PlannedStarts() {
				if i > 0 {
					break // a job ahead may be placed on other nodes than planned
				}
				if _, was := planned[p.Job]; !was && !p.At.IsZero() {
					planned[p.Job] = p
				}
			}
			waits := false
			for _, id := range c.order {
				run, _ := c.w.State.Run(id)
				p, was := planned[id]
				switch {
				case run.Phase == ares.Pending:
					waits = true
				case was:
					met++
					delete(planned, id)
					if at := run.Attempts[0].PlacedAt; at.After(p.Latest) {
						t.Fatalf("%s started at %s, planned start %s, latest %s", id, at, p.At, p.Latest)
					}
				case waits && run.Phase == ares.Running:
					behind++
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
		for c.settle(t); c.next(t); c.settle(t) {
			look()
		}
	})
	if met == 0 || behind == 0 {
		t.Errorf("%d planned starts were met and %d jobs backfilled: the test needs some of both", met, behind)
	}
}
