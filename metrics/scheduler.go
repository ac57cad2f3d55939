package metrics

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
)

// Latencies are the histogram buckets for durations, from 50 µs to about 13 s.
var Latencies = prometheus.ExponentialBuckets(50e-6, 2, 18)

// Scheduler holds the metrics of one scheduler. It is safe for concurrent use.
type Scheduler struct {
	Recovery *Recovery

	jobs       *jobCounter
	latency    prometheus.Histogram
	oldLatency prometheus.Histogram
	placements prometheus.Histogram
	decisions  *prometheus.CounterVec
}

// New returns the metrics of a scheduler that has not decided anything yet.
func New() *Scheduler {
	return &Scheduler{
		Recovery: newRecovery(),
		jobs:     newJobCounter(),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "topology_scheduler_latency_seconds", Help: "Time of one scheduling decision.", Buckets: Latencies,
		}),
		oldLatency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpu_scheduler_scheduling_latency", Help: "Time of one scheduling decision, in seconds.", Buckets: Latencies,
		}),
		placements: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "topology_scheduler_placement_duration_seconds",
			Help: "Time of a decision that placed jobs, until its placements were committed.", Buckets: Latencies,
		}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "topology_placement_decisions_total",
			Help: "Jobs that were placed, by the narrowest level that holds all their members; those that had changed before the commit (dropped); " +
				"and kinds of jobs that could not be placed (refused), counted in every decision.",
		}, []string{"result", "level"}),
	}
}

// Register registers all metrics of the scheduler. At each scrape, the registry calls `measure`, which returns the result of
// Measure for the scheduler's state. The function `measure` may be called by several goroutines at once, so it locks the
// state for the time of Measure.
func (m *Scheduler) Register(r prometheus.Registerer, measure func() Snapshot) error {
	var failed error
	for _, c := range []prometheus.Collector{
		m.latency, m.oldLatency, m.placements, m.decisions, m.Recovery.durations, jobMetrics{m.jobs}, stateMetrics(measure),
	} {
		failed = errors.Join(failed, r.Register(c))
	}
	return failed
}

// Follow reads one batch of changes at the time `now`. The caller passes every batch that its engine.State applies, in the
// same order.
func (m *Scheduler) Follow(b ares.Batch, now time.Time) {
	m.jobs.follow(&b)
	m.Recovery.follow(&b, now)
}

// Entered returns how many jobs entered each phase, as seen by this process since its start.
func (m *Scheduler) Entered() map[ares.Phase]int { return m.jobs.counts() }

// ObserveDecision counts the time of one call of engine.Decide.
func (m *Scheduler) ObserveDecision(took time.Duration) {
	m.latency.Observe(took.Seconds())
	m.oldLatency.Observe(took.Seconds())
}

// ObservePlan counts one plan after its commit. The argument `dropped` lists the jobs whose placements were not committed,
// because the jobs had changed. The argument `took` is the time from the start of the decision to the end of the commit.
func (m *Scheduler) ObservePlan(plan *ares.Plan, dropped []ares.JobID, took time.Duration) {
	placed := 0
	for i := range plan.Place {
		p := &plan.Place[i]
		if slices.Contains(dropped, p.Job) {
			m.decisions.WithLabelValues("dropped", "").Inc()
			continue
		}
		placed++
		m.decisions.WithLabelValues("placed", cmp.Or(string(p.PlacementScore.Level), string(fleet.Level))).Inc()
	}
	if placed > 0 {
		m.placements.Observe(took.Seconds())
	}
	m.decisions.WithLabelValues("refused", "").Add(float64(len(plan.Refuse)))
}
