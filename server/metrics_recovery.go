package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
)

// recoveryMetrics measures how long jobs do not run after they lost a node. The time begins with the node's last renewal.
// A session ends one TTL after its last renewal, so the last renewal is the end of the session minus the TTL. If the node
// was revoked, the time begins with the revocation. The time ends when every rank of the job's next attempt is claimed,
// which makes the job running. Waiting for free devices is part of the time.
//
// Every server follows the losses, so that a new leader knows when they began. Only the leader counts a recovery, so that
// the sum over all servers has each recovery once. A loss that a server has not seen begin is not counted: the server was
// started later, or it had to read the whole state again.
type recoveryMetrics struct {
	leads     atomic.Bool
	durations prometheus.Histogram
	now       func() time.Time

	mu     sync.Mutex
	silent map[string]silence     // by node
	lost   map[ares.JobID]silence // jobs that have lost a node and do not run again yet
}

// The type `silence` describes when a node, or a node of a job, became silent.
type silence struct {
	ttl   time.Duration // of the node's session, 0 if the session was cut
	since time.Time     // zero while the node has a session, or if it is not known
}

// recoveryBuckets are narrow around the times that the documentation promises: 15 s with a lost_after of 12 s, and 27 s
// with the default.
var recoveryBuckets = []float64{1, 2, 5, 10, 11, 12, 13, 14, 15, 17.5, 20, 22.5, 24, 25, 26, 27, 28, 30, 35, 45, 60, 120, 300, 900, 3600, 14400}

func newRecoveryMetrics(view *cache.View, now func() time.Time) *recoveryMetrics {
	m := &recoveryMetrics{
		now: now, silent: map[string]silence{}, lost: map[ares.JobID]silence{},
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "topology_scheduler_recovery_duration_seconds",
			Help: "Time from the last renewal of a lost node until a job that it ran has all its ranks claimed on other nodes. Counted by the leader.", Buckets: recoveryBuckets,
		}),
	}
	view.Feed(m.follow)
	return m
}

// The method `follow` reads one batch of changes.
func (m *recoveryMetrics) follow(b ares.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if b.Reset {
		clear(m.silent)
		clear(m.lost)
	}
	for i := range b.Events { // first, because a revocation ends the session and marks the record in one revision
		if n := b.Events[i].Node; n != nil {
			m.silent[n.ID] = silence{ttl: silentFor(n), since: m.silent[n.ID].since}
		}
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Session != nil:
			m.silent[e.Session.Node] = silence{ttl: m.silent[e.Session.Node].ttl}
		case e.Gone.Kind == ares.KindSession:
			ttl := m.silent[e.Gone.ID].ttl
			m.silent[e.Gone.ID] = silence{ttl: ttl, since: now.Add(-ttl)}
		case e.Gone.Kind == ares.KindNode:
			delete(m.silent, e.Gone.ID)
		case e.Run != nil && !b.Reset:
			m.followRun(e.Run.Job, &e.Run.Run, now)
		case e.Gone.Kind == ares.KindJob:
			delete(m.lost, ares.JobID(e.Gone.ID))
		}
	}
}

// silentFor returns how long a node has been silent when its session ends.
func silentFor(n *ares.Node) time.Duration {
	if n.SessionCut {
		return 0
	}
	return max(n.SessionTTL, 0)
}

// followRun notes that a job has lost a node, and counts the job's recovery.
func (m *recoveryMetrics) followRun(id ares.JobID, r *ares.Run, now time.Time) {
	last := r.Last()
	switch {
	case last == nil:
	case r.Phase.Final():
		delete(m.lost, id)
	case r.Phase == ares.Running && !last.Ended():
		if was, ok := m.lost[id]; ok && m.leads.Load() {
			m.durations.Observe(now.Sub(was.since).Seconds())
		}
		delete(m.lost, id)
	case last.Ended():
		for i := range last.Seats {
			h := &last.Seats[i]
			since := m.silent[h.Node].since
			if h.State != ares.SeatVoided || since.IsZero() {
				continue
			}
			// The first loss counts if the job loses another node before it runs again.
			if was, ok := m.lost[id]; !ok || since.Before(was.since) {
				m.lost[id] = silence{since: since}
			}
		}
	}
}

// whileLeading counts recoveries until the returned function is called.
func (m *recoveryMetrics) whileLeading() (end func()) {
	m.leads.Store(true)
	return func() { m.leads.Store(false) }
}
