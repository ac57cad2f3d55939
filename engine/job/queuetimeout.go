package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// scheduleQueueTimeout sets the timer of a job with max_queue_minutes that was never
// placed.
func (j *Table) scheduleQueueTimeout(e *Entry) {
	if minutes := e.Job.MaxQueueMinutes; minutes > 0 && (e.Run == nil || e.Run.Placed == 0) {
		e.queueTimeout.entry = e
		j.queueTimeouts.schedule(&e.queueTimeout, e.Job.AcceptedAt.Add(time.Duration(minutes)*time.Minute))
	}
}

// ExpireQueued stops the jobs that were not placed within max_queue_minutes, unless this
// plan places or nominates them, or was cut before their turn. An array creates no more
// elements then; the others go on.
func (j *Table) ExpireQueued(plan *ares.Plan) {
	if len(j.queueTimeouts) == 0 {
		return
	}
	var due []*Entry
	next := j.queueTimeouts.collectDue(plan.Now, func(e *Entry) { due = append(due, e) })
	if len(due) > 0 && len(plan.Place) == config.MaxPlacings {
		due = j.keepRefused(due, plan)
	}
	slices.SortFunc(due, func(a, b *Entry) int {
		return cmp.Or(a.queueTimeout.at.Compare(b.queueTimeout.at), cmp.Compare(a.ID, b.ID))
	})
	served := map[ares.JobID]bool{}
	if len(due) > 0 {
		for i := range plan.Place {
			served[cmp.Or(plan.Place[i].ArrayOf, plan.Place[i].Job)] = true
		}
		for i := range plan.Nominate {
			served[plan.Nominate[i].Job] = true
		}
	}
	for _, e := range due {
		limit := time.Duration(e.Job.MaxQueueMinutes) * time.Minute
		since, waits := j.waitingSince(e)
		switch {
		case !waits || served[e.ID]:
		case since.Add(limit).After(plan.Now):
			next = EarlierOf(next, since.Add(limit))
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

// keepRefused returns the jobs whose turn came in a plan that was cut: they, or others
// of their shape, were refused. The rest has its turn in the next plan.
func (j *Table) keepRefused(of []*Entry, plan *ares.Plan) []*Entry {
	shapes, jobs := map[*Shape]bool{}, map[ares.JobID]bool{}
	for i := range plan.Refuse {
		r := &plan.Refuse[i]
		jobs[r.Job] = true
		ownReason := slices.ContainsFunc(r.Blockers, func(b ares.Blocker) bool { return b.Kind == ares.BlockerOrder || b.Detail == BorrowBlockedText })
		if e := j.EntryByID[r.Job]; !ownReason { // others of its shape were skipped with it
			shapes[e.Shape] = true
		}
	}
	return slices.DeleteFunc(of, func(e *Entry) bool { return !shapes[e.Shape] && !jobs[e.ID] })
}

// waitingSince returns since when the job waits for capacity: since it was accepted, or
// since its dependencies have ended; an array since its last element was placed or
// ended. waits is false when the job waits for something else: its dependencies, its own
// parallelism, or the seats it was nominated for.
func (j *Table) waitingSince(e *Entry) (since time.Time, waits bool) {
	since = e.Job.AcceptedAt
	for _, id := range e.Shape.After {
		before := j.EntryByID[id]
		if before == nil || before.Job == nil {
			continue // a dependency that is not live can never be met
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
