package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
)

// hubMetrics says how a hub's jobs are spread over the clusters, and how long they take to start there. The decisions of the hub are in
// ares_scheduling_latency_seconds.
type hubMetrics struct {
	starts *prometheus.HistogramVec

	mu   sync.Mutex
	live map[ares.JobID]*hubJob
}

type hubJob struct {
	job     *ares.Job
	cluster string // that owns it, "" if none does
	runs    bool
	started bool // counted in starts, or started before this server watched
	ended   bool
}

var (
	hubJobs = prometheus.NewDesc("ares_hub_jobs", "Live jobs of the hub, by the cluster that owns them and by whether they run. The cluster is empty while no cluster owns a job.", []string{"cluster", "state"}, nil)
	hubGPUs = prometheus.NewDesc("ares_hub_gpus", "GPUs that the running jobs of the hub use, by cluster.", []string{"cluster"}, nil)
)

func newHubMetrics(view *cache.View) *hubMetrics {
	h := &hubMetrics{
		live: map[ares.JobID]*hubJob{},
		starts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ares_hub_start_seconds", Buckets: latencies,
			Help: "Time from the submission of a job at the hub to its first start, by cluster, as seen by this server since its start. The start has the time of the cluster's clock.",
		}, []string{"cluster"}),
	}
	view.Feed(h.follow)
	return h
}

// The method `follow` reads one batch of changes. Jobs that a snapshot has were started before, so their starts are not counted.
func (h *hubMetrics) follow(b ares.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.Reset {
		clear(h.live)
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Job != nil && e.Job.ArrayOf == "":
			if known := h.live[e.Job.ID]; known != nil {
				known.job = e.Job
			} else {
				h.live[e.Job.ID] = &hubJob{job: e.Job}
			}
		case e.Run != nil:
			if j := h.live[e.Run.Job]; j != nil {
				h.change(j, &e.Run.Run, b.Reset)
			}
		case e.Gone.Kind == ares.KindJob:
			delete(h.live, ares.JobID(e.Gone.ID))
		}
	}
}

func (h *hubMetrics) change(j *hubJob, r *ares.Run, before bool) {
	j.cluster, j.runs, j.ended = r.Cluster, r.Phase == ares.Running, r.Phase.Final()
	if j.started {
		return
	}
	for i := range r.Transitions {
		if t := &r.Transitions[i]; t.Phase == ares.Running {
			j.started = true
			if !before {
				h.starts.WithLabelValues(r.Cluster).Observe(max(t.At.Sub(j.job.AcceptedAt), 0).Seconds())
			}
			return
		}
	}
}

// Describe implements prometheus.Collector.
func (h *hubMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- hubJobs
	ch <- hubGPUs
	h.starts.Describe(ch)
}

// Collect implements prometheus.Collector.
func (h *hubMetrics) Collect(ch chan<- prometheus.Metric) {
	type spread struct{ waiting, running, gpus int }
	clusters := map[string]*spread{"": {}}
	h.mu.Lock()
	for _, j := range h.live { // order-free: sums
		if j.ended {
			continue
		}
		s := clusters[j.cluster]
		if s == nil {
			s = &spread{}
			clusters[j.cluster] = s
		}
		if j.runs {
			s.running++
			s.gpus += j.job.GPUs * max(j.job.Members, 1)
		} else {
			s.waiting++
		}
	}
	h.mu.Unlock()
	for name, s := range clusters { // order-free: a set of metrics
		ch <- prometheus.MustNewConstMetric(hubJobs, prometheus.GaugeValue, float64(s.waiting), name, "waiting")
		if name != "" {
			ch <- prometheus.MustNewConstMetric(hubJobs, prometheus.GaugeValue, float64(s.running), name, "running")
			ch <- prometheus.MustNewConstMetric(hubGPUs, prometheus.GaugeValue, float64(s.gpus), name)
		}
	}
	h.starts.Collect(ch)
}
