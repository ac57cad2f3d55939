package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
)

// Recovery measures how long jobs do not run after they lost a node. The time begins with the node's last renewal. A
// session ends one TTL after its last renewal, so the last renewal is the end of the session minus the TTL. If the node was
// revoked, or its session has no TTL, the time begins with the end of the session. The time ends when every rank of the
// job's next attempt has its node again, which makes the job running. Waiting for free devices is part of the time.
//
// Every replica of a scheduler follows the losses, so that a new leader knows when they began. Only the leader counts a
// recovery, so that the sum over all replicas has each recovery once. A loss that a replica has not seen begin is not
// counted: the replica was started later, or it had to read the whole state again.
//
// A Recovery is safe for concurrent use.
type Recovery struct {
	durations prometheus.Histogram

	mu    sync.Mutex // guards the fields below
	leads bool
	nodes map[string]nodeSession       // by the node's ID
	lost  map[ares.JobID]lossBeginning // jobs that have lost a node and do not run again yet
}

// nodeSession says how long a node's session lasts without a renewal, and when the node became silent.
type nodeSession struct {
	ttl         time.Duration // 0 if the session was cut
	silentSince time.Time     // zero while the node has a session, or if it is not known
}

// lossBeginning is the time at which the first lost node of a job became silent.
type lossBeginning = time.Time

// recoveryBuckets are narrow around the times that the documentation promises: 15 s with a lost_after of 12 s, and 27 s
// with the default.
var recoveryBuckets = []float64{1, 2, 5, 10, 11, 12, 13, 14, 15, 17.5, 20, 22.5, 24, 25, 26, 27, 28, 30, 35, 45, 60, 120, 300, 900, 3600, 14400}

func newRecovery() *Recovery {
	return &Recovery{
		nodes: map[string]nodeSession{}, lost: map[ares.JobID]lossBeginning{},
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "topology_scheduler_recovery_duration_seconds",
			Help: "Time from the loss of a node until a job that ran there has all its ranks on nodes again. " +
				"The loss is the node's last renewal, where nodes renew a session. Counted by the leader.", Buckets: recoveryBuckets,
		}),
	}
}

// Lead makes this replica count recoveries until the returned function is called.
func (r *Recovery) Lead() (end func()) {
	r.setLeads(true)
	return func() { r.setLeads(false) }
}

func (r *Recovery) setLeads(leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = leads
}

// Lost notes that a job has lost a node which is silent since the given time. If the job has already lost another node and
// does not run again yet, the earlier time counts. Follow calls Lost for a seat that was voided; a scheduler whose jobs lose
// nodes in another way calls it itself.
func (r *Recovery) Lost(job ares.JobID, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLoss(job, since)
}

// Recovered counts the recovery of a job whose ranks all have their nodes again. It does nothing for a job that has not
// lost a node. Follow calls it for a job that becomes running.
func (r *Recovery) Recovered(job ares.JobID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countRecovery(job, now)
}

// Forget drops a job that has lost a node and will not run again.
func (r *Recovery) Forget(job ares.JobID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lost, job)
}

func (r *Recovery) noteLoss(job ares.JobID, since time.Time) {
	if was, ok := r.lost[job]; !ok || since.Before(was) {
		r.lost[job] = since
	}
}

func (r *Recovery) countRecovery(job ares.JobID, now time.Time) {
	if since, ok := r.lost[job]; ok && r.leads {
		r.durations.Observe(now.Sub(since).Seconds())
	}
	delete(r.lost, job)
}

// The method `follow` reads one batch of changes.
func (r *Recovery) follow(b *ares.Batch, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Reset {
		clear(r.nodes)
		clear(r.lost)
	}
	for i := range b.Events { // first, because a revocation ends the session and marks the record in one revision
		if n := b.Events[i].Node; n != nil {
			r.nodes[n.ID] = nodeSession{ttl: silenceBeforeEnd(n), silentSince: r.nodes[n.ID].silentSince}
		}
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Session != nil:
			r.nodes[e.Session.Node] = nodeSession{ttl: r.nodes[e.Session.Node].ttl}
		case e.Gone.Kind == ares.KindSession:
			ttl := r.nodes[e.Gone.ID].ttl
			r.nodes[e.Gone.ID] = nodeSession{ttl: ttl, silentSince: now.Add(-ttl)}
		case e.Gone.Kind == ares.KindNode:
			delete(r.nodes, e.Gone.ID)
		case e.Run != nil && !b.Reset:
			r.followRun(e.Run.Job, &e.Run.Run, now)
		case e.Gone.Kind == ares.KindJob:
			delete(r.lost, ares.JobID(e.Gone.ID))
		}
	}
}

// silenceBeforeEnd returns how long a node has been silent when its session ends.
func silenceBeforeEnd(n *ares.Node) time.Duration {
	if n.SessionCut {
		return 0
	}
	return max(n.SessionTTL, 0)
}

// followRun notes that a job has lost a node, and counts the job's recovery.
func (r *Recovery) followRun(id ares.JobID, run *ares.Run, now time.Time) {
	last := run.Last()
	switch {
	case last == nil:
	case run.Phase.Final():
		delete(r.lost, id)
	case run.Phase == ares.Running && !last.Ended():
		r.countRecovery(id, now)
	case last.Ended():
		for i := range last.Seats {
			h := &last.Seats[i]
			if since := r.nodes[h.Node].silentSince; h.State == ares.SeatVoided && !since.IsZero() {
				r.noteLoss(id, since)
			}
		}
	}
}
