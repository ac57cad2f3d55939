package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/control/estimate"
)

// At each scrape, forecastMetrics collects the accuracy of predictions.
type forecastMetrics struct{ *estimate.Estimator }

var (
	forecastRuns    = prometheus.NewDesc("ares_forecast_runs_total", "Runs that were compared with their predictions.", nil, nil)
	forecastCovered = prometheus.NewDesc("ares_forecast_covered_total", "Runs that took no longer than their predicted p90; about 90 % of the compared runs if predictions are good.", nil, nil)
	forecastDrifts  = prometheus.NewDesc("ares_forecast_drifts_total", "Detected changes in the runtime of similar runs, as seen by this server since its start.", nil, nil)
)

// Describe is part of prometheus.Collector.
func (forecastMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- forecastRuns
	ch <- forecastCovered
	ch <- forecastDrifts
}

// Collect is part of prometheus.Collector.
func (f forecastMetrics) Collect(ch chan<- prometheus.Metric) {
	told, covered, drifts := f.Accuracy()
	ch <- prometheus.MustNewConstMetric(forecastRuns, prometheus.CounterValue, float64(told))
	ch <- prometheus.MustNewConstMetric(forecastCovered, prometheus.CounterValue, float64(covered))
	ch <- prometheus.MustNewConstMetric(forecastDrifts, prometheus.CounterValue, float64(drifts))
}
