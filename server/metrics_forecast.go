package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/control"
)

// foresight collects how good predictions are, when it is asked.
type foresight struct{ *control.Estimator }

var (
	forecastRuns    = prometheus.NewDesc("ares_forecast_runs_total", "Runs that were held against what was predicted of them.", nil, nil)
	forecastCovered = prometheus.NewDesc("ares_forecast_covered_total", "Runs that took no longer than their predicted p90: nine of ten, if all is well.", nil, nil)
	forecastDrifts  = prometheus.NewDesc("ares_forecast_drifts_total", "Times that alike runs became longer or shorter, as seen by this server since its start.", nil, nil)
)

// Describe is part of prometheus.Collector.
func (foresight) Describe(ch chan<- *prometheus.Desc) {
	ch <- forecastRuns
	ch <- forecastCovered
	ch <- forecastDrifts
}

// Collect is part of prometheus.Collector.
func (f foresight) Collect(ch chan<- prometheus.Metric) {
	told, covered, drifts := f.Accuracy()
	ch <- prometheus.MustNewConstMetric(forecastRuns, prometheus.CounterValue, float64(told))
	ch <- prometheus.MustNewConstMetric(forecastCovered, prometheus.CounterValue, float64(covered))
	ch <- prometheus.MustNewConstMetric(forecastDrifts, prometheus.CounterValue, float64(drifts))
}
