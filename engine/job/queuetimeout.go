package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// scheduleQueueTimeout handles a job that has max_queue_minutes and was never placed. It
// sets the timer of this job.
func (j *Table) scheduleQueueTimeout(e *Entry) {
	if minutes := e.Job.MaxQueueMinutes; minutes > 0 && (e.Run == nil || e.Run.Placed == 0) {
		j.queueTimeouts.schedule(&e.ownTimers().queueTimeout, e.Job.AcceptedAt.Add(time.Duration(minutes)*time.Minute))
	}
}

// ExpireQueued stops the jobs that were not placed within max_queue_minutes. ExpireQueued does not stop a job that
// this plan places or nominates. It also does not stop a job that the cycle did not reach because the plan was
// full. An expired array creates no more elements, but its existing elements continue.
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
		return cmp.Or(a.timers.queueTimeout.at.Compare(b.timers.queueTimeout.at), cmp.Compare(a.ID, b.ID))
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
				By: fmt.Sprintf("not started within %d min (max_queue_minutes)", e.Job.MaxQueueMinutes),
			}})
		}
	}
	plan.Wake = EarlierOf(plan.Wake, next)
}

// keepRefused returns the jobs that the cycle considered before the plan was full. The cycle has considered a
// job if it refused this job or another job with the same Shape. The next plan considers all other jobs.
func (j *Table) keepRefused(of []*Entry, plan *ares.Plan) []*Entry {
	shapes, jobs := map[*Shape]bool{}, map[ares.JobID]bool{}
	for i := range plan.Refuse {
		r := &plan.Refuse[i]
		jobs[r.Job] = true
		ownReason := slices.ContainsFunc(r.Blockers, func(b ares.Blocker) bool {
			return b.Kind == ares.BlockerOrder || b.Detail.String() == BorrowBlockedText
		})
		if e := j.EntryByID[r.Job]; !ownReason { // others of its shape were skipped with it
			shapes[e.Shape] = true
		}
	}
	return slices.DeleteFunc(of, func(e *Entry) bool { return !shapes[e.Shape] && !jobs[e.ID] })
}

// waitingSince returns the time from which the job has waited for capacity. The wait for capacity starts when the
// job was accepted or when its dependencies ended. For an array, the wait starts when an element was last placed
// or ended. The second result is false if the job does not wait for capacity. It then waits for its dependencies,
// for its array's parallelism limit, or for its nominated seats.
func (j *Table) waitingSince(e *Entry) (since time.Time, waits bool) {
	since = j.mayStartSince(e)
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
