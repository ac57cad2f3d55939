package server

import (
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api"
	"github.com/ares-scheduler/ares/control"
)

// metrics are what /metrics tells. The gpu_scheduler_ names are those of the
// gpu-scheduler, so that its dashboards go on working; see topology for others.
type metrics struct {
	registry   *prometheus.Registry
	decisions  prometheus.Histogram
	decisions2 prometheus.Histogram
	claims     prometheus.Counter
	store      *prometheus.HistogramVec
	api        *prometheus.HistogramVec
	shed       *prometheus.CounterVec
	refused    *prometheus.CounterVec
	topology   *topologyMetrics
	violations *prometheus.CounterVec
}

// latencies span what is measured here: 50 µs to about 13 s.
var latencies = prometheus.ExponentialBuckets(50e-6, 2, 18)

func newMetrics(view *control.View) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ares_scheduling_latency_seconds", Help: "Time of one scheduling decision.", Buckets: latencies,
		}),
		decisions2: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpu_scheduler_scheduling_latency", Help: "Time of one scheduling decision, in seconds.", Buckets: latencies,
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
			Name: "ares_shed_total", Help: "Calls, streams and large bodies that were turned away because too many of their class were under way.",
		}, []string{"class"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ares_connections_refused_total", Help: "Connections that were closed because a door had as many as it may have.",
		}, []string{"door"}),
		topology: newTopologyMetrics(view),
		violations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ares_law_violations_total", Help: "Laws that a decision broke, while scheduler.check_laws is on. Each is a fault of Ares.",
		}, []string{"law"}),
	}
	m.registry.MustRegister(m.decisions, m.decisions2, m.claims, m.store, m.api, m.shed, m.refused, m.violations, m.topology, newFleet(view), newYields(view),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) decided(took time.Duration) {
	m.decisions.Observe(took.Seconds())
	m.decisions2.Observe(took.Seconds())
	m.topology.latency.Observe(took.Seconds())
}

func (m *metrics) stored(op string, took time.Duration, err error) {
	m.store.WithLabelValues(op, okLabel(err == nil)).Observe(took.Seconds())
}

func (m *metrics) called(method string, code ares.Code, took time.Duration) {
	if code == "" {
		code = "ok"
	}
	m.api.WithLabelValues(method, string(code)).Observe(took.Seconds())
}

func (m *metrics) shedding(class string) { m.shed.WithLabelValues(class).Inc() }

// bound limits a door's connections, and tells how many there are.
func (m *metrics) bound(door string, l net.Listener, limit int) net.Listener {
	b := &bounded{Listener: l, limit: int64(limit), refused: m.refused.WithLabelValues(door).Inc}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ares_connections", Help: "Open connections of a door.", ConstLabels: prometheus.Labels{"door": door},
	}, func() float64 { return float64(b.open.Load()) }))
	return b
}

// watchDoors tells what is under way at the doors.
func (m *metrics) watchDoors(d *api.Doors) { m.registry.MustRegister(underWay{d}) }

// underWay collects what is under way, when it is asked.
type underWay struct{ doors *api.Doors }

var (
	callsOpen    = prometheus.NewDesc("ares_under_way", "Calls, streams and large bodies under way, by class.", []string{"class"}, nil)
	callsWaiting = prometheus.NewDesc("ares_waiting", "Calls that wait for their turn, by class.", []string{"class"}, nil)
)

// Describe is part of prometheus.Collector.
func (underWay) Describe(ch chan<- *prometheus.Desc) {
	ch <- callsOpen
	ch <- callsWaiting
}

// Collect is part of prometheus.Collector.
func (u underWay) Collect(ch chan<- prometheus.Metric) {
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

// fleet collects what the view shows, when it is asked.
type fleet struct {
	view *control.View

	mu      sync.Mutex
	entered map[ares.Phase]int // jobs that came into a phase, as far as this server saw
	phase   map[ares.JobID]ares.Phase
	due     map[ares.JobID]*ares.Job // live ones with a deadline
	met     int                      // of those that ended
	missed  int

	deadlines, jobs, oldJobs, queue, oldQueue, gpus, preemptions, nodes, scores *prometheus.Desc
}

func newFleet(view *control.View) *fleet {
	f := &fleet{
		view: view, entered: map[ares.Phase]int{}, phase: map[ares.JobID]ares.Phase{}, due: map[ares.JobID]*ares.Job{},
		deadlines:   prometheus.NewDesc("ares_deadlines_total", "Jobs with a deadline that ended, by whether they met it, as seen by this server since its start.", []string{"met"}, nil),
		jobs:        prometheus.NewDesc("ares_jobs_total", "Jobs that came into a state, as seen by this server since its start.", []string{"state"}, nil),
		oldJobs:     prometheus.NewDesc("gpu_scheduler_jobs_total", "Jobs that came into a state, as seen by this server since its start.", []string{"state"}, nil),
		queue:       prometheus.NewDesc("ares_queue_depth", "Jobs that wait for a place.", nil, nil),
		oldQueue:    prometheus.NewDesc("gpu_scheduler_queue_size", "Jobs that wait for a place.", nil, nil),
		gpus:        prometheus.NewDesc("gpu_scheduler_gpu_utilization", "Part of a node's devices that is given to jobs, 0 to 1.", []string{"node"}, nil),
		preemptions: prometheus.NewDesc("gpu_scheduler_preemptions_total", "Jobs that gave way to others, as seen by this server since its start.", nil, nil),
		scores:      prometheus.NewDesc("ares_node_score", "How a node has done so far, 0 to 1000; 1000 when nothing speaks against it.", []string{"node"}, nil),
		nodes:       prometheus.NewDesc("ares_nodes", "Nodes by state.", []string{"state"}, nil),
	}
	view.Feed(f.count)
	return f
}

// count notes the phases jobs come into. It is fed by the view.
func (f *fleet) count(b ares.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Job != nil:
			f.enter(e.Job.ID, ares.Pending)
			if !e.Job.Deadline.IsZero() && !e.Job.IsArray() { // an array's elements count
				f.due[e.Job.ID] = e.Job
			}
		case e.Run != nil:
			f.enter(e.Run.Job, e.Run.Run.Phase)
			f.settle(&e.Run.Run, e.Run.Job)
		case e.Gone.Kind == ares.KindJob:
			delete(f.phase, ares.JobID(e.Gone.ID))
			delete(f.due, ares.JobID(e.Gone.ID))
		}
	}
}

// settle counts the deadline of a job that has ended, once.
func (f *fleet) settle(r *ares.Run, id ares.JobID) {
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

func (f *fleet) enter(id ares.JobID, p ares.Phase) {
	was, known := f.phase[id]
	if known && (was == p || p == ares.Pending && was != ares.Retrying && was != ares.Preempted && !was.Active()) {
		return // told before: a snapshot repeats what is known
	}
	f.phase[id] = p
	f.entered[p]++
}

// Describe is part of prometheus.Collector.
func (f *fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.deadlines, f.jobs, f.oldJobs, f.queue, f.oldQueue, f.gpus, f.preemptions, f.nodes, f.scores} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (f *fleet) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	for _, p := range ares.Phases() {
		n := float64(f.entered[p])
		ch <- prometheus.MustNewConstMetric(f.jobs, prometheus.CounterValue, n, string(p))
		ch <- prometheus.MustNewConstMetric(f.oldJobs, prometheus.CounterValue, n, string(p))
	}
	ch <- prometheus.MustNewConstMetric(f.deadlines, prometheus.CounterValue, float64(f.met), "true")
	ch <- prometheus.MustNewConstMetric(f.deadlines, prometheus.CounterValue, float64(f.missed), "false")
	ch <- prometheus.MustNewConstMetric(f.preemptions, prometheus.CounterValue, float64(f.entered[ares.Preempted]))
	f.mu.Unlock()
	depth := 0
	for p, n := range f.view.Phases() {
		if p.Waiting() {
			depth += n
		}
	}
	ch <- prometheus.MustNewConstMetric(f.queue, prometheus.GaugeValue, float64(depth))
	ch <- prometheus.MustNewConstMetric(f.oldQueue, prometheus.GaugeValue, float64(depth))
	states := map[ares.NodeState]int{}
	nodes, _ := f.view.Nodes()
	for _, n := range nodes {
		states[n.State(f.view.Now())]++
		ch <- prometheus.MustNewConstMetric(f.gpus, prometheus.GaugeValue, f.used(n), n.Node.ID)
		ch <- prometheus.MustNewConstMetric(f.scores, prometheus.GaugeValue, float64(n.HistoricalScore()), n.Node.ID)
	}
	for _, s := range []ares.NodeState{ares.Online, ares.Suspect, ares.Offline, ares.Cordoned} {
		ch <- prometheus.MustNewConstMetric(f.nodes, prometheus.GaugeValue, float64(states[s]), string(s))
	}
}

func (f *fleet) used(n *control.NodeEntry) float64 {
	if len(n.Node.Devices) == 0 {
		return 0
	}
	milli := 0
	entries, _, _ := f.view.SeatsOn(n.Node.ID)
	for _, e := range entries {
		for _, sh := range control.SharesOn(&e.Run, n.Node.ID) {
			milli += sh.Milli
		}
	}
	return float64(milli) / float64(1000*len(n.Node.Devices))
}
