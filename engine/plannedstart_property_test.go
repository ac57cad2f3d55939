package engine_test

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// TestPromisesAreKept: where jobs run as long as is foreseen, no node is lost and
// nobody goes before it, a job for which a place is kept starts no later than it
// was first promised, and its slack. Others start behind it meanwhile.
func TestPromisesAreKept(t *testing.T) {
	t.Parallel()
	kept, behind := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := newCrowd(t, config.QueueConfig{})
		cfg := config.Default()
		cfg.Backfill = config.BackfillConfig{First: rapid.IntRange(1, 8).Draw(t, "first"), SlackPercent: pick(t, "percent", 0, 10), SlackLeast: pick(t, "slack", 0, time.Minute)}
		c.become(cfg)
		c.queues = []string{""}
		promised := map[ares.JobID]ares.Promise{}
		look := func() {
			for i, p := range c.w.State.PlannedStarts() {
				if i > 0 {
					break // one before it may take another place than was foreseen
				}
				if _, was := promised[p.Job]; !was && !p.At.IsZero() {
					promised[p.Job] = p
				}
			}
			waits := false
			for _, id := range c.order {
				run, _ := c.w.State.Run(id)
				p, was := promised[id]
				switch {
				case run.Phase == ares.Pending:
					waits = true
				case was:
					kept++
					delete(promised, id)
					if at := run.Attempts[0].PlacedAt; at.After(p.Latest) {
						t.Fatalf("%s started at %s, and was promised %s, %s at the latest", id, at, p.At, p.Latest)
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
	if kept == 0 || behind == 0 {
		t.Errorf("%d promises were kept while %d jobs started behind: that says nothing", kept, behind)
	}
}
