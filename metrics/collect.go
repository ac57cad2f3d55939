package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
)

// jobMetrics collects the counts of jobs at each scrape.
type jobMetrics struct{ *jobCounter }

var (
	jobsTotal        = prometheus.NewDesc("gpu_scheduler_jobs_total", "Jobs that entered a state, as seen by this process since its start.", []string{"state"}, nil)
	preemptionsTotal = prometheus.NewDesc("gpu_scheduler_preemptions_total", "Jobs that were preempted, as seen by this process since its start.", nil, nil)
)

// Describe is part of prometheus.Collector.
func (jobMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsTotal
	ch <- preemptionsTotal
}

// Collect is part of prometheus.Collector.
func (m jobMetrics) Collect(ch chan<- prometheus.Metric) {
	entered := m.counts()
	for _, p := range ares.Phases() {
		ch <- prometheus.MustNewConstMetric(jobsTotal, prometheus.CounterValue, float64(entered[p]), string(p))
	}
	ch <- prometheus.MustNewConstMetric(preemptionsTotal, prometheus.CounterValue, float64(entered[ares.Preempted]))
}

// stateMetrics collects the numbers of a state at each scrape.
type stateMetrics func() Snapshot

var (
	queueSize = prometheus.NewDesc("gpu_scheduler_queue_size", "Jobs that wait for an allocation.", nil, nil)

	domainUtilization = prometheus.NewDesc("topology_domain_utilization_ratio",
		"Part of the devices of a domain that is allocated to jobs, 0 to 1, without nodes that have no session. Domains of the same level and name are added up.", []string{"level", "domain"}, nil)
	domainFragmentation = prometheus.NewDesc("topology_scheduler_domain_fragmentation_ratio",
		"Part of the free device capacity of a domain's online nodes that is on partly used nodes, 0 to 1.", []string{"level", "domain"}, nil)
	modelAllocation = prometheus.NewDesc("topology_gpu_allocation_ratio",
		"Part of the devices of a model that is allocated to jobs, 0 to 1, without nodes that have no session.", []string{"model"}, nil)
	nodeAllocation = prometheus.NewDesc("ares_gpu_allocation_ratio",
		"Part of a node's devices that is allocated to jobs, 0 to 1. Nodes without a session have no value.", []string{"node"}, nil)
)

// Describe is part of prometheus.Collector.
func (stateMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueSize, domainUtilization, domainFragmentation, modelAllocation, nodeAllocation} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (measure stateMetrics) Collect(ch chan<- prometheus.Metric) {
	s := measure()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(queueSize, float64(s.Waiting))
	for d, c := range s.Domains { // order-free: the registry sorts
		gauge(domainUtilization, c.Allocated(), string(d.Level), d.Name)
		gauge(domainFragmentation, c.Fragmented(), string(d.Level), d.Name)
	}
	for model, c := range s.Models { // order-free: as above
		gauge(modelAllocation, c.Allocated(), model)
	}
	for node, c := range s.Nodes { // order-free: as above
		gauge(nodeAllocation, c.Allocated(), node)
	}
}
