package engine

import "time"

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
	// renewal is how many times longer a job may take once it is late.
	renewal = 3
	// headway is how many steps of ageing before the end of its class a job is at
	// least when it should start. Those who run for less go by the time at which
	// they should be done, which favours short ones.
	headway = 100
	// farthest is within how many steps of ageing a deadline counts. By then the
	// job has aged as far as it could be lifted.
	farthest = 2000
)

// urgency is where a deadline puts a job: see queue.Item. It holds until then,
// zero for always.
type urgency struct {
	due   time.Time
	roof  int
	until time.Time
}

// urgency works it out as of now.
func (s *State) urgency(e *entry, now time.Time) urgency {
	accepted := e.job.AcceptedAt
	now = later(now, accepted)
	step := s.cfg.AgeingStep
	window, need := e.job.Deadline.Sub(accepted), e.need()
	for window > 0 && window <= farthest*step {
		last := accepted.Add(window - need)
		if !now.Before(last) {
			window *= renewal
			continue
		}
		out := urgency{due: sooner(accepted.Add(window), last.Add(headway*step))}
		out.roof, out.until = s.order.Config().Roof(e.job.PriorityValue(), accepted, now)
		out.until = sooner(out.until, last)
		return out
	}
	return urgency{}
}

// need is how long the job is taken to run where that tells whether it can be
// done in time. Nine of ten like it take no longer; but whoever set the deadline
// knew something too, and is not given up in the first half of the time.
func (e *entry) need() time.Duration {
	_, late := e.runtime()
	if late != never {
		late = max(late-e.done(time.Time{}), 0)
	}
	return min(late, e.job.Deadline.Sub(e.job.AcceptedAt)/2)
}

// hasDeadline says whether a deadline decides where the job waits.
func (s *State) hasDeadline(e *entry) bool {
	return !e.job.Deadline.IsZero() && s.cfg.Queueing.Order == OrderAged
}

// press gives the item of a job with a deadline its urgency, before it waits.
func (s *State) press(e *entry) {
	u := s.urgency(e, s.clock)
	e.item.Due, e.item.Roof = u.due, u.roof
	e.turns.entry = e
	s.dates.set(&e.turns, u.until)
}

// pressed says whether a pending job waits by another urgency than its own.
func (s *State) pressed(e *entry) bool {
	u := s.urgency(e, s.clock)
	return e.item.Roof != u.roof || !e.item.Due.Equal(u.due) || !e.turns.at.Equal(u.until)
}

// atClock puts the jobs with deadlines where they stand at now. What it does is a
// function of the jobs and of now, whatever it was asked before.
func (s *State) atClock(now time.Time) {
	back := now.Before(s.clock)
	s.clock = now
	if back {
		for _, a := range append(alarms(nil), s.dates...) {
			s.reorder(a.entry)
		}
		return
	}
	for len(s.dates) > 0 && s.dates[0].rings(now) {
		s.reorder(s.dates[0].entry)
	}
}

// reorder lets a job wait by its present urgency.
func (s *State) reorder(e *entry) {
	u := s.urgency(e, s.clock)
	if e.item.Roof != u.roof || !e.item.Due.Equal(u.due) {
		s.order.Remove(&e.item)
		e.item.Due, e.item.Roof = u.due, u.roof
		e.shape.leaf.Push(&e.item)
	}
	s.dates.set(&e.turns, u.until)
}

// shuffled is when the order changes next without an event, zero when that means
// nothing: who finds no place does not hold up anybody then.
func (s *State) shuffled() time.Time {
	if s.cfg.Queueing.Blocked == BlockedSkip || len(s.dates) == 0 {
		return time.Time{}
	}
	return s.dates[0].at
}
