package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine/config"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// watchedView returns a view whose batches go to a scheduling loop, and the metrics of both.
func watchedView() (*cache.View, *serverMetrics) {
	view := cache.NewView(func() time.Time { return noon })
	m := newMetrics(view)
	loop := scheduler.NewLoop(view, config.Default())
	loop.Now = view.Now
	m.watchLoop(loop)
	return view, m
}

// This function returns the values of a collector's metrics. The map's key is the metric's name with its labels.
func gathered(t *testing.T, c prometheus.Collector) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return valuesOf(t, registry, func(string) bool { return true })
}

// deviceUse returns the values of a server's metrics about topology and the use of devices.
func deviceUse(t *testing.T, m *serverMetrics) map[string]string {
	t.Helper()
	return valuesOf(t, m.registry, func(name string) bool {
		return strings.HasPrefix(name, "topology_") || name == "ares_gpu_allocation_ratio"
	})
}

func valuesOf(t *testing.T, registry *prometheus.Registry, wanted func(name string) bool) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range families {
		if !wanted(f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			out[strings.TrimPrefix(f.GetName(), "topology_")+" "+strings.Join(labels, " ")] = fmt.Sprintf("%.3f", value)
		}
	}
	return out
}

// This function returns two events. The first adds a node with four devices in the given rack,
// and the second adds the node's session.
func machine(id, rack, model string) []ares.Event {
	n := &ares.Node{ID: id, Labels: map[string]string{"rack": rack, "zone": "z"}}
	for i := range 4 {
		n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(id, "-", i), Index: i, Model: model, Healthy: true})
	}
	return []ares.Event{{Node: n}, {Session: &ares.Session{Node: id}}}
}

// This function returns the events of a job that uses the given devices of a node.
func holding(t *testing.T, id ares.JobID, node string, milli int, devices ...int) []ares.Event {
	t.Helper()
	seat := ares.Seat{Node: node}
	for _, d := range devices {
		seat.Shares = append(seat.Shares, ares.Share{Device: fmt.Sprint(node, "-", d), Milli: milli})
	}
	run := ares.NewRun(noon)
	if err := run.Place([]ares.Seat{seat}, 0, noon); err != nil {
		t.Fatal(err)
	}
	return []ares.Event{{Job: &ares.Job{ID: id, AcceptedAt: noon}}, {Run: &ares.RunEvent{Job: id, Run: run}}}
}

func TestTopologyMetricsTellWhatIsTaken(t *testing.T) {
	view, m := watchedView()
	if got := deviceUse(t, m); len(got) != 3 { // only the histograms
		t.Errorf("without nodes: %v", got)
	}
	ill := machine("n5", "r2", "A100")
	ill[0].Node.Devices[3].Healthy = false
	cordoned := append(machine("n6", "r2", "A100"), ares.Event{Cordon: &ares.Cordon{Node: "n6"}})
	view.Apply(ares.Batch{Revision: 1, Reset: true, Events: slices.Concat(
		machine("n1", "r1", "H100"), machine("n2", "r1", "H100"), machine("n3", "r1", "H100"), machine("n4", "r2", "A100"), ill, cordoned,
		holding(t, "whole", "n1", 1000, 0, 1, 2, 3), holding(t, "half", "n2", 500, 0), holding(t, "other", "n2", 300, 0), holding(t, "two", "n5", 1000, 0, 1),
	)})
	want := map[string]string{
		"scheduler_latency_seconds ":                       "0.000",
		"scheduler_placement_duration_seconds ":            "0.000",
		"scheduler_recovery_duration_seconds ":             "0.000",
		"domain_utilization_ratio fleet fleet":             "0.283", // 6.8 of 24
		"domain_utilization_ratio z zone":                  "0.283",
		"domain_utilization_ratio r1 leaf":                 "0.400", // 4.8 of 12
		"domain_utilization_ratio r2 leaf":                 "0.167", // 2 of 12
		"gpu_allocation_ratio H100":                        "0.400",
		"gpu_allocation_ratio A100":                        "0.167",
		"ares_gpu_allocation_ratio n1":                     "1.000",
		"ares_gpu_allocation_ratio n2":                     "0.200", // 0.8 of 4
		"ares_gpu_allocation_ratio n3":                     "0.000",
		"ares_gpu_allocation_ratio n4":                     "0.000",
		"ares_gpu_allocation_ratio n5":                     "0.500",
		"ares_gpu_allocation_ratio n6":                     "0.000",
		"scheduler_domain_fragmentation_ratio fleet fleet": "0.344", // 3.2 and 1 of 12.2: n3 and n4 are completely free, n6 is cordoned
		"scheduler_domain_fragmentation_ratio z zone":      "0.344",
		"scheduler_domain_fragmentation_ratio r1 leaf":     "0.444", // 3.2 of 7.2
		"scheduler_domain_fragmentation_ratio r2 leaf":     "0.200", // 1 of 5
	}
	if got := deviceUse(t, m); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// The declared topology takes precedence over the labels of a node.
	view.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Topology: &ares.Topology{Domains: []ares.Domain{{Name: "away", Level: ares.LevelLeaf, Nodes: []string{"n1"}}}}}}})
	if got := deviceUse(t, m); got["domain_utilization_ratio away leaf"] != "1.000" || got["domain_utilization_ratio r1 leaf"] != "0.100" {
		t.Errorf("after the topology was applied: %v", got)
	}
	// After this batch, all devices are free again.
	view.Apply(ares.Batch{Revision: 3, Reset: true, Events: machine("n1", "r1", "H100")})
	if got := deviceUse(t, m); got["gpu_allocation_ratio H100"] != "0.000" || got["domain_utilization_ratio r1 leaf"] != "0.000" || got["gpu_allocation_ratio A100"] != "" {
		t.Errorf("with one free node: %v", got)
	}
}

// A node without a session has no value, although its jobs still have its devices until another node gets them.
func TestAllocationOfALostNode(t *testing.T) {
	view, m := watchedView()
	view.Apply(ares.Batch{Revision: 1, Reset: true, Events: slices.Concat(
		machine("n1", "r1", "H100"), machine("n2", "r1", "H100"), holding(t, "whole", "n1", 1000, 0, 1, 2, 3),
	)})
	if got := deviceUse(t, m); got["ares_gpu_allocation_ratio n1"] != "1.000" || got["gpu_allocation_ratio H100"] != "0.500" {
		t.Errorf("while the node is online: %v", got)
	}
	view.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindSession, ID: "n1"}}}})
	got := deviceUse(t, m)
	if value, shown := got["ares_gpu_allocation_ratio n1"]; shown || got["gpu_allocation_ratio H100"] != "0.000" || got["domain_utilization_ratio r1 leaf"] != "0.000" {
		t.Errorf("after its session ended: n1 %q, all %v", value, got)
	}
}
