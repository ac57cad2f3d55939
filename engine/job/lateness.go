package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// scheduleDeadlineNote notes when something is to be noted of a job's deadline next: that it is
// past, or before that, that by its predicted runtime the job would be late.
func (j *Table) scheduleDeadlineNote(e *Entry) {
	if e.Job == nil || e.Job.Deadline.IsZero() || e.Phase().Final() || e.Run != nil && e.Run.Lateness == ares.LatenessMissed {
		j.deadlineTimers.cancel(&e.deadlineTimer)
		return
	}
	e.deadlineTimer.entry = e
	j.deadlineTimers.schedule(&e.deadlineTimer, EarlierOf(e.lateRiskAt(), e.Job.Deadline))
}

// lateRiskAt is from when on the job would be late: of one that waits, when it should
// have started; of one that runs, since it does. It is zero for never, and when that
// was noted already or is not known from runs like it.
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

// NoteDeadlines notes how jobs stand to their deadlines, each once. A plan touches each run
// at most once: those that it changes otherwise have to wait for the next.
func (j *Table) NoteDeadlines(plan *ares.Plan) {
	if len(j.deadlineTimers) == 0 {
		return
	}
	var over []*Entry
	next := j.deadlineTimers.collectDue(plan.Now, func(e *Entry) { over = append(over, e) })
	if len(over) == 0 {
		plan.Wake = EarlierOf(plan.Wake, next)
		return
	}
	touched := changedJobs(plan)
	slices.SortFunc(over, func(a, b *Entry) int {
		return cmp.Or(a.deadlineTimer.at.Compare(b.deadlineTimer.at), cmp.Compare(a.ID, b.ID))
	})
	for _, e := range over {
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

// changedJobs is the jobs whose runs a plan changes.
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
