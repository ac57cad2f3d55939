package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// scheduleDeadlineNote sets the timer for the next note about the job's deadline: that
// it is missed, or before that, that the job is predicted to miss it.
func (j *Table) scheduleDeadlineNote(e *Entry) {
	if e.Job == nil || e.Job.Deadline.IsZero() || e.Phase().Final() || e.Run != nil && e.Run.Lateness == ares.LatenessMissed {
		j.deadlineTimers.cancel(&e.deadlineTimer)
		return
	}
	e.deadlineTimer.entry = e
	j.deadlineTimers.schedule(&e.deadlineTimer, EarlierOf(e.lateRiskAt(), e.Job.Deadline))
}

// lateRiskAt returns from when on the job is predicted to miss its deadline: for a
// waiting job the latest start, for a running job its start. It is zero for never, when
// that was noted already, and without a prediction.
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

// NoteDeadlines adds notes to the plan for the jobs that missed their deadline or are
// predicted to, each once. A plan changes each run at most once, so jobs that it changes
// otherwise get their note from the next plan.
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
		return cmp.Or(a.deadlineTimer.at.Compare(b.deadlineTimer.at), cmp.Compare(a.ID, b.ID))
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
