package ares

import (
	"maps"
	"strings"
	"time"
)

// JobUpdate holds the fields of a job that were changed after the job was accepted, with their new values. A field that
// is nil was not changed. The stored spec of a job is never rewritten: its updates are part of its run, so a change of
// a job is one transaction that a placement or the job's end cannot miss.
type JobUpdate struct {
	Priority          *int              `json:",omitempty"`
	MaxRuntimeMinutes *int              `json:",omitempty"`
	Labels            map[string]string `json:",omitempty"` // all labels of the job; nil if they were not changed
}

// Updated returns the job with the changes of an update. It returns the job itself if the update changes nothing, so a
// caller can compare pointers to see whether the job changed. Updated is idempotent.
func (j *Job) Updated(u *JobUpdate) *Job {
	if j == nil || u == nil || j.has(u) {
		return j
	}
	out := *j
	if u.Priority != nil {
		out.Priority, out.PriorityClass = new(*u.Priority), ClassOf(*u.Priority)
	}
	if u.MaxRuntimeMinutes != nil {
		out.MaxRuntimeMinutes = *u.MaxRuntimeMinutes
	}
	if u.Labels != nil {
		out.Labels = maps.Clone(u.Labels)
	}
	return &out
}

// The method `has` reports whether the job already has all values of an update.
func (j *Job) has(u *JobUpdate) bool {
	return (u.Priority == nil || j.Priority != nil && *j.Priority == *u.Priority) &&
		(u.MaxRuntimeMinutes == nil || j.MaxRuntimeMinutes == *u.MaxRuntimeMinutes) &&
		(u.Labels == nil || maps.Equal(j.Labels, u.Labels))
}

// Update records changes of a job that has not ended. The argument j is the job with its earlier updates. The priority
// and the time limit can be changed only while the job waits, because a running attempt was placed with the one and
// started with the other. If the job has these values already, nothing changes. The result says whether the job
// changed.
func (r *Run) Update(j *Job, u JobUpdate, by string, now time.Time) (changed bool, err error) {
	switch {
	case r.Phase.Final():
		return false, Errorf(Conflict, "the job is already %s", r.Phase)
	case j.has(&u):
		return false, nil
	case r.IsBound():
		return false, Errorf(Conflict, "cluster %s owns job %s: update it at a server of that cluster", r.Cluster, j.ID)
	case r.Stop != nil:
		return false, Errorf(Conflict, "the job is being stopped (%s)", r.Stop.Why)
	case j.IsArray() && r.Next > 0:
		return false, Errorf(Conflict, "elements of the array have been created: update the elements that wait, such as %s[%d]", j.ID, r.Next-1)
	case (u.Priority != nil || u.MaxRuntimeMinutes != nil) && !r.Phase.Waiting():
		return false, Errorf(Conflict, "the job is %s: its priority and its time limit can be changed only while it waits", r.Phase)
	}
	var what []string
	next := JobUpdate{}
	if r.Updated != nil {
		next = *r.Updated
	}
	if u.Priority != nil {
		next.Priority, what = u.Priority, append(what, "priority")
	}
	if u.MaxRuntimeMinutes != nil {
		next.MaxRuntimeMinutes, what = u.MaxRuntimeMinutes, append(what, "time limit")
	}
	if u.Labels != nil {
		next.Labels, what = u.Labels, append(what, "labels")
	}
	r.Updated = &next
	r.addTransition(now, strings.Join(what, ", ")+" changed by "+by)
	return true, nil
}
