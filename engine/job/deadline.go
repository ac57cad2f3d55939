package job

import "time"

// A deadline changes the order of jobs only within one class of one queue, so a deadline does not help a job
// against other queues. This file describes deadlines with config.OrderAged. File expectedwork.go describes them
// with config.OrderExpectedWork. With ageing, every waiting job has a time at which it reaches the top of its priority
// class. If a job's deadline is before that time, the job is ordered as if it reached the top of its class at
// the deadline. Only two things change this order:
//
//   - If a job will probably miss its deadline, the time from its acceptance to its deadline is tripled, as often as
//     necessary. So the job falls behind jobs that can still meet their deadlines, and short jobs are not late for
//     long. The policy "earliest deadline first" does the opposite: late jobs come first and make other jobs late.
//   - Ageing moves a job to the next class.
//
// A deadline never puts a job behind the position that ageing alone gives it.
const (
	// extensionFactor multiplies the time from a job's acceptance to its deadline when the job will probably miss
	// the deadline.
	extensionFactor = 3
	// headwaySteps limits the due time: a job is due at most this number of ageing steps after its latest
	// possible start. A job whose runtime is shorter than headwaySteps ageing steps is due at its deadline,
	// which favours short jobs.
	headwaySteps = 100
	// A deadline affects the order only if it is no more than horizonSteps ageing steps after the job's acceptance.
	// After that time, ageing alone has moved the job as far as a deadline could.
	horizonSteps = 2000
)

// An urgency describes the position in the queue that a job has because of its deadline. An urgency expires at the
// time in the field `until`. The fields `due` and `classCeiling` are explained at queue.Item. The zero value means
// that the deadline does not affect the order.
type urgency struct {
	due          time.Time
	classCeiling int
	until        time.Time // zero for always
}

// urgencyOf returns the urgency of a job at the time `now`.
func (j *Table) urgencyOf(e *Entry, now time.Time) urgency {
	accepted := e.Job.AcceptedAt
	now = LaterOf(now, accepted)
	step := j.cfg.AgeingStep
	allowed, runtime := e.Job.Deadline.Sub(accepted), e.runtimeForDeadline()
	for allowed > 0 && allowed <= horizonSteps*step {
		latestStart := accepted.Add(allowed - runtime)
		if !now.Before(latestStart) {
			allowed *= extensionFactor
			continue
		}
		out := urgency{due: EarlierOf(accepted.Add(allowed), latestStart.Add(headwaySteps*step))}
		out.classCeiling, out.until = j.Queues.Config().ClassCeiling(e.Job.PriorityValue(), accepted, now)
		out.until = EarlierOf(out.until, latestStart)
		return out
	}
	return urgency{}
}

// runtimeForDeadline returns the remaining runtime that decides whether the job can meet its deadline. The result
// is the p90 estimate, but no more than half of the time from the job's acceptance to its deadline. A deadline is
// itself evidence about the runtime. Therefore a job is not treated as late in the first half of the time to its
// deadline. A forecast counts only if it comes from earlier runs of the same job: other jobs do not make a job late.
func (e *Entry) runtimeForDeadline() time.Duration {
	_, p90 := e.RuntimeEstimate()
	if f := e.Forecast; f != nil && f.Own == 0 {
		if p90 = Forever; e.Job.MaxRuntimeMinutes > 0 {
			p90 = e.Job.MaxRuntime()
		}
	}
	if p90 != Forever {
		p90 = max(p90-e.Done(time.Time{}), 0)
	}
	return min(p90, e.Job.Deadline.Sub(e.Job.AcceptedAt)/2)
}
