package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/engine/topology"
)

// topologyMetrics is the metrics of the topology-aware scheduler, under its names, so
// that its dashboards go on working.
type topologyMetrics struct {
	view       *control.View
	latency    prometheus.Histogram
	placements prometheus.Histogram
	decisions  *prometheus.CounterVec

	utilization, allocation, fragmentation *prometheus.Desc
}

func newTopologyMetrics(view *control.View) *topologyMetrics {
	domain := []string{"level", "domain"}
	return &topologyMetrics{
		view: view,
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "topology_scheduler_latency_seconds", Help: "Time of one scheduling decision.", Buckets: latencies,
		}),
		placements: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "topology_scheduler_placement_duration_seconds",
			Help: "Time of a decision that placed jobs, until its placements were committed.", Buckets: latencies,
		}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "topology_placement_decisions_total",
			Help: "Jobs that were placed, by the narrowest level that holds all their members; those that had changed before it was committed (dropped); " +
				"and kinds of jobs that found no place (refused), in every decision anew.",
		}, []string{"result", "level"}),
		utilization: prometheus.NewDesc("topology_domain_utilization_ratio",
			"Part of the devices of a domain that is given to jobs, 0 to 1. Domains of one level and name are taken together.", domain, nil),
		allocation: prometheus.NewDesc("topology_gpu_allocation_ratio",
			"Part of the devices of a model that is given to jobs, 0 to 1.", []string{"model"}, nil),
		fragmentation: prometheus.NewDesc("topology_scheduler_domain_fragmentation_ratio",
			"Part of the free device capacity of a domain's online nodes that is on nodes which are not wholly free, 0 to 1.", domain, nil),
	}
}

// decided counts one turn of the loop.
func (m *topologyMetrics) decided(plan *ares.Plan, dropped []ares.JobID, took time.Duration) {
	placed := 0
	for i := range plan.Place {
		p := &plan.Place[i]
		if slices.Contains(dropped, p.Job) {
			m.decisions.WithLabelValues("dropped", "").Inc()
			continue
		}
		placed++
		m.decisions.WithLabelValues("placed", cmp.Or(string(p.Merit.Level), "fleet")).Inc()
	}
	if placed > 0 {
		m.placements.Observe(took.Seconds())
	}
	m.decisions.WithLabelValues("refused", "").Add(float64(len(plan.Refuse)))
}

// Describe is part of prometheus.Collector.
func (m *topologyMetrics) Describe(ch chan<- *prometheus.Desc) {
	m.latency.Describe(ch)
	m.placements.Describe(ch)
	m.decisions.Describe(ch)
	for _, d := range []*prometheus.Desc{m.utilization, m.allocation, m.fragmentation} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (m *topologyMetrics) Collect(ch chan<- prometheus.Metric) {
	m.latency.Collect(ch)
	m.placements.Collect(ch)
	m.decisions.Collect(ch)
	top := m.view.Topology()
	atlas := topology.NewLocator(&top)
	domains, models := map[domainKey]*taken{}, map[string]*taken{}
	nodes, _ := m.view.Nodes()
	for _, n := range nodes {
		of := m.taken(n, models)
		at := atlas.Locate(n.Node.ID, n.Node.Labels)
		for _, key := range []domainKey{
			{"fleet", "fleet"}, {ares.LevelRegion, at.Region}, {ares.LevelZone, at.Zone}, {ares.LevelSpine, at.Spine}, {ares.LevelLeaf, at.Leaf},
		} {
			if key.name == "" {
				continue
			}
			if domains[key] == nil {
				domains[key] = &taken{}
			}
			domains[key].add(&of)
		}
	}
	for key, t := range domains {
		ch <- prometheus.MustNewConstMetric(m.utilization, prometheus.GaugeValue, part(t.given, t.all), string(key.level), key.name)
		ch <- prometheus.MustNewConstMetric(m.fragmentation, prometheus.GaugeValue, part(t.free-t.whole, t.free), string(key.level), key.name)
	}
	for model, t := range models {
		ch <- prometheus.MustNewConstMetric(m.allocation, prometheus.GaugeValue, part(t.given, t.all), model)
	}
}

type domainKey struct {
	level ares.Level
	name  string
}

// taken is what of devices is given away, in thousandths of them.
type taken struct {
	all, given  int
	free, whole int // of online nodes; whole is on nodes where nothing is given
}

func (t *taken) add(o *taken) {
	t.all, t.given, t.free, t.whole = t.all+o.all, t.given+o.given, t.free+o.free, t.whole+o.whole
}

// taken counts a node's devices, and by model into models. A card that is cut
// into slices counts by these.
func (m *topologyMetrics) taken(n *control.NodeEntry, models map[string]*taken) taken {
	given := map[string]int{}
	entries, _, _ := m.view.SeatsOn(n.Node.ID)
	for _, e := range entries {
		for _, sh := range control.SharesOn(&e.Run, n.Node.ID) {
			given[sh.Device] += sh.Milli
		}
	}
	sliced := map[string]bool{}
	for i := range n.Node.Devices {
		sliced[n.Node.Devices[i].Parent] = true
	}
	online := n.State(m.view.Now()) == ares.Online
	var sum taken
	for i := range n.Node.Devices {
		d := &n.Node.Devices[i]
		if sliced[d.ID] {
			continue
		}
		one := taken{all: 1000, given: min(given[d.ID], 1000)}
		if online && d.Healthy {
			one.free = one.all - one.given
		}
		sum.add(&one)
		if models[d.Model] == nil {
			models[d.Model] = &taken{}
		}
		models[d.Model].add(&one)
	}
	if sum.given == 0 {
		sum.whole = sum.free
	}
	return sum
}

// part is how much a is of b, 0 when there is none.
func part(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
