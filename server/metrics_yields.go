package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control"
)

// yields collects who gave way, and what that cost, as far as this server saw it.
type yields struct {
	view *control.View

	mu    sync.Mutex
	known map[ares.JobID]int // how often a job had given way, while it is live
	count map[ares.PreemptionBasis]int
	lost  int64 // thousandths of GPU-seconds
}

var (
	yieldsTotal      = prometheus.NewDesc("ares_preemptions_total", "Jobs that gave way to others, by what right, as seen by this server since its start.", []string{"why"}, nil)
	yieldsLost       = prometheus.NewDesc("ares_preempted_gpu_seconds_lost_total", "GPU-seconds of work that was not saved when jobs gave way, and of their restarts, as seen by this server since its start.", nil, nil)
	yieldsNominating = prometheus.NewDesc("ares_nominations", "Jobs that seats are kept for while others give way.", nil, nil)
)

func newYields(view *control.View) *yields {
	y := &yields{view: view, known: map[ares.JobID]int{}, count: map[ares.PreemptionBasis]int{}}
	view.Feed(y.saw)
	return y
}

// saw notes who gave way. What a snapshot shows of a job that was not known
// happened before this server looked.
func (y *yields) saw(b ares.Batch) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Run != nil && e.Run.Run.Yields > 0:
			was, known := y.known[e.Run.Job]
			y.known[e.Run.Job] = e.Run.Run.Yields
			if known || !b.Reset {
				y.add(&e.Run.Run, e.Run.Run.Yields-was)
			}
		case e.Gone.Kind == ares.KindJob:
			delete(y.known, ares.JobID(e.Gone.ID))
		}
	}
}

// add counts the last n attempts that gave way.
func (y *yields) add(r *ares.Run, n int) {
	for i := len(r.Attempts) - 1; i >= 0 && n > 0; i-- {
		if g := r.Attempts[i].Yield; g != nil {
			y.count[g.Why]++
			y.lost += g.Lost
			n--
		}
	}
}

// Describe is part of prometheus.Collector.
func (y *yields) Describe(ch chan<- *prometheus.Desc) {
	ch <- yieldsTotal
	ch <- yieldsLost
	ch <- yieldsNominating
}

// Collect is part of prometheus.Collector.
func (y *yields) Collect(ch chan<- prometheus.Metric) {
	y.mu.Lock()
	for _, why := range []ares.PreemptionBasis{ares.PreemptByClass, ares.PreemptByQuota, ares.PreemptByOrder, ares.PreemptByMove} {
		ch <- prometheus.MustNewConstMetric(yieldsTotal, prometheus.CounterValue, float64(y.count[why]), string(why))
	}
	ch <- prometheus.MustNewConstMetric(yieldsLost, prometheus.CounterValue, float64(y.lost)/1000)
	y.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(yieldsNominating, prometheus.GaugeValue, float64(y.view.Nominations()))
}
