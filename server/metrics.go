package server

import (
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/metrics"
)

// serverMetrics contains the metrics that the path /metrics serves. The metrics of earlier schedulers, topology_* and
// gpu_scheduler_*, are in the field scheduler.
type serverMetrics struct {
	registry   *prometheus.Registry
	scheduler  *metrics.Scheduler
	decisions  prometheus.Histogram
	claims     prometheus.Counter
	store      *prometheus.HistogramVec
	api        *prometheus.HistogramVec
	shed       *prometheus.CounterVec
	refused    *prometheus.CounterVec
	violations *prometheus.CounterVec
}

// `latencies` are the histogram buckets for durations, from 50 µs to about 13 s.
var latencies = metrics.Latencies

// newMetrics returns the metrics of a server with the given view. The metrics of the scheduling loop are registered when
// the loop exists, see watchLoop.
func newMetrics(view *cache.View) *serverMetrics {
	m := &serverMetrics{
		registry:  prometheus.NewRegistry(),
		scheduler: metrics.New(),
		decisions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ares_scheduling_latency_seconds", Help: "Time of one scheduling decision.", Buckets: latencies,
		}),
		claims: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ares_lease_acquisitions_total", Help: "Seats claimed by agents through this server.",
		}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ares_store_seconds", Help: "Time of one operation of the store.", Buckets: latencies,
		}, []string{"op", "ok"}),
		api: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ares_api_seconds", Help: "Time of one call of the API.", Buckets: latencies,
		}, []string{"method", "code"}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ares_shed_total", Help: "Calls, streams and large bodies that were rejected because too many of their class were in flight.",
		}, []string{"class"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ares_connections_refused_total", Help: "Connections that were closed because their listener or their address had reached its limit.",
		}, []string{"door"}),
		violations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ares_law_violations_total", Help: "Violations of the engine's laws by decisions, while scheduler.check_laws is on. Each is a bug of Ares.",
		}, []string{"law"}),
	}
	view.Feed(func(b ares.Batch) { m.scheduler.Follow(b, view.Now()) })
	m.registry.MustRegister(m.decisions, m.claims, m.store, m.api, m.shed, m.refused, m.violations, newClusterMetrics(view, m.scheduler), newPreemptionMetrics(view),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *serverMetrics) decided(took time.Duration) {
	m.decisions.Observe(took.Seconds())
	m.scheduler.ObserveDecision(took)
}

// watchLoop exports the metrics of the scheduling loop. They are read from the state of the engine that decides.
func (m *serverMetrics) watchLoop(l *scheduler.Loop) {
	err := m.scheduler.Register(m.registry, func() (out metrics.Snapshot) {
		l.Inspect(func(s *engine.State) { out = metrics.Measure(s) })
		return out
	})
	if err != nil {
		panic(err) // two metrics have the same name, as for MustRegister
	}
}

func (m *serverMetrics) stored(op string, took time.Duration, err error) {
	m.store.WithLabelValues(op, okLabel(err == nil)).Observe(took.Seconds())
}

func (m *serverMetrics) observeCall(method string, code ares.Code, took time.Duration) {
	if code == "" {
		code = "ok"
	}
	m.api.WithLabelValues(method, string(code)).Observe(took.Seconds())
}

func (m *serverMetrics) countShed(class string) { m.shed.WithLabelValues(class).Inc() }

// limitConnections limits a listener's connections, and exports the number of open ones as a metric.
func (m *serverMetrics) limitConnections(door string, l net.Listener, limit, perAddress int) *connections {
	b := newConnections(l, limit, perAddress, m.refused.WithLabelValues(door).Inc)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ares_connections", Help: "Open connections of a listener.", ConstLabels: prometheus.Labels{"door": door},
	}, func() float64 { return float64(b.count()) }))
	return b
}

// watchDoors exports a metric with the number of API calls in flight.
func (m *serverMetrics) watchDoors(d *api.Server) { m.registry.MustRegister(inFlightMetrics{d}) }

// At each scrape, inFlightMetrics collects the number of API calls in flight.
type inFlightMetrics struct{ doors *api.Server }

var (
	callsOpen    = prometheus.NewDesc("ares_under_way", "Calls, streams and large bodies in flight, by class.", []string{"class"}, nil)
	callsWaiting = prometheus.NewDesc("ares_waiting", "Calls that wait for a slot, by class.", []string{"class"}, nil)
)

// Describe implements prometheus.Collector.
func (inFlightMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- callsOpen
	ch <- callsWaiting
}

// Collect implements prometheus.Collector.
func (u inFlightMetrics) Collect(ch chan<- prometheus.Metric) {
	u.doors.UnderWay(func(class string, open, waiting int) {
		ch <- prometheus.MustNewConstMetric(callsOpen, prometheus.GaugeValue, float64(open), class)
		ch <- prometheus.MustNewConstMetric(callsWaiting, prometheus.GaugeValue, float64(waiting), class)
	})
}

func okLabel(ok bool) string {
	if ok {
		return "true"
	}
	return "false"
}

// At each scrape, clusterMetrics collects metrics from the view. The view is the server's copy of the stored
// state.
type clusterMetrics struct {
	view      *cache.View
	scheduler *metrics.Scheduler

	mu     sync.Mutex
	due    map[ares.JobID]*ares.Job // live jobs with a deadline
	met    int                      // ended jobs that met their deadline
	missed int

	deadlines, jobs, queue, nodes, scores *prometheus.Desc
}

func newClusterMetrics(view *cache.View, scheduler *metrics.Scheduler) *clusterMetrics {
	f := &clusterMetrics{
		view: view, scheduler: scheduler, due: map[ares.JobID]*ares.Job{},
		deadlines: prometheus.NewDesc("ares_deadlines_total", "Jobs with a deadline that ended, by whether they met it, as seen by this server since its start.", []string{"met"}, nil),
		jobs:      prometheus.NewDesc("ares_jobs_total", "Jobs that entered a state, as seen by this server since its start.", []string{"state"}, nil),
		queue:     prometheus.NewDesc("ares_queue_depth", "Jobs that wait for an allocation.", nil, nil),
		scores:    prometheus.NewDesc("ares_node_score", "Reliability and speed score of a node, 0 to 1000; 1000 without failures or slow runs.", []string{"node"}, nil),
		nodes:     prometheus.NewDesc("ares_nodes", "Nodes by state.", []string{"state"}, nil),
	}
	view.Feed(f.count)
	return f
}

// The method `count` counts deadlines. It is called for each batch of changes in the view.
func (f *clusterMetrics) count(b ares.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Job != nil:
			if !e.Job.Deadline.IsZero() && !e.Job.IsArray() { // an array's elements count instead of the array
				f.due[e.Job.ID] = e.Job
			}
		case e.Run != nil:
			f.countDeadline(&e.Run.Run, e.Run.Job)
		case e.Gone.Kind == ares.KindJob:
			delete(f.due, ares.JobID(e.Gone.ID))
		}
	}
}

// countDeadline counts whether an ended job met its deadline. Each job is counted once.
func (f *clusterMetrics) countDeadline(r *ares.Run, id ares.JobID) {
	j := f.due[id]
	if j == nil || !r.Phase.Final() {
		return
	}
	delete(f.due, id)
	switch met, asked := r.MetDeadline(j); {
	case met:
		f.met++
	case asked:
		f.missed++
	}
}

// Describe is part of prometheus.Collector.
func (f *clusterMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.deadlines, f.jobs, f.queue, f.nodes, f.scores} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (f *clusterMetrics) Collect(ch chan<- prometheus.Metric) {
	entered := f.scheduler.Entered()
	for _, p := range ares.Phases() {
		ch <- prometheus.MustNewConstMetric(f.jobs, prometheus.CounterValue, float64(entered[p]), string(p))
	}
	f.mu.Lock()
	ch <- prometheus.MustNewConstMetric(f.deadlines, prometheus.CounterValue, float64(f.met), "true")
	ch <- prometheus.MustNewConstMetric(f.deadlines, prometheus.CounterValue, float64(f.missed), "false")
	f.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(f.queue, prometheus.GaugeValue, float64(f.view.Waiting()))
	states := map[ares.NodeState]int{}
	nodes, _ := f.view.Nodes()
	for _, n := range nodes {
		states[n.State(f.view.Now())]++
		ch <- prometheus.MustNewConstMetric(f.scores, prometheus.GaugeValue, float64(n.HistoricalScore()), n.Node.ID)
	}
	for _, s := range []ares.NodeState{ares.Online, ares.Suspect, ares.Offline, ares.Cordoned} {
		ch <- prometheus.MustNewConstMetric(f.nodes, prometheus.GaugeValue, float64(states[s]), string(s))
	}
}
