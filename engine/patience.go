package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// scheduleQueueTimeout notes until when a job would wait for its first place, if it would not
// wait for ever.
func (j *jobTable) scheduleQueueTimeout(e *entry) {
	if most := e.job.MaxQueueMinutes; most > 0 && (e.run == nil || e.run.Placed == 0) {
		e.queueTimeout.entry = e
		j.queueTimeouts.schedule(&e.queueTimeout, e.job.AcceptedAt.Add(time.Duration(most)*time.Minute))
	}
}

// expireQueued ends the jobs that have waited for their first place for as long as they
// would (max_queue_minutes), unless this plan gives them one or keeps one for them,
// or was cut before their turn. Of an array those elements are given up that were
// not made; the others go on.
func (j *jobTable) expireQueued(plan *ares.Plan) {
	if len(j.queueTimeouts) == 0 {
		return
	}
	var over []*entry
	next := j.queueTimeouts.collectDue(plan.Now, func(e *entry) { over = append(over, e) })
	if len(over) > 0 && len(plan.Place) == config.MaxPlacings {
		over = j.onlyRefused(over, plan)
	}
	slices.SortFunc(over, func(a, b *entry) int {
		return cmp.Or(a.queueTimeout.at.Compare(b.queueTimeout.at), cmp.Compare(a.id, b.id))
	})
	served := map[ares.JobID]bool{}
	if len(over) > 0 {
		for i := range plan.Place {
			served[cmp.Or(plan.Place[i].ArrayOf, plan.Place[i].Job)] = true
		}
		for i := range plan.Nominate {
			served[plan.Nominate[i].Job] = true
		}
	}
	for _, e := range over {
		most := time.Duration(e.job.MaxQueueMinutes) * time.Minute
		since, waits := j.waitingSince(e)
		switch {
		case !waits || served[e.id]:
		case since.Add(most).After(plan.Now):
			next = earlierOf(next, since.Add(most))
		case len(plan.Stop) == config.MaxPlacings:
			next = plan.Now
		default:
			plan.Stop = append(plan.Stop, ares.Stopping{Job: e.id, Stop: ares.Stop{
				Why: ares.StopQueue, At: plan.Now,
				By: fmt.Sprintf("waited %d min, the most it asked for (max_queue_minutes)", e.job.MaxQueueMinutes),
			}})
		}
	}
	plan.Wake = earlierOf(plan.Wake, next)
}

// onlyRefused leaves those of some jobs whose turn a plan has come to that is full: they
// or others of their shape are refused. Those behind have it in the next plan.
func (j *jobTable) onlyRefused(of []*entry, plan *ares.Plan) []*entry {
	shapes, jobs := map[*shape]bool{}, map[ares.JobID]bool{}
	for i := range plan.Refuse {
		r := &plan.Refuse[i]
		jobs[r.Job] = true
		alone := slices.ContainsFunc(r.Blockers, func(b ares.Blocker) bool { return b.Kind == kindOrder || b.Detail == BorrowBlockedText })
		if e := j.entryByID[r.Job]; !alone { // others of its shape may be done sooner
			shapes[e.shape] = true
		}
	}
	return slices.DeleteFunc(of, func(e *entry) bool { return !shapes[e.shape] && !jobs[e.id] })
}

// waitingSince is from when on the job waits for a place: since it was accepted, or
// those have ended that it comes after; an array since the last of its elements was
// placed or ended. It is false when something else is waited for: jobs it comes
// after, its own parallelism, or seats that are kept for it.
func (j *jobTable) waitingSince(e *entry) (since time.Time, waits bool) {
	since = e.job.AcceptedAt
	for _, id := range e.shape.after {
		before := j.entryByID[id]
		if before == nil || before.job == nil {
			continue // it will never be seen to have succeeded
		}
		if !before.phase().Final() {
			return since, false
		}
		since = laterOf(since, before.run.FinishedAt)
	}
	if e.run != nil && e.run.Nominated != nil || j.parallelismText(e) != "" {
		return since, false
	}
	if e.isArray() {
		for i := range e.nextElement() {
			if el := j.entryByID[ares.ElementID(e.id, i)]; el != nil && el.run != nil {
				since = laterOf(since, el.run.FinishedAt)
				if len(el.run.Attempts) > 0 {
					since = laterOf(since, el.run.Attempts[0].PlacedAt)
				}
			}
		}
	}
	return since, true
}
