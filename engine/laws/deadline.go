package laws

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// queueRank returns the rank of a job in its queue. A job with a higher rank comes first. Without a deadline, the
// rank is 2 × (P − A). P is the job's priority, and A is the number of ageing steps from 1970 until its
// acceptance. If a deadline ranks the job higher, the rank is 2 × (E − D) − 1. E is the priority at the top of
// the job's class, and D is the number of ageing steps from 1970 until the due time. If a deadline decides the
// rank, queueRank also returns the due time.
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

// dueTime returns the due time of a job with a deadline. By this time the job should reach the top of its
// priority class. As long as the job cannot meet the deadline, the time to the deadline is tripled. The time
// that the job needs is its p90 runtime, but no more than half of the time from acceptance to the original
// deadline.
func (t *checker) dueTime(job *ares.Job) (time.Time, bool) {
	given := job.Deadline.Sub(job.AcceptedAt)
	if job.Deadline.IsZero() || given <= 0 {
		return time.Time{}, false
	}
	need := t.runtimeForDeadline(job, given)
	waited := max(t.plan.Now.Sub(job.AcceptedAt), 0)
	for n := given; n <= 2000*t.cfg.AgeingStep; n *= 3 {
		if waited < n-need {
			return job.AcceptedAt.Add(min(n, n-need+100*t.cfg.AgeingStep)), true
		}
	}
	return time.Time{}, false
}

// runtimeForDeadline returns the remaining runtime that decides whether a job can meet its deadline: the p90 of the
// job's own runs or its time limit, but at most half of the given time from its acceptance to its deadline.
func (t *checker) runtimeForDeadline(job *ares.Job, given time.Duration) time.Duration {
	need, known := job.MaxRuntime(), job.MaxRuntime() > 0
	if f, ok := t.state.Forecast(job.ID); ok && f.Own > 0 {
		need, known = max(f.P50, f.P90), true
	}
	if known {
		run, _ := t.state.Run(job.ID)
		need = max(need-run.Done(job, time.Time{}), 0)
	}
	if !known || need > given/2 {
		need = given / 2
	}
	return need
}
