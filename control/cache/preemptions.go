package cache

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Preemption is one attempt that is or was preempted for another job.
type Preemption struct {
	Job     *ares.Job
	Attempt *ares.Attempt
	Details *ares.Preemption
	At      time.Time // when the attempt ended or, while it runs, when it was asked to stop
	Gone    bool
}

// PreemptionsOf lists those preempted attempts of a job that are still retained, oldest first. The last entry is
// the attempt that is being preempted now, if there is one.
func PreemptionsOf(j *ares.Job, r *ares.Run) []Preemption {
	var out []Preemption
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Preemption != nil {
			out = append(out, Preemption{Job: j, Attempt: a, Details: a.Preemption, At: a.EndedAt, Gone: true})
		}
	}
	if s := r.Stop; s != nil && s.Preemption != nil && r.Current() != nil {
		out = append(out, Preemption{Job: j, Attempt: r.Current(), Details: s.Preemption, At: s.At})
	}
	return out
}

// wasPreempted reports whether PreemptionsOf would list at least one preemption.
func wasPreempted(r *ares.Run) bool {
	return r.Preemptions > 0 || r.Stop != nil && r.Stop.Preemption != nil
}

// PreemptionFilter selects preemptions. A zero field of PreemptionFilter matches everything.
type PreemptionFilter struct {
	Tenant string     // tenant of the victim or of the preemptor
	Job    ares.JobID // the victim or the preemptor
	Since  time.Time
}

// Preemptions lists the preemptions of live jobs, newest first. The time to list preemptions
// depends on how many there are, not on the number of jobs.
func (v *View) Preemptions(f PreemptionFilter) ([]Preemption, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Preemption
	for id := range v.preempted { // order-free: sorted below
		e := v.entry(id)
		for _, p := range PreemptionsOf(e.Job, &e.Run) {
			if (f.Tenant == "" || f.Tenant == p.Job.Tenant || f.Tenant == p.Details.Tenant) &&
				(f.Job == "" || f.Job == p.Job.ID || f.Job == p.Details.To) && !p.At.Before(f.Since) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, Preemption.Compare)
	return out, v.revision
}

// Compare orders preemptions, newest first.
func (p Preemption) Compare(o Preemption) int {
	return cmp.Or(o.At.Compare(p.At), cmp.Compare(p.Job.ID, o.Job.ID), cmp.Compare(o.Attempt.Number, p.Attempt.Number))
}

// Nominations counts the waiting jobs for which seats are reserved while the preempted jobs stop.
func (v *View) Nominations() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.kept
}
