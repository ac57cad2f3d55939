package job

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
func (j *Table) scheduleQueueTimeout(e *Entry) {
	if most := e.Job.MaxQueueMinutes; most > 0 && (e.Run == nil || e.Run.Placed == 0) {
		e.queueTimeout.entry = e
		j.queueTimeouts.schedule(&e.queueTimeout, e.Job.AcceptedAt.Add(time.Duration(most)*time.Minute))
	}
}

// ExpireQueued ends the jobs that have waited for their first place for as long as they
// would (max_queue_minutes), unless this plan gives them one or keeps one for them,
// or was cut before their turn. Of an array those elements are given up that were
// not made; the others go on.
func (j *Table) ExpireQueued(plan *ares.Plan) {
	if len(j.queueTimeouts) == 0 {
		return
	}
	var over []*Entry
	next := j.queueTimeouts.collectDue(plan.Now, func(e *Entry) { over = append(over, e) })
	if len(over) > 0 && len(plan.Place) == config.MaxPlacings {
		over = j.onlyRefused(over, plan)
	}
	slices.SortFunc(over, func(a, b *Entry) int {
		return cmp.Or(a.queueTimeout.at.Compare(b.queueTimeout.at), cmp.Compare(a.ID, b.ID))
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
		most := time.Duration(e.Job.MaxQueueMinutes) * time.Minute
		since, waits := j.waitingSince(e)
		switch {
		case !waits || served[e.ID]:
		case since.Add(most).After(plan.Now):
			next = EarlierOf(next, since.Add(most))
		case len(plan.Stop) == config.MaxPlacings:
			next = plan.Now
		default:
			plan.Stop = append(plan.Stop, ares.Stopping{Job: e.ID, Stop: ares.Stop{
				Why: ares.StopQueue, At: plan.Now,
				By: fmt.Sprintf("waited %d min, the most it asked for (max_queue_minutes)", e.Job.MaxQueueMinutes),
			}})
		}
	}
	plan.Wake = EarlierOf(plan.Wake, next)
}

// onlyRefused leaves those of some jobs whose turn a plan has come to that is full: they
// or others of their shape are refused. Those behind have it in the next plan.
func (j *Table) onlyRefused(of []*Entry, plan *ares.Plan) []*Entry {
	shapes, jobs := map[*Shape]bool{}, map[ares.JobID]bool{}
	for i := range plan.Refuse {
		r := &plan.Refuse[i]
		jobs[r.Job] = true
		alone := slices.ContainsFunc(r.Blockers, func(b ares.Blocker) bool { return b.Kind == ares.BlockerOrder || b.Detail == BorrowBlockedText })
		if e := j.EntryByID[r.Job]; !alone { // others of its shape may be done sooner
			shapes[e.Shape] = true
		}
	}
	return slices.DeleteFunc(of, func(e *Entry) bool { return !shapes[e.Shape] && !jobs[e.ID] })
}

// waitingSince is from when on the job waits for a place: since it was accepted, or
// those have ended that it comes after; an array since the last of its elements was
// placed or ended. It is false when something else is waited for: jobs it comes
// after, its own parallelism, or seats that are kept for it.
func (j *Table) waitingSince(e *Entry) (since time.Time, waits bool) {
	since = e.Job.AcceptedAt
	for _, id := range e.Shape.After {
		before := j.EntryByID[id]
		if before == nil || before.Job == nil {
			continue // it will never be seen to have succeeded
		}
		if !before.Phase().Final() {
			return since, false
		}
		since = LaterOf(since, before.Run.FinishedAt)
	}
	if e.Run != nil && e.Run.Nominated != nil || j.ParallelismText(e) != "" {
		return since, false
	}
	if e.IsArray() {
		for i := range e.NextElement() {
			if el := j.EntryByID[ares.ElementID(e.ID, i)]; el != nil && el.Run != nil {
				since = LaterOf(since, el.Run.FinishedAt)
				if len(el.Run.Attempts) > 0 {
					since = LaterOf(since, el.Run.Attempts[0].PlacedAt)
				}
			}
		}
	}
	return since, true
}
