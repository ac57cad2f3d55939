package ares

import (
	"slices"
	"time"
)

// Origin is the grant under which a member of a federation holds a job. A job that was submitted to this cluster has none.
// Invariant: it never changes. A job that comes back to the same member under a new grant is a new record.
type Origin struct {
	Hub   string // the ID of the hub's store
	Epoch int64  // the number of the grant; later grants of the same job have higher epochs
}

// GrantState says who may start a job of a hub.
type GrantState string

// The states of a grant. A job without a grant waits, or has ended.
const (
	GrantOffered GrantState = "offered" // no cluster may start it; the listed clusters may claim it
	GrantBound   GrantState = "bound"   // one cluster may start it, whether or not it reaches the hub
)

// MaxOffered is the largest number of clusters to which a job is offered at the same time.
const MaxOffered = 3

// Grant is the hub's record of the clusters that may start a job.
type Grant struct {
	Job   JobID
	State GrantState
	// Epoch is the revision at which the record was created. After a restore of the hub it may be that of a record which the
	// backup did not have.
	Epoch    int64
	Clusters []string // offered: the clusters that may claim the job, best first
	// Cluster and Incarnation are the owner of a bound job. An incarnation is one life of the owner's store.
	Cluster     string
	Incarnation string
	At          time.Time // time of the offer or of the claim
	Revision    int64     // revision of the record's last change
}

// IsOpenTo reports whether a cluster may claim the job.
func (g *Grant) IsOpenTo(cluster string) bool {
	return g.State == GrantOffered && slices.Contains(g.Clusters, cluster)
}

// IsHeldBy reports whether the incarnation of a cluster owns the job under the given epoch (F4).
func (g *Grant) IsHeldBy(cluster, incarnation string, epoch int64) bool {
	return g.State == GrantBound && g.Epoch == epoch && g.Cluster == cluster && g.Incarnation == incarnation
}

// A granted job's fencing token is the epoch of its grant and, in the lowest bits, the number of the attempt under this
// grant (F12). Revisions of two clusters' stores cannot be compared, so a fence alone would not order the attempts of two
// clusters.
const (
	tokenAttemptBits = 16
	maxTokenAttempt  = 1<<tokenAttemptBits - 1
	// restoredAttempts is how much a restore raises the numbers in the tokens of later attempts. Attempts that were started
	// after the backup are unknown, and their tokens must not be given out again.
	restoredAttempts = 1000
)

// FencingToken returns the token of an attempt, which the job's processes get as ARES_FENCING_TOKEN. The tokens of one job
// only grow. For a job that was submitted to this cluster, the token is the fence. The tokens of a granted job begin with
// the epoch of the grant. They stay below those of every later grant, so the number of the attempt stops growing at its
// largest value.
func (r *Run) FencingToken(j *Job, a *Attempt) int64 {
	if j.Origin == nil {
		return int64(a.Fence)
	}
	return j.Origin.Epoch<<tokenAttemptBits + int64(min(a.Number+r.TokenBase, maxTokenAttempt))
}

// Return gives a granted job back to its hub (F3). No attempt may be under way, and no process of an earlier attempt may be
// alive. An at_most_once job that was ever placed cannot be returned. Return is a transition of the run, so that it
// competes with the start of an attempt on the same record.
func (r *Run) Return(j *Job, why string, now time.Time) error {
	if err := r.CheckReturn(j); err != nil {
		return err
	}
	return r.changePhase(Returned, now, "returned to the hub: "+why)
}

// CheckReturn returns an error unless the job can be returned to its hub now (F3).
func (r *Run) CheckReturn(j *Job) error {
	switch {
	case j.Origin == nil:
		return Errorf(Conflict, "job %s was submitted to this cluster, so it cannot be returned to a hub", j.ID)
	case j.ArrayOf != "":
		return Errorf(Conflict, "job %s is an element of array %s: only a whole array can be returned", j.ID, j.ArrayOf)
	case r.Unconfirmed:
		return Errorf(Conflict, "job %s cannot be returned before the hub has confirmed this restored cluster", j.ID)
	case !r.Phase.Waiting() || r.Current() != nil || r.Stop != nil || r.Next > 0:
		return Errorf(Conflict, "job %s is %s, and only a waiting job can be returned", j.ID, r.Phase)
	case !r.Settled():
		return Errorf(Conflict, "job %s cannot be returned: a process of an earlier attempt may still be alive", j.ID)
	case j.Mode == AtMostOnce && r.Placed > 0:
		return Errorf(Conflict, "job %s cannot be returned: it is an %s job that was placed before", j.ID, AtMostOnce)
	}
	return nil
}

// Drop ends a granted job that the hub no longer grants to this cluster. A waiting job ends at once as returned. A running
// job is stopped. The hub takes no report about it.
func (r *Run) Drop(j *Job, why string, now time.Time) error {
	if j.Origin == nil {
		return Errorf(Conflict, "job %s was submitted to this cluster, so a hub cannot take it back", j.ID)
	}
	r.Unconfirmed = false
	if r.Phase.Waiting() {
		return r.changePhase(Returned, now, "taken back by the hub: "+why)
	}
	return r.RequestStop(Stop{Why: StopCancel, By: "the hub: " + why, At: now})
}

// Suspend keeps a granted job from starting until the hub confirms it again, and stops its attempt (F11). The attempt ends as
// if its node were drained, so it does not count as a failure. It reports whether that changed the run.
func (r *Run) Suspend(j *Job, by string, now time.Time) bool {
	if j.Origin == nil || r.Phase.Final() || r.Unconfirmed {
		return false
	}
	r.Unconfirmed, r.Nominated = true, nil
	r.addTransition(now, "suspended: "+by)
	if r.Current() != nil && r.Stop == nil {
		r.Stop = &Stop{Why: StopDrain, By: by, At: now, Grace: j.Grace()}
	}
	return true
}

// Confirm ends the wait of a granted job after a restore of its cluster. It reports whether that changed the run.
func (r *Run) Confirm(now time.Time) bool {
	if !r.Unconfirmed {
		return false
	}
	r.Unconfirmed = false
	r.addTransition(now, "confirmed by the hub")
	return true
}
