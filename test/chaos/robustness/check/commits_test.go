package check_test

import (
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func TestOneCommit(t *testing.T) {
	t.Parallel()
	plant(t, []planted{
		{"another end after the end", check.OneCommit, "was succeeded before, for good", func(r *trace.Run) {
			runs(r, "plain")[3].Phase = ares.Failed
		}},
		{"alive after the end", check.OneCommit, "was cancelled before, for good", func(r *trace.Run) {
			runs(r, "stopped")[4].Phase = ares.Running
		}},
		{"a success without a process", check.OneCommit, "never said so: started false", func(r *trace.Run) {
			r.Witnesses["plain"] = nil
		}},
		{"a success of which one rank never ended", check.OneCommit, "rank 1 never said so: started true, ended false", func(r *trace.Run) {
			r.Witnesses["gang"] = slices.DeleteFunc(r.Witnesses["gang"], func(w trace.Witness) bool { return w.Rank == 1 && w.Verb == trace.Ended })
		}},
		{"a success that one rank had no part in", check.OneCommit, "rank 0 of attempt 1 has not succeeded", func(r *trace.Run) {
			for _, run := range runs(r, "gang")[3:] {
				run.Attempts[0].Seats[0].Result.Outcome = ares.OutcomeFailed
			}
		}},
		{"the result of an old attempt", check.OneCommit, "which was current", func(r *trace.Run) {
			run := runs(r, "lost")[5]
			run.Attempts = run.Attempts[:1]
		}},
		{"an end without an attempt", check.OneCommit, "no attempt was under way", func(r *trace.Run) {
			run := runs(r, "lost")[3]
			run.Phase, run.Attempts = ares.Succeeded, run.Attempts[:1]
		}},
		{"an end before the attempt's", check.OneCommit, "attempt 1 has not ended", func(r *trace.Run) {
			runs(r, "plain")[2].Attempts[0].Outcome = ""
		}},
		{"an outcome that changes", check.OneCommit, "attempt 1 had ended as lost", func(r *trace.Run) {
			runs(r, "lost")[4].Attempts[0].Outcome = ares.OutcomeSucceeded
		}},
		{"a late report", check.OneCommit, "after the attempt had ended", func(r *trace.Run) {
			for _, run := range runs(r, "lost")[2:4] {
				run.Attempts[0].Seats[0].Result = nil
			}
		}},
		{"a result that changes", check.OneCommit, "was succeeded and changed", func(r *trace.Run) {
			runs(r, "plain")[3].Attempts[0].Seats[0].Result.ExitCode = 1
		}},
		{"a cancel that is forgotten", check.OneCommit, "the cancel was forgotten", func(r *trace.Run) {
			run := runs(r, "stopped")[3]
			run.Phase, run.Stop = ares.Pending, nil
		}},
		{"archived too early", check.OneCommit, "while running", func(r *trace.Run) {
			late := runs(r, "plain")
			late[2].Phase, late[3].Phase = ares.Running, ares.Running
		}},
		{"back from the archive", check.OneCommit, "it was archived and is back", func(r *trace.Run) {
			again(r, ares.Event{Job: firstJob(r, "plain")})
		}},
		{"a run in the archive", check.OneCommit, "has a run again", func(r *trace.Run) {
			again(r, ares.Event{Run: &ares.RunEvent{Job: "plain", Run: *runs(r, "plain")[1]}})
		}},
		{"accepted twice", check.OneCommit, "and again at", func(r *trace.Run) {
			j := *firstJob(r, "gang")
			j.Revision += 50
			again(r, ares.Event{Job: &j})
		}},
		{"a run of no job", check.OneCommit, "never accepted", func(r *trace.Run) {
			again(r, ares.Event{Run: &ares.RunEvent{Job: "nobody", Run: ares.NewRun(time.Time{})}})
		}},
	})
}

// This function appends one revision to a record.
func again(r *trace.Run, events ...ares.Event) {
	last := r.Store[len(r.Store)-1]
	r.Store = append(r.Store, trace.Entry{At: last.At + 1, Batch: ares.Batch{Revision: last.Batch.Revision + 1, Events: events}})
}

func firstJob(r *trace.Run, id string) *ares.Job {
	for _, e := range r.Store {
		for _, ev := range e.Batch.Events {
			if ev.Job != nil && string(ev.Job.ID) == id {
				return ev.Job
			}
		}
	}
	return nil
}

// TestForgottenTombstone checks that a request ID may be used again after its
// tombstone was removed.
func TestForgottenTombstone(t *testing.T) {
	t.Parallel()
	m := good(t)
	m.commit(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: "plain"}})
	m.submitAgain("plain")
	m.place("plain", "n1/0")
	m.start("plain")
	m.end("plain", ares.OutcomeSucceeded)
	for _, v := range check.Run(copied(t, m.finish())).Violations {
		if v.Oracle == check.OneCommit || v.Oracle == check.NothingLost {
			t.Error(v)
		}
	}
}

// submitAgain records that a new job was accepted under a request ID. The
// tombstone of that ID had been removed before.
func (m *made) submitAgain(id string) {
	delete(m.gone, id)
	m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == id })
	m.submit(id, 1)
}
