package ares

import "time"

// Hold is the last decision of a person or a program to hold or release a job. A job that nobody held or released has
// none, and is held only if it was submitted held.
type Hold struct {
	By       string
	At       time.Time
	Released bool
}

// IsHeld reports whether the job is held: it waits until it is released. A nil run is that of a job without a stored run.
//
// A granted job of a restored cluster is also held until its hub has confirmed it, and one that is returned to its hub until
// that is done. Releasing it does not end that.
func (r *Run) IsHeld(j *Job) bool {
	if r.AwaitsHub() {
		return true
	}
	return r.heldByUser(j)
}

// heldByUser reports whether a person or a program holds the job.
func (r *Run) heldByUser(j *Job) bool {
	if r == nil || r.Hold == nil {
		return j.Start != nil && j.Start.Hold
	}
	return !r.Hold.Released
}

// SetHold holds a waiting job, or releases it. It reports whether that changed the run. A job that is held already, or is
// not held and is released, stays as it is. A held array makes no new elements; its existing elements continue.
func (r *Run) SetHold(j *Job, held bool, by string, now time.Time) (changed bool, err error) {
	if !held {
		if r.Phase.Final() || !r.heldByUser(j) {
			return false, nil
		}
		r.Hold = &Hold{By: by, At: now, Released: true}
		r.note(now, "released by "+by)
		return true, nil
	}
	waits := r.Phase.Waiting() || j.IsArray() && !r.Phase.Final() && r.Next < j.Array.Count
	switch {
	case r.Phase.Final():
		return false, Errorf(Conflict, "job %s is already %s, so it cannot be held", j.ID, r.Phase)
	case r.IsBound():
		return false, Errorf(Conflict, "cluster %s owns job %s and may start it at any time: hold it at a server of that cluster, or cancel it", r.Cluster, j.ID)
	case !waits && j.IsArray():
		return false, Errorf(Conflict, "every element of array %s has started, so it cannot be held: hold a waiting element, or cancel the array", j.ID)
	case !waits:
		return false, Errorf(Conflict, "job %s is %s, and only a waiting job can be held: cancel it, or let it end", j.ID, r.Phase)
	case r.Stop != nil:
		return false, Errorf(Conflict, "job %s is being stopped (%s), so it cannot be held", j.ID, r.Stop.Why)
	case r.heldByUser(j):
		return false, nil
	}
	r.Hold, r.Nominated = &Hold{By: by, At: now}, nil
	r.note(now, "held by "+by)
	return true, nil
}

// The method `note` records a change that is not a change of the phase.
func (r *Run) note(now time.Time, message string) {
	if r.Phase.Waiting() {
		r.Reason = message
	}
	r.addTransition(now, message)
}
