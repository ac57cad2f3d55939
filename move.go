package ares

import (
	"slices"
	"time"
)

// A job of a hub moves to another cluster when its owner returns it (Run.Return) and another cluster claims it. The methods in
// this file decide when a job may be returned after an attempt, and keep it from going back and forth.

// LeftCluster is a cluster that gave a job back to the hub. The hub does not offer the job to it for a while.
type LeftCluster struct {
	Cluster string
	Times   int       // how often it gave the job back
	Until   time.Time // the job is not offered to it before
}

// These constants damp the moves of a job. A cluster that gave a job back gets no offer of it for LeftFor, twice as long for each
// further time, and at most LeftFor << maxLeftDoublings. So a job that no cluster starts or completes visits each cluster
// several times an hour at first, and then less and less often. The first time is short, because the clusters that gave the job
// back may be the only ones that are left.
const (
	LeftFor          = 2 * time.Minute
	maxLeftDoublings = 7
	maxLeft          = 8 // clusters that are remembered
)

// Leave records, at a hub, that a cluster gave the job back.
func (r *Run) Leave(cluster string, now time.Time) {
	left := slices.Clone(r.Left)
	l := LeftCluster{Cluster: cluster}
	if at := slices.IndexFunc(left, func(o LeftCluster) bool { return o.Cluster == cluster }); at >= 0 {
		l = left[at]
		left = slices.Delete(left, at, at+1)
	}
	l.Times++
	l.Until = now.Add(l.lasts())
	left = append(left, l)
	r.Left = left[max(len(left)-maxLeft, 0):]
}

// The method `lasts` returns how long the cluster gets no offer after it gave the job back the last time.
func (l *LeftCluster) lasts() time.Duration {
	return LeftFor << min(max(l.Times-1, 0), maxLeftDoublings)
}

// LeftAt returns the clusters to which the job is not offered at a time, because they gave it back lately. A nil run has none.
// If the clock went back, more time is left than there ever was, and nobody knows how much of it is over. The job does not wait for
// the clock then.
func (r *Run) LeftAt(now time.Time) []LeftCluster {
	if r == nil {
		return nil
	}
	var out []LeftCluster
	for _, l := range r.Left {
		if left := l.Until.Sub(now); left > 0 && left <= l.lasts() {
			out = append(out, l)
		}
	}
	return out
}

// HasLeft reports whether the job is not offered to a cluster at a time, because the cluster gave it back lately.
func (r *Run) HasLeft(cluster string, now time.Time) bool {
	return slices.ContainsFunc(r.LeftAt(now), func(l LeftCluster) bool { return l.Cluster == cluster })
}

// FailedInARow counts the last attempts in this cluster that failed or were lost, one after the other. Attempts that Ares
// stopped, to preempt them or to drain a node, say nothing of the cluster and are left out.
func (r *Run) FailedInARow() (n int) {
	for i := len(r.Attempts) - 1; i >= 0; i-- {
		switch r.Attempts[i].Outcome {
		case OutcomeFailed, OutcomeSignaled, OutcomeTimeout, OutcomeSpawnError, OutcomeLost:
			n++
		case OutcomeStopped:
		case OutcomeSucceeded, "":
			return n
		}
	}
	return n
}

// AwaitsHub reports whether the job is not placed because of its hub: the hub has not confirmed it yet, or it is being
// returned. A nil run is that of a job without a stored run.
func (r *Run) AwaitsHub() bool { return r != nil && (r.Unconfirmed || r.Returning != "") }

// IsMovable reports whether the hub may take the job to another cluster. An at_most_once job that was placed is started nowhere
// else, and of an array only the whole can be returned.
func (r *Run) IsMovable(j *Job) bool {
	switch {
	case j.Mode == AtMostOnce && r.Placed > 0, j.ArrayOf != "":
		return false
	case j.IsArray():
		return r.Phase.Waiting() && r.Next == 0
	}
	return true
}

// StopToReturn stops the attempt of a granted job, so that the job can be returned to its hub. The attempt ends as if its node were
// drained, so it does not count as a failure. The job is not placed again in this cluster: its uplink returns it when every
// process has ended (F3).
func (r *Run) StopToReturn(j *Job, why string, now time.Time) error {
	switch {
	case j.Origin == nil:
		return Errorf(Conflict, "job %s was submitted to this cluster, so it cannot be returned to a hub", j.ID)
	case !r.IsMovable(j):
		return Errorf(Conflict, "job %s runs to its end: it is an %s job that was placed, or an array whose elements have started", j.ID, AtMostOnce)
	case r.Unconfirmed:
		return Errorf(Conflict, "job %s cannot be returned before the hub has confirmed it", j.ID)
	case r.Current() == nil:
		return Errorf(Conflict, "job %s is %s: there is no attempt to stop", j.ID, r.Phase)
	case r.Stop != nil && r.Stop.Why == StopCancel:
		return Errorf(Conflict, "job %s is being cancelled", j.ID)
	}
	r.Returning = why
	if r.Stop == nil {
		return r.RequestStop(Stop{Why: StopDrain, By: "the hub: " + why, At: now, Grace: j.Grace()})
	}
	return nil
}
