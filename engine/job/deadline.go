package job

import (
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

// A deadline orders a job within its class and its queue only, so that no job
// overtakes other queues by one. With ageing, every waiting job has a time at which it
// reaches the end of its class. A job whose deadline is earlier than that stands where
// a job would stand that reaches the end of its class at the deadline. This order is
// fixed, until
//
//   - a job can hardly meet its deadline any more. The time from its acceptance to its
//     deadline then counts three times as long, and again when that is too short. The
//     job falls behind those that can still be in time, and short jobs are not late
//     for long. Earliest deadline first does the opposite: late jobs come first, and
//     make the next ones late;
//   - ageing moves a job to the next class.
//
// A deadline never puts a job behind the position that ageing alone gives it.
const (
	// extensionFactor multiplies the time to the deadline once a job can hardly meet it.
	extensionFactor = 3
	// headwaySteps bounds the due time to so many ageing steps after the latest
	// start. Jobs that run for less are due at their deadline, which favours short
	// ones.
	headwaySteps = 100
	// horizonSteps is within how many ageing steps after the acceptance a deadline
	// counts. In that time ageing alone moves the job as far as a deadline could.
	horizonSteps = 2000
)

// urgency is where a deadline puts a job in its queue, until it changes. See queue.Item
// for due and classCeiling. The zero value is that of a job whose deadline does not
// count.
type urgency struct {
	due          time.Time
	classCeiling int
	until        time.Time // zero for always
}

// urgencyOf returns the urgency of a job at now.
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

// runtimeForDeadline returns the remaining runtime that decides whether the job can meet
// its deadline: the p90 estimate, but at most half of the time from its acceptance to
// its deadline. Whoever set the deadline knew something too, so the job is not given up
// in the first half.
func (e *Entry) runtimeForDeadline() time.Duration {
	_, p90 := e.RuntimeEstimate()
	if p90 != Forever {
		p90 = max(p90-e.Done(time.Time{}), 0)
	}
	return min(p90, e.Job.Deadline.Sub(e.Job.AcceptedAt)/2)
}

// ordersByDeadline reports whether the job has a deadline that orders it.
func (j *Table) ordersByDeadline(e *Entry) bool {
	return !e.Job.Deadline.IsZero() && j.cfg.Queue.Order == config.OrderAged
}

// applyUrgency sets the urgency of a job with a deadline before it is pushed, and its
// timer.
func (j *Table) applyUrgency(e *Entry) {
	u := j.urgencyOf(e, j.clock)
	e.Item.Due, e.Item.ClassCeiling = u.due, u.classCeiling
	e.urgencyTimer.entry = e
	j.urgencyTimers.schedule(&e.urgencyTimer, u.until)
}

// urgencyChanged reports whether a pending job has an outdated urgency.
func (j *Table) urgencyChanged(e *Entry) bool {
	u := j.urgencyOf(e, j.clock)
	return e.Item.ClassCeiling != u.classCeiling || !e.Item.Due.Equal(u.due) || !e.urgencyTimer.at.Equal(u.until)
}

// AdvanceClock moves the jobs with deadlines to where they stand at now. The result
// depends on the jobs and on now alone, not on earlier calls: now may be earlier than
// before.
func (j *Table) AdvanceClock(now time.Time) {
	back := now.Before(j.clock)
	j.clock = now
	if back {
		for _, a := range append(timerHeap(nil), j.urgencyTimers...) {
			j.requeueByUrgency(a.entry)
		}
		return
	}
	for len(j.urgencyTimers) > 0 && j.urgencyTimers[0].isDue(now) {
		j.requeueByUrgency(j.urgencyTimers[0].entry)
	}
}

// requeueByUrgency updates the urgency of a pending job, its position and its timer.
func (j *Table) requeueByUrgency(e *Entry) {
	u := j.urgencyOf(e, j.clock)
	if e.Item.ClassCeiling != u.classCeiling || !e.Item.Due.Equal(u.due) {
		j.Queues.Remove(&e.Item)
		e.Item.Due, e.Item.ClassCeiling = u.due, u.classCeiling
		e.Shape.Leaf.Push(&e.Item)
	}
	j.urgencyTimers.schedule(&e.urgencyTimer, u.until)
}

// NextOrderChange returns when a deadline changes the order next without an event. It is
// zero for never, and when the order does not matter because blocked jobs are skipped.
func (j *Table) NextOrderChange() time.Time {
	if j.cfg.Queue.Blocked == config.BlockedSkip || len(j.urgencyTimers) == 0 {
		return time.Time{}
	}
	return j.urgencyTimers[0].at
}
