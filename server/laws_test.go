package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/engine"
)

// TestJudgeReportsAPlantedViolation checks that no violation is reported for a valid decision. If a decision allocates a device
// twice, the report must name the violated law.
func TestJudgeReportsAPlantedViolation(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := engine.New()
	job := func(id ares.JobID) ares.Event {
		return ares.Event{Job: &ares.Job{Spec: ares.Spec{GPUs: 1}.WithDefaults(), ID: id, AcceptedAt: now, Revision: 1}}
	}
	s.Apply(ares.Batch{Revision: 1, Events: []ares.Event{
		{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}},
		{Node: &ares.Node{ID: "a", Devices: []ares.Device{{ID: "a0", Healthy: true}, {ID: "a1", Index: 1, Healthy: true}}}},
		{Session: &ares.Session{Node: "a"}},
		job("one"), job("two"),
	}})
	var log bytes.Buffer
	m := newMetrics(cache.NewView(time.Now))
	judge := m.checkLaws(slog.New(slog.NewTextHandler(&log, nil)))

	plan := engine.Decide(s, now)
	if len(plan.Place) != 2 {
		t.Fatalf("%d jobs are placed, want 2", len(plan.Place))
	}
	judge(s, &plan)
	if log.Len() > 0 {
		t.Fatalf("a good decision is reported: %s", &log)
	}

	plan.Place[1].Seats[0].Shares = plan.Place[0].Seats[0].Shares
	judge(s, &plan)
	if got := counterSum(t, m, "ares_law_violations_total"); got != 1 {
		t.Errorf("ares_law_violations_total is %v, want 1", got)
	}
	if text := log.String(); !strings.Contains(text, "law=devices") || !strings.Contains(text, "oversubscribed") {
		t.Errorf("the log says %q", text)
	}
}

// counterSum returns the sum of a counter over all its labels.
func counterSum(t *testing.T, m *serverMetrics, name string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := -1.0 // -1 if the counter does not exist
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		sum = 0
		for _, one := range f.GetMetric() {
			sum += one.GetCounter().GetValue()
		}
	}
	return sum
}
