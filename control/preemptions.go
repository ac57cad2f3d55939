package control

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Preemption is one attempt that gives way to another job, or gave way.
type Preemption struct {
	Job     *ares.Job
	Attempt *ares.Attempt
	Yield   *ares.Preemption
	At      time.Time // it was asked to stop; once it is gone, it ended
	Gone    bool
}

// PreemptionsOf are the attempts of a job that gave way, oldest first, as far as
// they are kept, and the one that is asked to.
func PreemptionsOf(j *ares.Job, r *ares.Run) []Preemption {
	var out []Preemption
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Yield != nil {
			out = append(out, Preemption{Job: j, Attempt: a, Yield: a.Yield, At: a.EndedAt, Gone: true})
		}
	}
	if s := r.Stop; s != nil && s.Yield != nil && r.Current() != nil {
		out = append(out, Preemption{Job: j, Attempt: r.Current(), Yield: s.Yield, At: s.At})
	}
	return out
}

// yielded says whether a run has anything for PreemptionsOf.
func yielded(r *ares.Run) bool { return r.Yields > 0 || r.Stop != nil && r.Stop.Yield != nil }

// PreemptionFilter selects preemptions. Zero fields select all.
type PreemptionFilter struct {
	Tenant string     // of who gave way, or of who was given way to
	Job    ares.JobID // likewise
	Since  time.Time
}

// Preemptions lists who gave way to whom among live jobs, newest first. It costs
// what there are of them, however many jobs there are.
func (v *View) Preemptions(f PreemptionFilter) ([]Preemption, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Preemption
	for id := range v.yields { // order-free: sorted below
		e := v.jobs[id]
		for _, p := range PreemptionsOf(e.Job, &e.Run) {
			if (f.Tenant == "" || f.Tenant == p.Job.Tenant || f.Tenant == p.Yield.Tenant) &&
				(f.Job == "" || f.Job == p.Job.ID || f.Job == p.Yield.To) && !p.At.Before(f.Since) {
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

// Nominations counts the jobs that seats are kept for while others give way.
func (v *View) Nominations() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.kept
}
