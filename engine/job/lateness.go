package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// scheduleDeadlineNote sets the timer for the next note about the job's deadline. The note says that the job has
// missed its deadline or is predicted to miss it.
func (j *Table) scheduleDeadlineNote(e *Entry) {
	if e.Job == nil || e.Job.Deadline.IsZero() || e.Phase().Final() || e.Run != nil && e.Run.Lateness == ares.LatenessMissed {
		if e.timers != nil {
			j.deadlineTimers.cancel(&e.timers.deadline)
		}
		return
	}
	j.deadlineTimers.schedule(&e.ownTimers().deadline, EarlierOf(e.lateRiskAt(), e.Job.Deadline))
}

// lateRiskAt returns the time from which the job is predicted to miss its deadline. For a waiting job, this is the
// latest start that would meet the deadline. For a running job, it is the actual start. The result is zero in
// three cases: the job is not predicted to be late, the risk was already noted, or there is no prediction.
func (e *Entry) lateRiskAt() time.Time {
	if e.Forecast == nil || e.Run != nil && e.Run.Lateness != ares.LatenessNone {
		return time.Time{}
	}
	start := e.Job.AcceptedAt
	if e.Run != nil {
		if a := e.Run.Current(); a != nil && !a.StartedAt.IsZero() {
			start = a.StartedAt
		}
	}
	o := e.Job.Outlook(e.Run, *e.Forecast, start)
	switch {
	case o.P90.IsZero():
		return time.Time{}
	case start != e.Job.AcceptedAt && o.Late() > 0:
		return start
	case start != e.Job.AcceptedAt:
		return time.Time{}
	}
	return start.Add(-o.Late())
}

// NoteDeadlines adds one note to the plan for each job that missed its deadline or is predicted to miss it. A plan
// changes each run only once. Therefore a job that this plan already changes gets its note from the next plan.
func (j *Table) NoteDeadlines(plan *ares.Plan) {
	if len(j.deadlineTimers) == 0 {
		return
	}
	var due []*Entry
	next := j.deadlineTimers.collectDue(plan.Now, func(e *Entry) { due = append(due, e) })
	if len(due) == 0 {
		plan.Wake = EarlierOf(plan.Wake, next)
		return
	}
	touched := changedJobs(plan)
	slices.SortFunc(due, func(a, b *Entry) int {
		return cmp.Or(a.timers.deadline.at.Compare(b.timers.deadline.at), cmp.Compare(a.ID, b.ID))
	})
	for _, e := range due {
		if touched[e.ID] {
			continue
		}
		if len(plan.Note) == config.MaxPlacings {
			next = plan.Now
			break
		}
		n := ares.Noting{Job: e.ID, Lateness: ares.LatenessMissed, Text: fmt.Sprintf("its deadline %s is past", e.Job.Deadline.UTC().Format(time.RFC3339))}
		if plan.Now.Before(e.Job.Deadline) {
			o := e.Job.Outlook(e.Run, *e.Forecast, plan.Now)
			n.Lateness, n.Text = ares.LatenessRisk, "warning: "+o.String()
		}
		plan.Note = append(plan.Note, n)
	}
	plan.Wake = EarlierOf(plan.Wake, next)
}

// changedJobs returns the jobs whose runs a plan changes.
func changedJobs(plan *ares.Plan) map[ares.JobID]bool {
	out := map[ares.JobID]bool{}
	for _, id := range plan.Ready {
		out[id] = true
	}
	for i := range plan.Place {
		out[plan.Place[i].Job] = true
	}
	for i := range plan.Arrays {
		out[plan.Arrays[i].Job] = true
	}
	for i := range plan.Stop {
		out[plan.Stop[i].Job] = true
	}
	for i := range plan.Nominate {
		out[plan.Nominate[i].Job] = true
	}
	for i := range plan.Withdraw {
		out[plan.Withdraw[i].Job] = true
	}
	return out
}
