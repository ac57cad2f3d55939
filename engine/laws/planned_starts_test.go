package laws_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/laws"
)

// TestBrokenPromisesAreFound checks that a missed firm planned start is reported. In this test, only the time
// changes between the plans.
func TestBrokenPromisesAreFound(t *testing.T) {
	at := func(d time.Duration) []ares.PlannedStart {
		return []ares.PlannedStart{{Job: "j", Firm: true, At: epoch.Add(d), Latest: epoch.Add(d + time.Minute)}}
	}
	for _, c := range []struct {
		name   string
		then   []ares.PlannedStart
		moved  bool // an event that was reported to the check moved the start
		yields bool // the same plan preempts other jobs
		placed time.Duration
		broken bool
	}{
		{name: "as promised", then: at(time.Hour), placed: time.Hour},
		{name: "sooner", then: at(time.Minute), placed: 2 * time.Minute},
		{name: "within its slack", then: at(time.Hour + time.Minute), placed: time.Hour + time.Minute},
		{name: "promised anew, and later", then: at(2 * time.Hour), broken: true},
		{name: "something moved it", then: at(2 * time.Hour), moved: true, placed: 2 * time.Hour},
		{name: "others are preempted for one ahead", then: at(2 * time.Hour), yields: true, placed: 2 * time.Hour},
		{name: "starts later", placed: 2 * time.Hour, then: at(time.Hour), broken: true},
		{name: "another comes before it", then: []ares.PlannedStart{{Job: "k", Firm: true, At: epoch}}, placed: 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, k := testCluster(), laws.PlannedStartCheck{}
			if err := k.Observe(s, &ares.Plan{Now: epoch}, at(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if c.moved {
				k.Reset()
			}
			plan := &ares.Plan{Now: epoch.Add(time.Minute)}
			if c.yields {
				plan.Nominate = []ares.Nominating{{Job: "k"}}
			}
			err := k.Observe(s, plan, c.then)
			if err == nil && c.placed > 0 {
				err = k.Observe(s, &ares.Plan{Now: epoch.Add(c.placed), Place: []ares.Placing{{Job: "j"}}}, nil)
			}
			if (err != nil) != c.broken {
				t.Errorf("the keeper says %v", err)
			}
		})
	}
}
