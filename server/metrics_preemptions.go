package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
)

// preemptionMetrics counts the preemptions that this server has observed, and their cost.
type preemptionMetrics struct {
	view *cache.View

	mu    sync.Mutex
	known map[ares.JobID]int // preemptions counted for each live job
	count map[ares.PreemptionBasis]int
	lost  int64 // thousandths of GPU-seconds
}

var (
	yieldsTotal      = prometheus.NewDesc("ares_preemptions_total", "Jobs that were preempted, by basis of the preemption, as seen by this server since its start.", []string{"why"}, nil)
	yieldsLost       = prometheus.NewDesc("ares_preempted_gpu_seconds_lost_total", "GPU-seconds of unsaved work that preemptions lost, and of restarts after them, as seen by this server since its start.", nil, nil)
	yieldsNominating = prometheus.NewDesc("ares_nominations", "Waiting jobs with a nomination: seats are kept for them while their victims stop.", nil, nil)
)

func newPreemptionMetrics(view *cache.View) *preemptionMetrics {
	y := &preemptionMetrics{view: view, known: map[ares.JobID]int{}, count: map[ares.PreemptionBasis]int{}}
	view.Feed(y.observe)
	return y
}

// The method `observe` counts new preemptions. If a snapshot contains a job that is new to this
// server, the job's preemptions are not counted. They happened before this server started to watch.
func (y *preemptionMetrics) observe(b ares.Batch) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Run != nil && e.Run.Run.Preemptions > 0:
			was, known := y.known[e.Run.Job]
			y.known[e.Run.Job] = e.Run.Run.Preemptions
			if known || !b.Reset {
				y.add(&e.Run.Run, e.Run.Run.Preemptions-was)
			}
		case e.Gone.Kind == ares.KindJob:
			delete(y.known, ares.JobID(e.Gone.ID))
		}
	}
}

// This method adds the last n preemptions of a run to the counters.
func (y *preemptionMetrics) add(r *ares.Run, n int) {
	for i := len(r.Attempts) - 1; i >= 0 && n > 0; i-- {
		if g := r.Attempts[i].Preemption; g != nil {
			y.count[g.Why]++
			y.lost += g.Lost
			n--
		}
	}
}

// Describe is part of prometheus.Collector.
func (y *preemptionMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- yieldsTotal
	ch <- yieldsLost
	ch <- yieldsNominating
}

// Collect is part of prometheus.Collector.
func (y *preemptionMetrics) Collect(ch chan<- prometheus.Metric) {
	y.mu.Lock()
	for _, why := range []ares.PreemptionBasis{ares.PreemptByClass, ares.PreemptByQuota, ares.PreemptByOrder, ares.PreemptByMove} {
		ch <- prometheus.MustNewConstMetric(yieldsTotal, prometheus.CounterValue, float64(y.count[why]), string(why))
	}
	ch <- prometheus.MustNewConstMetric(yieldsLost, prometheus.CounterValue, float64(y.lost)/1000)
	y.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(yieldsNominating, prometheus.GaugeValue, float64(y.view.Nominations()))
}
