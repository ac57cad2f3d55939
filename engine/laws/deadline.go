package laws

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// queueRank returns the position of a job in its queue, higher first: twice its
// priority minus the ageing steps before it was accepted. A deadline that ranks
// the job higher replaces this by the odd number below the end of its class,
// minus the steps before the due time, and returns that time.
func (t *checker) queueRank(job *ares.Job) (level int64, due time.Time) {
	step := t.cfg.AgeingStep
	level = 2 * (int64(job.PriorityValue()) - ageingSteps(job.AcceptedAt, step))
	due, ok := t.dueTime(job)
	if !ok {
		return level, time.Time{}
	}
	end := 3000
	if class := ares.ClassOf(agedPriority(job, t.plan.Now, step)).Rank() + 1; class < len(ares.Classes()) {
		end = ares.Classes()[class].Floor()
	}
	if lifted := 2*(int64(end)-ageingSteps(due, step)) - 1; lifted > level {
		return lifted, due
	}
	return level, time.Time{}
}

// dueTime returns the time by which a job with a deadline should reach the end
// of its class. A deadline that can no longer be met is tripled until it can:
// the job needs its p90 runtime, at most half of the first deadline.
func (t *checker) dueTime(job *ares.Job) (time.Time, bool) {
	given := job.Deadline.Sub(job.AcceptedAt)
	if job.Deadline.IsZero() || given <= 0 {
		return time.Time{}, false
	}
	need, known := job.MaxRuntime(), job.MaxRuntime() > 0
	if f, ok := t.state.Forecast(job.ID); ok {
		need, known = max(f.P50, f.P90), true
	}
	if known {
		run, _ := t.state.Run(job.ID)
		need = max(need-run.Done(job, time.Time{}), 0)
	}
	if !known || need > given/2 {
		need = given / 2
	}
	waited := max(t.plan.Now.Sub(job.AcceptedAt), 0)
	for n := given; n <= 2000*t.cfg.AgeingStep; n *= 3 {
		if waited < n-need {
			return job.AcceptedAt.Add(min(n, n-need+100*t.cfg.AgeingStep)), true
		}
	}
	return time.Time{}, false
}
