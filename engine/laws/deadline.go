package laws

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// queueRank is twice the priority of a job less the steps that had passed when it was
// accepted, or, of one whose deadline puts it further ahead, the odd number below
// the end of its class less the steps at that time, with the time.
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

// dueTime is the time by which the order wants a job with a deadline to come to the
// end of its class. The deadline is put off threefold until the job can be done by
// it: it takes what nine of ten like it do, and half of the first deadline at most.
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
