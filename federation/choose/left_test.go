package choose_test

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/choose"
)

// TestLeft offers a job that one of two clusters gave back. That cluster must get no offer of the job until its time is over, and the
// explanation must say so.
func TestLeft(t *testing.T) {
	t.Parallel()
	c := newChooser(choose.Default(), cluster("one", "eu", "H100", 2, 1_000_000), cluster("two", "eu", "H100", 2, 9_000_000))
	back := job("j", 1, ares.Spec{GPUs: 8})
	submit(c, back)
	run := ares.NewRun(start)
	run.Leave("one", start)
	record := func(r *ares.Run, at time.Time) {
		c.Apply(ares.Batch{At: at, Events: []ares.Event{{Run: &ares.RunEvent{Job: back.ID, Run: *r}}}})
	}
	record(&run, start)
	offered := func(at time.Time) string {
		offers, _ := c.Decide(at)
		var names []string
		for i := range offers {
			names = append(names, offers[i].Clusters()...)
		}
		return strings.Join(names, " ")
	}
	if got := offered(start); got != "two" {
		t.Errorf("offered to %q", got)
	}
	v := c.Explain(back, &run, nil)
	if len(v) != 2 || v[1].Cluster != "one" || v[1].Best != nil || v[1].Blockers[0].Kind != choose.GaveBack || !strings.Contains(v[1].String(), "not offered to it again before "+start.Add(ares.LeftFor).UTC().Format(time.RFC3339)) {
		t.Errorf("explained as %s", v)
	}
	run.Leave("two", start.Add(time.Minute))
	record(&run, start.Add(time.Minute))
	if got := offered(start.Add(ares.LeftFor - time.Second)); got != "" {
		t.Errorf("offered to %q, and both gave it back", got)
	}
	if got := offered(start.Add(ares.LeftFor)); got != "one" {
		t.Errorf("after the time of one, it is offered to %q", got)
	}
	if got := offered(start.Add(ares.LeftFor + time.Minute)); got != "one two" {
		t.Errorf("after the time of both, it is offered to %q", got)
	}
}
