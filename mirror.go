package ares

import (
	"slices"
	"time"
)

// At a hub, a job's run is a copy of the run in the cluster that owns the job. The methods in this file keep that copy.
// Run.Cluster is set exactly while a cluster owns the job, and after the job has ended in a cluster.

// IsBound reports whether a cluster of the federation owns the job. Only that cluster can start, return or end it.
func (r *Run) IsBound() bool { return r.Cluster != "" && !r.Phase.Final() }

// Bind records that a cluster owns the job from now on.
func (r *Run) Bind(cluster string, epoch int64, now time.Time) error {
	if !r.Phase.Waiting() || r.Stop != nil || r.Cluster != "" {
		return Errorf(Conflict, "the job is %s: only a waiting job without an owner can be bound to a cluster", r.Phase)
	}
	if slices.Contains(r.ExcludedClusters, cluster) {
		return Errorf(Conflict, "cluster %s has another job with this ID", cluster)
	}
	r.Cluster, r.Epoch, r.AsOf = cluster, epoch, 0
	r.addTransition(now, "granted to cluster "+cluster)
	return nil
}

// Base returns the part of a run that stays when the job is bound. Of the attempts, that is what has ended, with seats that are
// free: they belong to another cluster.
func (r *Run) Base() Run {
	base := r.Clone()
	base.Attempts = slices.DeleteFunc(base.Attempts, func(a Attempt) bool { return !a.Ended() || !a.Free() })
	return base
}

// attemptsOf returns the attempts before the job was bound, followed by those in the owner's run, and drops the oldest ones if there
// are too many. The method must be called on the new run.
func (r *Run) attemptsOf(base *Run) {
	seats := 0
	for i := range r.Attempts {
		seats += len(r.Attempts[i].Seats)
	}
	first := len(base.Attempts)
	for first > 0 && len(r.Attempts)+len(base.Attempts)-first < MaxAttemptsKept {
		if seats += len(base.Attempts[first-1].Seats); seats > MaxSeatsKept {
			break
		}
		first--
	}
	for i := range base.Attempts[:first] {
		r.addDropped(&base.Attempts[i])
	}
	r.Attempts = slices.Concat(base.Attempts[first:], r.Attempts)
}

// Mirror replaces the run by the owner's run `m`, added to what happened before the job was bound. It reports whether the
// owner's run is newer than the last one. A cancel intent of the hub stays. The owner's own stop intents are not copied:
// the owner may cancel an attempt, but only the hub's users cancel the job.
func (r *Run) Mirror(base, m *Run) (changed bool, err error) {
	switch {
	case r.Cluster == "" || r.Phase.Final():
		return false, Errorf(Fenced, "no cluster owns the job (it is %s)", r.Phase)
	case m.Phase == Returned:
		return false, Errorf(Invalid, "a returned job has no run to copy: report it as returned")
	case m.Revision <= r.AsOf:
		return false, nil
	}
	next := m.Clone()
	for i := range next.Attempts {
		a := &next.Attempts[i]
		a.Number, a.Cluster = a.Number+base.Placed, r.Cluster
		for k := range a.Seats {
			if a.Ended() {
				a.Seats[k].State = SeatReleased // the owner, not the hub, waits for the devices
			}
		}
	}
	next.Placed, next.Retries, next.Preemptions = base.Placed+m.Placed, base.Retries+m.Retries, base.Preemptions+m.Preemptions
	next.Ran += base.Ran
	next.DroppedUsage = addUsage(base.DroppedUsage, m.DroppedUsage)
	next.attemptsOf(base)
	next.Transitions, next.Dropped = slices.Clone(base.Transitions), base.Dropped+m.Dropped
	for i, t := range m.Transitions {
		if i == 0 && t.Message == accepted {
			continue // the hub accepted the job, and the owner only its grant
		}
		t.Attempt += base.Placed
		next.Transitions = append(next.Transitions, t)
	}
	next.limitTransitions()
	next.Cluster, next.ExcludedClusters, next.Epoch, next.AsOf = r.Cluster, r.ExcludedClusters, r.Epoch, m.Revision
	next.Stop, next.Hold, next.Updated, next.Notified = r.Stop, r.Hold, r.Updated, r.Notified
	next.Revision, next.Extra, next.Nominated = r.Revision, r.Extra, nil
	next.TokenBase, next.Unconfirmed, next.Returning, next.Left = 0, false, "", r.Left
	if next.Phase.Final() {
		next.Stop = nil
	}
	*r = next
	return true, nil
}

// AddElements adds the usage of an array's elements to the array's own run, of which a member sends a copy to its hub: the hub
// does not know the elements.
func (r *Run) AddElements(elements ...*Run) {
	for _, e := range elements {
		sum := e.Clone()
		for i := range sum.Attempts {
			sum.addDropped(&sum.Attempts[i])
		}
		r.Ran += sum.Ran
		r.DroppedUsage = addUsage(r.DroppedUsage, sum.DroppedUsage)
	}
}

// Unbind ends the ownership of a bound job. A job that is to be cancelled is cancelled now (F8). If the argument `started`
// is true, the owner may have started the job: an at_most_once job is then lost. Otherwise the job waits again.
func (r *Run) Unbind(j *Job, started bool, why string, now time.Time) error {
	if !r.IsBound() {
		return Errorf(Fenced, "no cluster owns the job (it is %s)", r.Phase)
	}
	from := r.Cluster
	if a := r.Current(); a != nil {
		a.Outcome, a.Reason, a.EndedAt = OutcomeLost, why, now
		for i := range a.Seats {
			a.Seats[i].State = SeatReleased
		}
	}
	stop := r.Stop
	r.Stop, r.Nominated, r.AsOf = nil, nil, 0
	switch {
	case stop != nil && stop.Why == StopCancel:
		return r.changePhase(Cancelled, now, "cancelled by "+stop.By)
	case started && j.Mode == AtMostOnce:
		return r.changePhase(Lost, now, why+"; at_most_once jobs are not run again")
	}
	r.Cluster, r.NotBefore = "", time.Time{}
	message := "cluster " + from + " no longer has it: " + why
	if r.Phase == Pending {
		r.Reason = message
		r.addTransition(now, message)
		return nil
	}
	return r.changePhase(Pending, now, message)
}

// Exclude records that a cluster has another job with this job's ID, so that the job is not offered to it again (F7).
func (r *Run) Exclude(cluster string) {
	if !slices.Contains(r.ExcludedClusters, cluster) {
		r.ExcludedClusters = append(slices.Clip(r.ExcludedClusters), cluster)
	}
}

// addUsage returns the sum of two lists of usage. Neither list is changed.
func addUsage(a, b []MonthUsage) []MonthUsage {
	sum := Run{DroppedUsage: slices.Clone(a)}
	for _, u := range b {
		into := sum.droppedIn(u.First)
		into.GPUMilli += u.GPUMilli
		into.Ran += u.Ran
	}
	return sum.DroppedUsage
}
