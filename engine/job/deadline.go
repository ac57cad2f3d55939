package job

import (
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

// A deadline counts inside the class and the queue of a job, so nobody gets ahead
// of other queues by one. There, every job has a time by which it should be done:
// with ageing that is when it comes to the end of its class. A deadline sooner than
// that counts instead: jobs with one go by it, and among the others as if they
// had waited for so long already. The order of all of them is fixed, until
//
//   - a job can hardly be in time any more. It is then taken to have asked for
//     three times as long, and again: it makes room for those who still can, and
//     short jobs are not late for long. This is where earliest deadline first
//     fails: who is late comes first there, and makes the next ones late;
//   - ageing takes a job into the next class.
//
// Nobody is ever behind the place that ageing alone would give him.
const (
	// extensionFactor is how many times longer a job may take once it is late.
	extensionFactor = 3
	// headwaySteps is how many steps of ageing before the end of its class a job is at
	// least when it should start. Those who run for less go by the time at which
	// they should be done, which favours short ones.
	headwaySteps = 100
	// horizonSteps is within how many steps of ageing a deadline counts. By then the
	// job has aged as far as it could be lifted.
	horizonSteps = 2000
)

// urgency is where a deadline puts a job: see queue.Item. It holds until then,
// zero for always.
type urgency struct {
	due          time.Time
	classCeiling int
	until        time.Time
}

// urgencyOf works it out as of now.
func (j *Table) urgencyOf(e *Entry, now time.Time) urgency {
	accepted := e.Job.AcceptedAt
	now = LaterOf(now, accepted)
	step := j.cfg.AgeingStep
	window, need := e.Job.Deadline.Sub(accepted), e.runtimeForDeadline()
	for window > 0 && window <= horizonSteps*step {
		last := accepted.Add(window - need)
		if !now.Before(last) {
			window *= extensionFactor
			continue
		}
		out := urgency{due: EarlierOf(accepted.Add(window), last.Add(headwaySteps*step))}
		out.classCeiling, out.until = j.Queues.Config().ClassCeiling(e.Job.PriorityValue(), accepted, now)
		out.until = EarlierOf(out.until, last)
		return out
	}
	return urgency{}
}

// runtimeForDeadline is how long the job is taken to run where that tells whether it can be
// done in time. Nine of ten like it take no longer; but whoever set the deadline
// knew something too, and is not given up in the first half of the time.
func (e *Entry) runtimeForDeadline() time.Duration {
	_, late := e.RuntimeEstimate()
	if late != Forever {
		late = max(late-e.Done(time.Time{}), 0)
	}
	return min(late, e.Job.Deadline.Sub(e.Job.AcceptedAt)/2)
}

// ordersByDeadline says whether a deadline decides where the job waits.
func (j *Table) ordersByDeadline(e *Entry) bool {
	return !e.Job.Deadline.IsZero() && j.cfg.Queue.Order == config.OrderAged
}

// applyUrgency gives the item of a job with a deadline its urgency, before it waits.
func (j *Table) applyUrgency(e *Entry) {
	u := j.urgencyOf(e, j.clock)
	e.Item.Due, e.Item.ClassCeiling = u.due, u.classCeiling
	e.urgencyTimer.entry = e
	j.urgencyTimers.schedule(&e.urgencyTimer, u.until)
}

// urgencyChanged says whether a pending job waits by another urgency than its own.
func (j *Table) urgencyChanged(e *Entry) bool {
	u := j.urgencyOf(e, j.clock)
	return e.Item.ClassCeiling != u.classCeiling || !e.Item.Due.Equal(u.due) || !e.urgencyTimer.at.Equal(u.until)
}

// AdvanceClock puts the jobs with deadlines where they stand at now. What it does is a
// function of the jobs and of now, whatever it was asked before.
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

// requeueByUrgency lets a job wait by its present urgency.
func (j *Table) requeueByUrgency(e *Entry) {
	u := j.urgencyOf(e, j.clock)
	if e.Item.ClassCeiling != u.classCeiling || !e.Item.Due.Equal(u.due) {
		j.Queues.Remove(&e.Item)
		e.Item.Due, e.Item.ClassCeiling = u.due, u.classCeiling
		e.Shape.Leaf.Push(&e.Item)
	}
	j.urgencyTimers.schedule(&e.urgencyTimer, u.until)
}

// NextOrderChange is when the order changes next without an event, zero when that means
// nothing: who finds no place does not hold up anybody then.
func (j *Table) NextOrderChange() time.Time {
	if j.cfg.Queue.Blocked == config.BlockedSkip || len(j.urgencyTimers) == 0 {
		return time.Time{}
	}
	return j.urgencyTimers[0].at
}
