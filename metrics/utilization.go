package metrics

import "github.com/prometheus/client_golang/prometheus"

// utilizationMetrics collects the utilization of nodes at each scrape.
type utilizationMetrics func() Snapshot

var nodeUtilization = prometheus.NewDesc("gpu_scheduler_gpu_utilization",
	"Part of a node's GPUs that is allocated to pods, 0 to 1. It is not the load of the GPUs, which the scheduler does not measure.", []string{"node"}, nil)

// NewUtilization returns a collector of gpu_scheduler_gpu_utilization, whose value is the allocated part of each node's
// devices. The dashboards of gpu-scheduler need the name, and a scheduler knows no other utilization. The server does not
// register the collector: its agents run on the nodes, so users of a server would take the value for a measured load.
func NewUtilization(measure func() Snapshot) prometheus.Collector { return utilizationMetrics(measure) }

// Describe is part of prometheus.Collector.
func (utilizationMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- nodeUtilization }

// Collect is part of prometheus.Collector.
func (measure utilizationMetrics) Collect(ch chan<- prometheus.Metric) {
	for node, c := range measure().Nodes { // order-free: the registry sorts
		ch <- prometheus.MustNewConstMetric(nodeUtilization, prometheus.GaugeValue, c.Allocated(), node)
	}
}
