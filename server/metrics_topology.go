package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/engine/topology"
)

// topologyMetrics exports metrics under the names that the earlier topology-aware scheduler used. The dashboards of
// that scheduler therefore keep working.
type topologyMetrics struct {
	view       *cache.View
	latency    prometheus.Histogram
	placements prometheus.Histogram
	decisions  *prometheus.CounterVec

	utilization, allocation, node, fragmentation *prometheus.Desc
}

func newTopologyMetrics(view *cache.View) *topologyMetrics {
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
			Help: "Jobs that were placed, by the narrowest level that holds all their members; those that had changed before the commit (dropped); " +
				"and kinds of jobs that could not be placed (refused), counted in every decision.",
		}, []string{"result", "level"}),
		utilization: prometheus.NewDesc("topology_domain_utilization_ratio",
			"Part of the devices of a domain that is allocated to jobs, 0 to 1, without nodes that have no session. Domains of the same level and name are added up.", domain, nil),
		allocation: prometheus.NewDesc("topology_gpu_allocation_ratio",
			"Part of the devices of a model that is allocated to jobs, 0 to 1, without nodes that have no session.", []string{"model"}, nil),
		node: prometheus.NewDesc("ares_gpu_allocation_ratio",
			"Part of a node's devices that is allocated to jobs, 0 to 1. Nodes without a session have no value.", []string{"node"}, nil),
		fragmentation: prometheus.NewDesc("topology_scheduler_domain_fragmentation_ratio",
			"Part of the free device capacity of a domain's online nodes that is on partly used nodes, 0 to 1.", domain, nil),
	}
}

// This method counts one decision of the scheduling loop.
func (m *topologyMetrics) decided(plan *ares.Plan, dropped []ares.JobID, took time.Duration) {
	placed := 0
	for i := range plan.Place {
		p := &plan.Place[i]
		if slices.Contains(dropped, p.Job) {
			m.decisions.WithLabelValues("dropped", "").Inc()
			continue
		}
		placed++
		m.decisions.WithLabelValues("placed", cmp.Or(string(p.PlacementScore.Level), "fleet")).Inc()
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
	for _, d := range []*prometheus.Desc{m.utilization, m.allocation, m.node, m.fragmentation} {
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
	domains, models := map[domainKey]*usedCapacity{}, map[string]*usedCapacity{}
	nodes, _ := m.view.Nodes()
	for _, n := range nodes {
		if n.Session == nil {
			continue // nobody knows what its devices do, and nothing can be placed there
		}
		of := m.taken(n, models)
		if len(n.Node.Devices) > 0 {
			ch <- prometheus.MustNewConstMetric(m.node, prometheus.GaugeValue, ratio(of.given, of.all), n.Node.ID)
		}
		at := atlas.Locate(n.Node.ID, n.Node.Labels)
		for _, key := range []domainKey{
			{"fleet", "fleet"}, {ares.LevelRegion, at.Region}, {ares.LevelZone, at.Zone}, {ares.LevelSpine, at.Spine}, {ares.LevelLeaf, at.Leaf},
		} {
			if key.name == "" {
				continue
			}
			if domains[key] == nil {
				domains[key] = &usedCapacity{}
			}
			domains[key].add(&of)
		}
	}
	for key, t := range domains {
		ch <- prometheus.MustNewConstMetric(m.utilization, prometheus.GaugeValue, ratio(t.given, t.all), string(key.level), key.name)
		ch <- prometheus.MustNewConstMetric(m.fragmentation, prometheus.GaugeValue, ratio(t.free-t.whole, t.free), string(key.level), key.name)
	}
	for model, t := range models {
		ch <- prometheus.MustNewConstMetric(m.allocation, prometheus.GaugeValue, ratio(t.given, t.all), model)
	}
}

type domainKey struct {
	level ares.Level
	name  string
}

// usedCapacity holds the total and the allocated capacity of several devices, in thousandths of a device.
type usedCapacity struct {
	all, given  int
	free, whole int // free capacity of online nodes; whole is the part on nodes without any allocation
}

func (t *usedCapacity) add(o *usedCapacity) {
	t.all, t.given, t.free, t.whole = t.all+o.all, t.given+o.given, t.free+o.free, t.whole+o.whole
}

// This method returns the total and the allocated capacity of a node's devices. It also adds both values to the totals
// of each GPU model. If a card has MIG slices, its slices are counted instead of the card.
func (m *topologyMetrics) taken(n *cache.NodeEntry, models map[string]*usedCapacity) usedCapacity {
	given := map[string]int{}
	entries, _, _ := m.view.SeatsOn(n.Node.ID)
	for _, e := range entries {
		for _, sh := range cache.SharesOn(&e.Run, n.Node.ID) {
			given[sh.Device] += sh.Milli
		}
	}
	sliced := map[string]bool{}
	for i := range n.Node.Devices {
		sliced[n.Node.Devices[i].Parent] = true
	}
	online := n.State(m.view.Now()) == ares.Online
	var sum usedCapacity
	for i := range n.Node.Devices {
		d := &n.Node.Devices[i]
		if sliced[d.ID] {
			continue
		}
		one := usedCapacity{all: 1000, given: min(given[d.ID], 1000)}
		if online && d.Healthy {
			one.free = one.all - one.given
		}
		sum.add(&one)
		if models[d.Model] == nil {
			models[d.Model] = &usedCapacity{}
		}
		models[d.Model].add(&one)
	}
	if sum.given == 0 {
		sum.whole = sum.free
	}
	return sum
}

// The function `ratio` returns a/b, or 0 if `b` is 0.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
