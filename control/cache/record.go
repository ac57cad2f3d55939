package cache

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// jobRecord is how the view keeps a job. A pending job that was never placed has no run in the store, and its Entry
// follows from its spec. Its Entry is therefore made when it is read, which takes a third of the memory. A long queue
// consists of such jobs.
type jobRecord struct {
	job      *ares.Job              // nil if the view does not have the job
	forecast *ares.RuntimePredicted // Invariant: nil if entry is not nil
	entry    *Entry                 // nil for a job without a run and without a progress report
}

// The method `view` returns the Entry of a job, or nil if the view does not have the job.
func (r jobRecord) view() *Entry {
	if r.entry != nil || r.job == nil {
		return r.entry
	}
	return &Entry{Job: r.job, Run: ares.NewRun(r.job.AcceptedAt), Forecast: r.forecast}
}

// The method `phase` returns the phase of a job.
func (r jobRecord) phase() ares.Phase {
	if r.entry != nil {
		return r.entry.Run.Phase
	}
	return ares.Pending
}

// The method `entry` returns the entry of a job, or nil if the view does not have the job. The caller holds the lock.
func (v *View) entry(id ares.JobID) *Entry { return v.jobs[id].view() }

// The method `put` replaces the entry of a job.
func (v *View) put(e *Entry) {
	if old := v.jobs[e.Job.ID].job; old != nil && old != e.Job {
		if i, ok := slices.BinarySearchFunc(v.order, old, ByAcceptance); ok {
			v.order[i] = e.Job // lists read a job from the order
		}
	}
	v.jobs[e.Job.ID] = jobRecord{job: e.Job, entry: e}
}
