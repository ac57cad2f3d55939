package metrics

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// watched is a state, whose batches a Scheduler follows, and the registry of its metrics.
type watched struct {
	t        *testing.T
	state    *engine.State
	metrics  *Scheduler
	registry *prometheus.Registry
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, state: engine.New(), metrics: New(), registry: prometheus.NewRegistry()}
	if err := w.metrics.Register(w.registry, func() Snapshot { return Measure(w.state) }); err != nil {
		t.Fatal(err)
	}
	return w
}

// The method `apply` applies one batch to the state and to the metrics.
func (w *watched) apply(reset bool, events ...ares.Event) {
	b := ares.Batch{Revision: w.state.Revision() + 1, Reset: reset, Events: events}
	w.state.Apply(b)
	w.metrics.Follow(b, noon)
}

// The method `values` returns the values of all metrics whose names begin with a prefix. The key is the rest of the
// name, and the values of the labels. A histogram's value is its count.
func (w *watched) values(prefix string) map[string]string {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), prefix)
		if !ok {
			continue
		}
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			out[key] = fmt.Sprintf("%.3f", m.GetGauge().GetValue()+m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()))
		}
	}
	return out
}

// TestEveryMetricIsExportedAndDocumented checks the names that earlier schedulers used, and that docs/reference/metrics.md
// has exactly the metrics of this package.
func TestEveryMetricIsExportedAndDocumented(t *testing.T) {
	w := newWatched(t)
	w.registry.MustRegister(NewUtilization(func() Snapshot { return Measure(w.state) }))
	w.apply(true, slices.Concat(machine("n1", "r1", "H100"), []ares.Event{submitted("a")})...)
	w.metrics.ObservePlan(&ares.Plan{Refuse: make([]ares.Refusal, 1)}, nil, time.Millisecond)
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	for _, f := range families {
		exported = append(exported, f.GetName())
	}
	for _, name := range []string{
		"topology_scheduler_latency_seconds", "topology_domain_utilization_ratio", "topology_gpu_allocation_ratio", "topology_placement_decisions_total",
		"topology_scheduler_placement_duration_seconds", "topology_scheduler_recovery_duration_seconds", "topology_scheduler_domain_fragmentation_ratio",
		"gpu_scheduler_jobs_total", "gpu_scheduler_queue_size", "gpu_scheduler_gpu_utilization", "gpu_scheduler_scheduling_latency", "gpu_scheduler_preemptions_total",
	} {
		if !slices.Contains(exported, name) {
			t.Errorf("%s is not exported", name)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)`").FindAllSubmatch(page, -1) {
		if !strings.HasPrefix(string(row[1]), "ares_hub_") { // package server exports these
			documented = append(documented, string(row[1]))
		}
	}
	slices.Sort(documented)
	slices.Sort(exported)
	if !slices.Equal(documented, exported) {
		t.Errorf("the page documents %q,\nexported are      %q", documented, exported)
	}
}

func TestRegisterReportsNamesThatAreTaken(t *testing.T) {
	w := newWatched(t)
	if err := New().Register(w.registry, func() Snapshot { return Snapshot{} }); err == nil {
		t.Error("the metrics of a second scheduler were registered under the same names")
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	w := newWatched(t)
	w.metrics.ObserveDecision(time.Second)
	w.metrics.ObservePlan(&ares.Plan{
		Place: []ares.Placing{
			{Job: "a", PlacementScore: ares.PlacementScore{Level: ares.LevelNode}},
			{Job: "b", PlacementScore: ares.PlacementScore{Level: ares.LevelLeaf}},
			{Job: "c", PlacementScore: ares.PlacementScore{Level: ares.LevelLeaf}},
			{Job: "d"},
			{Job: "e"},
		},
		Refuse: make([]ares.Refusal, 3),
	}, []ares.JobID{"c"}, time.Second)
	w.metrics.ObservePlan(&ares.Plan{Refuse: make([]ares.Refusal, 2)}, nil, time.Second)
	want := map[string]string{
		"placement_decisions_total node placed":  "1.000",
		"placement_decisions_total leaf placed":  "1.000",
		"placement_decisions_total fleet placed": "2.000",
		"placement_decisions_total  dropped":     "1.000",
		"placement_decisions_total  refused":     "5.000",
		"scheduler_placement_duration_seconds":   "1.000",
		"scheduler_recovery_duration_seconds":    "0.000",
		"scheduler_latency_seconds":              "1.000",
	}
	if got := w.values("topology_"); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := w.values("gpu_scheduler_")["scheduling_latency"]; got != "1.000" {
		t.Errorf("%s decisions were counted under the name of gpu-scheduler", got)
	}
}
