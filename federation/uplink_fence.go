package federation

import (
	"context"
	"maps"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/boottime"
	"github.com/ares-scheduler/ares/federation/grant"
)

// suspended is the reason that users read.
const suspended = "the hub does not answer, and the job has on_partition: fence"

// stopFenced suspends the jobs with on_partition: fence that must not run without an answer of the hub any longer (F11). A
// running job is stopped, and a suspended job does not start again before the hub has confirmed it.
func (u *Uplink) stopFenced(ctx context.Context, now boottime.Time) {
	type overdue struct {
		grant.Ref

		after time.Duration
	}
	mayRun := u.fenceAt(now)
	var due []overdue
	u.view.Search(func(j *ares.Job) bool {
		if j.Origin == nil {
			return false
		}
		after, fenced := fencedAfter(j)
		return fenced && !mayRun(after)
	}, func(e *entry) bool {
		if !e.Run.Phase.Final() && !e.Run.Unconfirmed {
			after, _ := fencedAfter(e.Job)
			due = append(due, overdue{grant.Ref{Job: e.Job.ID, Epoch: e.Job.Origin.Epoch}, after})
		}
		return true
	})
	for _, o := range due {
		if u.fenceAt(u.Boot())(o.after) {
			continue // the hub has answered since, and perhaps confirmed the job
		}
		err := u.Store.Suspend(ctx, o.Job, suspended, u.Now())
		if err != nil && ctx.Err() == nil {
			u.Log.Warn("a job that must not run without the hub could not be suspended yet", "job", o.Job, "error", err)
		}
		u.mu.Lock()
		u.suspended[o.Job] = o.Epoch // after the write, whose result may be unknown: an answer before it confirms nothing
		u.mu.Unlock()
	}
}

// fenceAt returns a function that says whether a fenced job may run at a time, by the silence after which the hub takes it.
func (u *Uplink) fenceAt(now boottime.Time) func(after time.Duration) bool {
	u.mu.Lock()
	answered, began := u.answered, u.began
	u.mu.Unlock()
	if answered.IsZero() {
		return func(after time.Duration) bool { return grant.MayStartMoved(now.Sub(began), after) }
	}
	return func(after time.Duration) bool { return grant.MayStart(now.Sub(answered), after) }
}

// The method `resume` confirms suspended jobs after the answer to a heartbeat of this session. The hub takes a job only from a
// cluster whose session it has ended, so they were bound to this cluster when the hub heard the heartbeat. An answer may arrive
// late, after a suspend of this machine for example, and the hub may have taken the job since. So a job is confirmed only if
// its time has not passed since the heartbeat was sent.
func (l *link) resume(sent, now boottime.Time) error {
	l.u.mu.Lock()
	due := maps.Clone(l.u.suspended)
	l.u.mu.Unlock()
	for id, epoch := range due { // order-free: jobs are independent
		if e := l.u.view.Job(id); e != nil && !mayConfirm(e.Job, now.Sub(sent)) {
			continue
		}
		if err := l.u.Store.Confirm(l.ctx, id, epoch, l.u.Now()); err != nil && !isOutdated(err) {
			return err
		}
		l.u.mu.Lock()
		delete(l.u.suspended, id)
		l.u.mu.Unlock()
	}
	return nil
}

// mayConfirm reports whether a word of the hub that is so old still says that a job is this cluster's (F11). It must be younger than
// the rule needs, or the job would be suspended again as soon as it has started.
func mayConfirm(j *ares.Job, age time.Duration) bool {
	after, fenced := fencedAfter(j)
	return !fenced || grant.MayStart(2*age, after)
}
